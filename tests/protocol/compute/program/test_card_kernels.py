"""Triton's kernels give the bits of the others, in Triton's interpreter: no graphics card is needed."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from touchstone.protocol.compute.program.card_choice import choose_kernels
from touchstone.protocol.compute.program.exact.device_kernels import DeviceKernels

HERE, ROOT = Path(__file__).parent, Path(__file__).resolve().parents[4]
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


@needs_triton
@pytest.mark.parametrize("part", ["elementwise", "reductions", "quantized", "products", "step"])
def test_kernels_give_the_bits_of_the_others(part: str) -> None:
    """In a process of its own: Triton reads the variable when it is loaded."""
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.protocol.compute.program.card_interpreted", part]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith("0 differ"), done.stdout


def test_nodes_take_none_of_them() -> None:
    """No card has run them yet."""
    assert choose_kernels(torch.device("cuda")) is DeviceKernels
