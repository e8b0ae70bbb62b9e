"""The machines of the campaign: kernel configurations, and sums taken as other hardware takes them.

A machine of one kind offers few ways to multiply matrices: of `benchmarks.honest`'s 24 configurations many
give the same bits. The specification allows any order of a sum (docs/spec.md, section 8), so some workers
take theirs as other hardware does: in two halves (split-K, as GPUs), backwards, or in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.honest import Configuration
from protocol.compute.determinism import list_cpu_capabilities, pin_kernels

Product = Callable[..., Tensor]
"""Of two matrices, or batches of them, `out` as in `torch.mm`: where it is missing a new tensor."""


@dataclass(frozen=True)
class Machine:
    """A kernel configuration, and how it sums the products of a matrix product: a name in SUMS."""

    configuration: Configuration
    sums: str

    @property
    def name(self) -> str:
        """Short and unique."""
        return f"{self.configuration.name}-{self.sums}"

    def set_up(self) -> None:
        """Makes this process compute so. Its environment is `configuration.environment` already."""
        pin_kernels(self.configuration.threads, self.configuration.onednn)
        take_sums(SUMS[self.sums])


def list_machines() -> tuple[Machine, ...]:
    """Thirteen, each of whose settings differs from another's in something; one kind of vector
    instructions gives fewer."""
    best, *others = list_cpu_capabilities()
    last = others[-1] if others else best
    every = (
        Machine(Configuration(best, 1, True, ""), "library"),
        Machine(Configuration(best, 2, True, ""), "library"),
        Machine(Configuration(best, 1, False, ""), "library"),
        Machine(Configuration(best, 1, True, "COMPATIBLE"), "library"),
        Machine(Configuration(last, 1, True, ""), "library"),
        Machine(Configuration(last, 2, False, ""), "library"),
        Machine(Configuration(last, 2, True, "COMPATIBLE"), "library"),
        Machine(Configuration(best, 1, True, ""), "split"),
        Machine(Configuration(last, 2, True, ""), "split"),
        Machine(Configuration(best, 2, True, ""), "reversed"),
        Machine(Configuration(last, 1, True, ""), "reversed"),
        Machine(Configuration(best, 1, True, ""), "wide"),
        Machine(Configuration(last, 2, True, ""), "wide"),
    )
    return tuple(dict.fromkeys(every))


# --- Sums ---------------------------------------------------------------------------------------------------
def take_sums(make: Callable[[Product], Product]) -> None:
    """Replaces the library's matrix products in this process."""
    torch.mm, torch.bmm = make(torch.mm), make(torch.bmm)


def _allocate(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[-1]))


def _keep(product: Product) -> Product:
    return product


def _split(product: Product) -> Product:
    """The first half of the terms and the second, added."""

    def run(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
        half = a.shape[-1] // 2
        out = _allocate(a, b) if out is None else out
        if not half:
            return product(a, b, out=out)
        product(a[..., :half], b[..., :half, :], out=out)
        return out.add_(product(a[..., half:], b[..., half:, :]))

    return run


def _reverse(product: Product) -> Product:
    """The last term first."""

    def run(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
        return product(a.flip(-1), b.flip(-2), out=_allocate(a, b) if out is None else out)

    return run


def _widen(product: Product) -> Product:
    """Products and sums in float64, rounded once."""

    def run(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
        out = _allocate(a, b) if out is None else out
        return out.copy_(product(a.double(), b.double()))

    return run


SUMS: dict[str, Callable[[Any], Any]] = {
    "library": _keep,
    "split": _split,
    "reversed": _reverse,
    "wide": _widen,
}
