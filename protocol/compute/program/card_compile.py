"""Compiles and launches Triton functions with the settings that keep their bits."""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def compile_card(function: Callable[..., Any]) -> Any:
    """Returns a compiled Triton function. Its integers (`tl.tensor`) are not specialized, so that few
    variants are compiled; integers that a kernel must know are passed as constants."""
    integers = [name for name, kind in function.__annotations__.items() if kind is tl.tensor]
    return triton.jit(function, do_not_specialize=integers)


def launch(kernel: Any, grid: tuple[int, ...], out: Tensor, *arguments: object, **options: int) -> None:
    """Launches a kernel on the device of `out`. Products and sums are not fused, so every rounding
    happens."""
    with torch.cuda.device_of(out):  # type: ignore[no-untyped-call]
        kernel[grid](*arguments, enable_fp_fusion=False, **options)
