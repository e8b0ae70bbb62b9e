"""The benchmark of a graphics card, with the CPU in its place."""

import numpy as np
import pytest
import torch

from lab.benchmarks import device
from lab.benchmarks.device import compare_replays, sweep_functions
from lab.benchmarks.honesty.kinds import FUNCTIONS
from protocol.compute.program import device_kernels
from protocol.spec.program import Operation


def test_functions_are_swept_from_the_least_pattern_to_the_largest() -> None:
    patterns = [x.view(torch.int32) for x in device._iterate_numbers("cpu", 1 << 10)]
    joined = torch.cat(patterns)
    assert len(joined) == len(set(joined.tolist())) == 1 << 10 and int(joined[0]) == -(1 << 31)
    found = sweep_functions("cpu", 1 << 12)
    assert set(found) == {kind.name for kind in FUNCTIONS}
    assert all(
        0 < seen["worst_ulp"] <= seen["bound_ulp"] and not seen["bits_differ"] for seen in found.values()
    )


def test_other_bits_of_a_function_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def err(x: torch.Tensor) -> torch.Tensor:
        """One unit off for positive numbers; NaN has one pattern."""
        right = device_kernels.take_logarithms(x)
        return torch.where(x > 1, right.nextafter(torch.tensor(np.inf)), right)

    kind = Operation.LOGARITHM
    monkeypatch.setitem(device.EXACT, kind, (err, device.EXACT[kind][1]))
    x = torch.tensor([2.0, 3.0, 0.5, float("nan"), -1.0])
    assert device._count_differing(x, kind) == 2


def test_replays_on_a_device_are_compared_with_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "PRODUCT_BITS", {"exact8": 8})
    found = compare_replays("cpu", "0.2M", 1)
    assert found["distances"]["device"]["weights"] == 0
    assert {seen["differ"] for seen in found["exact"].values()} == {0}
