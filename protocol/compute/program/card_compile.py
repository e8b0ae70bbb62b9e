"""How Triton functions are compiled and launched: the one place that says what keeps their bits."""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def compile_card(function: Callable[..., Any]) -> Any:
    """Returns a Triton function. No integer of a kernel (`tl.tensor`) is specialized, so that few variants
    are compiled: what a kernel must know of one is told as a constant."""
    integers = [name for name, kind in function.__annotations__.items() if kind is tl.tensor]
    return triton.jit(function, do_not_specialize=integers)


def launch(kernel: Any, grid: tuple[int, ...], out: Tensor, *arguments: object, **options: int) -> None:
    """Begins a kernel where `out` lies. Products and sums stay apart: no rounding is left out."""
    with torch.cuda.device_of(out):  # type: ignore[no-untyped-call]
        kernel[grid](*arguments, enable_fp_fusion=False, **options)
