"""Sorts how machines differ: the largest distances of pairs by quantity, class of tensors and stage.

Limits are the largest distance of two honest nodes times a margin. A submitter measures the task's model on
several kernel configurations, and puts the proposed limits into the task. Meanings and units of the limits:
docs/spec.md, section 6.
"""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from math import ceil

from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import Floors, measure_distances
from touchstone.protocol.spec.calibration_profile import QUANTILES, QUANTITIES, Measurement
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.params import TAU_FRACTION_BITS, UNIT_EXPONENT
from touchstone.protocol.spec.task_spec import ScheduleConfig
from touchstone.protocol.spec.weights_layout import WeightsLayout

FLOORS = Floors(eps_m=1e-5, floor_v=2.0**-47, tau_r=2.0**-23)
"""The least limits. eps_m is the default epsilon of AdamW, below which a moment hardly moves its weight. The
root of floor_v is a hundred times below eps_m. tau_r is one or two units in the last place of the weight
itself (docs/decisions/0023-rounding.md)."""


def count_floor_units(floors: Floors) -> tuple[int, int, int]:
    """Returns eps_m and floor_v in units of 2^-149, tau_r in units of 2^-64."""
    eps_m, floor_v = (
        round(Fraction(value) * (1 << -UNIT_EXPONENT)) for value in (floors.eps_m, floors.floor_v)
    )
    return eps_m, floor_v, round(Fraction(floors.tau_r) * (1 << TAU_FRACTION_BITS))


Place = tuple[str, str, str]
"""(quantity, class of tensors, stage)"""
_CLASSES = {
    "embed_tokens": "embedding", "wte": "embedding", "wpe": "embedding", "lm_head": "head",
    "attn": "attention", "mlp": "mlp",
}  # fmt: skip


def get_tensor_class(name: str) -> str:
    """Returns the class of a parameter by its name: one of `calibration_profile.TENSOR_CLASSES`."""
    return next((kind for part, kind in _CLASSES.items() if f"{part}." in name), "norm")


def name_stage(schedule: ScheduleConfig, global_step: int, inner_step: int, steps: int) -> str:
    """Returns the stage of training of a segment of `steps` steps: one of `calibration_profile.STAGES`. The
    last tenth of all steps is the end."""
    if inner_step == 0:
        return "zero moments"
    if global_step < schedule.warmup_steps or inner_step < schedule.inner_warmup_steps:
        return "warm-up"
    return "end" if 10 * (global_step + steps) > 9 * schedule.total_steps else "middle"


class Survey:
    """Collects distances of pairs; `summarize` turns them into measurements."""

    def __init__(self, layout: WeightsLayout) -> None:
        self._slices: dict[str, list[slice]] = defaultdict(list)
        for entry, offset in layout.list_places():
            self._slices[get_tensor_class(entry.name)].append(slice(offset, offset + entry.size))
        self._found: dict[Place, list[float]] = defaultdict(list)

    def add(self, claimed: TrainingState, replayed: TrainingState, rates: float, stage: str) -> None:
        """Adds the distances of one pair at a segment's end. `rates` is L, the sum of learning rates. Raises
        EnvironmentFault if a distance is not finite, because such a machine cannot calibrate."""
        for kind, slices in self._slices.items():
            cuts = [(_cut(claimed, part), _cut(replayed, part)) for part in slices]
            measured = [measure_distances(a, b, rates, FLOORS) for a, b in cuts]
            for quantity in QUANTITIES:
                largest = max(getattr(d, quantity.replace(" ", "_")) for d in measured)
                self._found[quantity, kind, stage].append(_require_finite(largest, quantity, kind))

    def summarize(self) -> tuple[Measurement, ...]:
        """Returns a measurement for each quantity, class of tensors and stage."""
        return tuple(
            Measurement(*place, len(values), _find_quantiles(values))
            for place, values in sorted(self._found.items())
        )


def _cut(state: TrainingState, place: slice) -> TrainingState:
    vectors = (state.weights[place], state.first_moment[place], state.second_moment[place])
    return TrainingState(*vectors, state.local_step, state.global_step)


def _require_finite(value: float, quantity: str, kind: str) -> float:
    if value < float("inf"):
        return value
    raise EnvironmentFault(
        what="a training run is not finite on some configuration",
        expected="finite distances",
        actual=value,
        where=f"{quantity} of {kind}",
        remedy="The task diverges, its second moment is near zero, or the machine errs: lower the learning "
        "rate, take another optimizer, or measure on another machine.",
        retryable=False,
    )


def _find_quantiles(values: Sequence[float]) -> tuple[int, ...]:
    """Returns the quantiles of the distances at QUANTILES, in units of 2^-64, rounded up."""
    ordered = sorted(values)
    places = (max(ceil(q * len(ordered)) - 1, 0) for q in QUANTILES)
    return tuple(ceil(ordered[place] * 2.0**TAU_FRACTION_BITS) for place in places)
