"""What machines differ by, sorted: largest distances of pairs by quantity, class of tensors and stage."""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil

import torch

from protocol.compute.calibrate import FLOORS
from protocol.compute.compare import measure_distances
from protocol.compute.model import ParameterSlice, parameter_layout
from protocol.compute.plain import plain_step
from protocol.compute.step import GetBatch, TrainingState, compute_scalars
from protocol.compute.tables import Tables, build_tables
from protocol.spec.containers import ModelConfig, ScheduleConfig, TrainingSpec
from protocol.spec.errors import EnvironmentFault
from protocol.spec.params import TAU_FRACTION_BITS
from protocol.spec.policy import QUANTITIES
from protocol.spec.profile import QUANTILES, Measurement

Place = tuple[str, str, str]
"""Quantity, class of tensors, stage."""
_CLASSES = {"embed_tokens": "embedding", "lm_head": "head", "self_attn": "attention", "mlp": "mlp"}


def get_tensor_class(name: str) -> str:
    """The class of a parameter by its name, one of profile.TENSOR_CLASSES."""
    return next((kind for part, kind in _CLASSES.items() if f"{part}." in name), "norm")


def name_stage(schedule: ScheduleConfig, global_step: int, inner_step: int, steps: int) -> str:
    """Which part of training a segment of `steps` steps is of, one of profile.STAGES. The last tenth of all
    steps is the end."""
    if inner_step == 0:
        return "zero moments"
    if global_step < schedule.warmup_steps or inner_step < schedule.inner_warmup_steps:
        return "warm-up"
    return "end" if 10 * (global_step + steps) > 9 * schedule.total_steps else "middle"


class Survey:
    """Collects distances of pairs; `summarize` sorts them into measurements."""

    def __init__(self, model: ModelConfig) -> None:
        self._slices: dict[str, list[ParameterSlice]] = defaultdict(list)
        for parameter in parameter_layout(model):
            self._slices[get_tensor_class(parameter.name)].append(parameter)
        self._found: dict[Place, list[float]] = defaultdict(list)

    def add(self, claimed: TrainingState, replayed: TrainingState, rates: float, stage: str) -> None:
        """One pair at a segment's end; `rates` is L. Raises EnvironmentFault where a distance is not
        finite: such a machine calibrates nothing."""
        for kind, slices in self._slices.items():
            cuts = [(_cut(claimed, part), _cut(replayed, part)) for part in slices]
            measured = [measure_distances(a, b, rates, FLOORS) for a, b in cuts]
            for quantity in QUANTITIES:
                largest = max(getattr(d, quantity.replace(" ", "_")) for d in measured)
                self._found[quantity, kind, stage].append(_require_finite(largest, quantity, kind))

    def summarize(self) -> tuple[Measurement, ...]:
        """A measurement for each place."""
        return tuple(
            Measurement(*place, len(values), _find_quantiles(values))
            for place, values in sorted(self._found.items())
        )


def _cut(state: TrainingState, part: ParameterSlice) -> TrainingState:
    place = slice(part.offset, part.offset + part.size)
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
        remedy="The task diverges, or the machine errs: lower its learning rate, or measure elsewhere.",
        retryable=False,
    )


def _find_quantiles(values: Sequence[float]) -> tuple[int, ...]:
    """The least value that so many of all do not exceed, in units of 2^-64, rounded up."""
    ordered = sorted(values)
    places = (max(ceil(q * len(ordered)) - 1, 0) for q in QUANTILES)
    return tuple(ceil(ordered[place] * 2.0**TAU_FRACTION_BITS) for place in places)


# --- Other devices ------------------------------------------------------------------------------------------
_PRECISIONS = {"float32": "highest", "tf32": "high", "bf16": "medium"}
"""What the library may take product sums in, by numeric format."""


def train_on_device(
    state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int, device: str
) -> TrainingState:
    """The state after `steps` steps in plain PyTorch on `device`, with whatever kernels it has: what a
    machine shows whose nodes would run the step there. The result lies on the CPU."""
    torch.set_float32_matmul_precision(_PRECISIONS[spec.numeric_format])
    tables = Tables(*(tensor.to(device) for tensor in vars(build_tables(spec.model)).values()))
    for step in range(inner_step, inner_step + steps):
        scalars = compute_scalars(spec, state.local_step, state.global_step)
        vectors = (state.weights, state.first_moment, state.second_moment)
        weights, first, second, tokens, labels, scalars = (
            tensor.to(device) for tensor in (*vectors, *get_batch(step), scalars)
        )
        result = plain_step(
            weights, first, second, tokens, labels, scalars, tables, spec.model, spec.optimizer
        )
        weights, first, second = (tensor.cpu() for tensor in result[:3])
        state = TrainingState(weights, first, second, state.local_step + 1, state.global_step + 1)
    return state
