"""Chooses the kernels of exact programs on a graphics card: PyTorch's operations, or Triton's.

Nodes use PyTorch's operations. Triton's kernels give the same bits in Triton's interpreter, and no card has
run them yet (docs/decisions/0067-card-kernels.md). A node whose card gave other bits would lose its stake.
"""

from importlib import import_module

import torch

from touchstone.protocol.compute.program.exact.device_kernels import DeviceKernels

_takes_triton: list[bool] = []


def take_card_kernels(is_taken: bool) -> None:
    """Makes this process use Triton's kernels on every device but the processor, or stop using them."""
    _takes_triton[:] = [is_taken]


def choose_kernels(device: torch.device) -> type[DeviceKernels]:
    """Returns the kernels of a device, or the processor's kernels if its programs run on tensors. Raises
    ImportError if this process uses Triton's kernels and Triton is not installed."""
    if not any(_takes_triton):
        return DeviceKernels
    # Triton is optional, and takes long to load.
    found: type[DeviceKernels] = import_module("touchstone.protocol.compute.program.card_kernels").CardKernels
    return found
