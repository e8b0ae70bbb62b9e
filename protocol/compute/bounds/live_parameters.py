"""Finds parameters whose gradient is only rounding noise.

An optimizer may divide a gradient by its own size. If the true gradient is zero for every batch, only
rounding errors are left, and each becomes a full step of the learning rate. In tasks with limits, honest
machines then drift apart without bound, and a cheat can write any numbers there and call them noise. A key
bias is such a parameter, because softmax cancels it.

One step is computed twice, the second time with the operands of its products rounded to fewer bits. A real
gradient hardly changes by that; noise changes completely. Gradients that are exactly zero stay zero, and are
not noise.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.kernels.operand_rounding import PROBE_FORMAT
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.schedule import compute_bias_corrections
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.protocol.spec.weights_layout import WeightsLayout

MOVED = 2.0**-6
"""The largest move of a weight from its first value, because a gradient may be zero at the first values
alone."""
PERIOD = 1009
NOISE_SHARE = 0.25
"""An element of a result is noise if it changes by more than this share of its value. The results are the new
weights and moments, and change because the operands of products are rounded to fewer bits. A real gradient
changes by a thousandth at most, unless it is near zero."""
MOST_NOISY = 1 / 32
"""The share of a parameter's changed elements that may be noise, because some are near zero by chance."""
RATE = 2.0**-10
SEEN = 2.0**-18
"""A move of less than this share of a weight cannot be told from rounding."""


def require_live_parameters(step: TaskStep, spec: TrainingSpec, weights: Tensor, batch: Batch) -> None:
    """Raises InvalidInput, naming the parameters, if noise moves more than a few of a parameter's elements,
    in W or in one of the moments. Tries the bias corrections of a first and of a late step. Exact tasks may
    have such parameters. Computes four steps."""
    if spec.numeric_format in PRODUCT_BITS:
        return
    places = torch.arange(weights.numel()) % PERIOD
    apart = weights + torch.sin(places.float()) * MOVED
    noisy = dict[str, None]()
    for corrections in ((1.0, 1.0), compute_bias_corrections(spec.beta1, spec.beta2, 0)):
        scalars = torch.tensor([RATE, *corrections])
        found, probed = (
            _compute_moved(step, name, apart, batch, scalars) for name in ("float32", PROBE_FORMAT)
        )
        for one, other in zip(found, probed, strict=True):
            noisy |= dict.fromkeys(find_noisy(step.layout, one, other))
    if noisy:
        raise InvalidInput(
            what="the gradient of some parameters is rounding noise",
            expected="a gradient that data can move, for every trained parameter",
            actual="; ".join(noisy),
            remedy="Freeze these parameters or take them out, or train in an exact format. In float32 honest "
            "machines drift apart in them, and a cheat may write any numbers there.",
        )


def _compute_moved(
    step: TaskStep, numeric_format: str, weights: Tensor, batch: Batch, scalars: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns how far a step from zero moves W beyond its rounding, and both new moments."""
    built, zero = step.built, torch.zeros_like(weights)
    result = Interpreter(built.program, built.constants, numeric_format=numeric_format).run(
        (weights, zero, zero), *batch, scalars
    )
    moved = result.weights - weights
    is_seen = moved.abs() > weights.abs() * SEEN
    return torch.where(is_seen, moved, 0.0), result.first_moment.clone(), result.second_moment.clone()


def find_noisy(layout: WeightsLayout, found: Tensor, probed: Tensor) -> Sequence[str]:
    """Returns the names of the parameters in which too many of the moved elements differ."""
    moved = found != 0
    wrong = moved & ((found - probed).abs() > NOISE_SHARE * found.abs())
    counts = {
        entry.name: tuple(int(mask[offset : offset + entry.size].sum()) for mask in (wrong, moved))
        for entry, offset in layout.list_places()
    }
    # One of a few elements may be near zero, but not all of them together; and the writer of the layout
    # decides where an entry ends.
    few = 1 if int(wrong.sum()) <= MOST_NOISY * int(moved.sum()) else 0
    return [name for name, (bad, of) in counts.items() if bad > max(min(few, of - 1), MOST_NOISY * of)]
