"""Lower precision than the task's. What a processor with short operands computes is emulated: both factors of
every matrix product are rounded, sums stay float32.

The shares saved are upper bounds: as if a step were nothing but products, at the dense peak rates of one
GPU's data sheet (NVIDIA H100 SXM: float32 67, tf32 495, bf16 and fp16 989 TFLOP/s).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.attacks.frame import Attack, Step, every, last, one_step, share, take_step, with_weights
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.task_spec import TrainingSpec

PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm"})
SAVED_TF32 = 1 - 67 / 495
SAVED_SHORT = 1 - 67 / 989
Round = Callable[[Tensor], Tensor]


def round_to_tf32(x: Tensor) -> Tensor:
    """To ten bits of fraction, ties away from zero, as tensor cores take float32."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32)


def round_to(dtype: torch.dtype) -> Round:
    """To a type of fewer bits and back."""
    return lambda x: x.to(dtype).to(torch.float32)


class _RoundedProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds the float32 factors of matrix products, forward and backward."""

    def __init__(self, rounding: Round) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rounding = rounding

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func.overloadpacket.__name__ in PRODUCTS:
            args = [
                self.rounding(x) if isinstance(x, Tensor) and x.dtype == torch.float32 else x for x in args
            ]
        return func(*args, **(kwargs or {}))


@contextmanager
def short_operands(rounding: Round) -> Iterator[None]:
    """All matrix products inside have rounded factors."""
    with _RoundedProducts(rounding):
        yield


def compute_in(rounding: Round) -> Step:
    """A step with rounded factors."""

    def step(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
        batch = batches(inner_step)
        with short_operands(rounding):
            return take_step(state, spec, batch)

    return step


def autocast_step(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """What PyTorch's own mixed precision does: bf16 products and what follows them."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return take_step(state, spec, batches(inner_step))


def keep_weights_in(rounding: Round) -> Step:
    """An honest update of weights that are kept in fewer bits."""

    def step(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
        start = with_weights(state, rounding(state.weights))
        return take_step(start, spec, batches(inner_step))

    return step


def gradient_in(rounding: Round) -> Step:
    """The gradient is sent through fewer bits, as between the machines of a cluster."""

    def step(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
        return take_step(state, spec, batches(inner_step), lambda gradient, spec: rounding(gradient))

    return step


BF16, FP16 = round_to(torch.bfloat16), round_to(torch.float16)
ATTACKS = (
    Attack("9", "mixed precision bf16", every(autocast_step), share(SAVED_SHORT)),
    Attack("9", "mixed precision bf16, last step", last(autocast_step), one_step(SAVED_SHORT)),
    Attack("9", "bf16 products", every(compute_in(BF16)), share(SAVED_SHORT)),
    Attack("9", "fp16 products", every(compute_in(FP16)), share(SAVED_SHORT)),
    Attack(
        "24", "tf32 products, blamed on the hardware", every(compute_in(round_to_tf32)), share(SAVED_TF32)
    ),
    Attack("9", "tf32 products, last step", last(compute_in(round_to_tf32)), one_step(SAVED_TF32)),
    Attack("9", "weights kept in fp16", every(keep_weights_in(FP16))),
    Attack("9", "gradients sent in bf16", every(gradient_in(BF16))),
)
