"""What only the kernels of PyTorch operations have: their functions, over patterns of all kinds.

Whole programs run by them in `test_exact_kernels.py`.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from touchstone.protocol.compute.program.exact.device_functions import (
    take_exponentials,
    take_logarithms,
    take_reciprocal_roots,
    take_sigmoids,
)
from touchstone.protocol.spec import exact_elementwise, exact_series


@pytest.mark.parametrize(
    ("function", "right"),
    [
        (take_exponentials, exact_series.take_exponential),
        (take_logarithms, exact_series.take_logarithm),
        (take_sigmoids, exact_series.take_sigmoid),
        (take_reciprocal_roots, exact_elementwise.take_reciprocal_root),
    ],
)
def test_functions_give_the_bits_of_the_specification(
    function: Callable[[Tensor], Tensor], right: Callable[[int], int]
) -> None:
    patterns = np.random.default_rng(3).integers(0, 1 << 32, 500, dtype=np.uint32)
    near = np.random.default_rng(4).uniform(-100, 100, 500).astype(np.float32).view(np.uint32)
    bits = np.concatenate([patterns, near, np.array([0, 1 << 31, 1, 0x7F800000, 0xFF800000], np.uint32)])
    found = function(torch.from_numpy(bits.view(np.float32))).numpy().view(np.uint32)
    assert [exact_elementwise.canonicalize(int(one)) for one in found] == [right(int(one)) for one in bits]
