"""What a solver may want to steer, and how it does so in one step: one weight, or the whole update.

    honest trace --> derivatives of a wish (adjoint.py) --> all elements to their edges (edge.py) --> W, m, v

The optimizer is no straight line where a gradient is as small as its own bound: so the wish is also put on
the gradient itself, and the larger of the two real movements counts. Movements of one step are taken before
the new weights are rounded to float32, whose spacing is about 1e-6 lr.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.bending.adjoint import Adjoints, Tape
from benchmarks.bending.edge import Edge, Gains
from benchmarks.setting import (
    DEMO_MODEL,
    PEAK_LEARNING_RATE,
    build_training,
    open_demo_corpus,
    read_standard_library,
)
from protocol.compute.check import TraceChecker
from protocol.compute.data import Corpus, get_batch
from protocol.compute.model import init_parameters
from protocol.compute.plain import StepResult, compute_factors, update
from protocol.compute.program import BuiltProgram, build_program, describe_program
from protocol.compute.step import Batch, TrainingState, advance, begin_round
from protocol.spec.containers import ModelConfig, OptimizerConfig, ScheduleConfig, TrainingSpec
from protocol.spec.program import Operation, Program

MODELS = {
    "demo": DEMO_MODEL,
    "small": ModelConfig(
        vocabulary_size=256, hidden_size=64, intermediate_size=176, layer_count=4, head_count=4,
        kv_head_count=4, context_tokens=128,
    ),
    "tiny": ModelConfig(
        vocabulary_size=256, hidden_size=16, intermediate_size=44, layer_count=1, head_count=2,
        kv_head_count=1, context_tokens=128,
    ),
}  # fmt: skip
"""0.97 million parameters, 0.23 million, 11 thousand."""
WARMUP_STEPS = 20
BEACON = bytes(32)
AMPLIFICATION = 3.0
"""A gradient's whole reach over that of its last sum, roughly: only to choose which weights to attack."""


@dataclass(frozen=True)
class Setting:
    """A training run's fixed parts; the chunk length is chosen later."""

    spec: TrainingSpec
    corpus: Corpus

    def with_chunk(self, chunk_terms: int) -> TrainingSpec:
        """The spec with another chunk length."""
        return replace(self.spec, chunk_terms=chunk_terms)

    def get_batch(self, step: int) -> Batch:
        """Of the honest data."""
        return get_batch(self.corpus, self.spec, BEACON, 0, step)

    def begin(self) -> TrainingState:
        """Fresh weights, moments of zero."""
        return begin_round(init_parameters(self.spec.model, 1), 0)

    def advance(self, state: TrainingState, chunk_terms: int) -> TrainingState:
        """One honest step."""
        return advance(state, self.get_batch(state.local_step), self.with_chunk(chunk_terms))[0]


def build_setting(model: ModelConfig, steps: int, sequences: int, numeric_format: str = "float32") -> Setting:
    """On the standard library, warmed up and then at the peak rate. numeric_format: whose bounds hold; all is
    computed in float32."""
    data = read_standard_library()
    spec = build_training(data, ScheduleConfig(PEAK_LEARNING_RATE, WARMUP_STEPS, steps))
    corpus = open_demo_corpus(data, spec)
    changed = replace(spec, model=model, sequences_per_step=sequences, numeric_format=numeric_format)
    return Setting(changed, corpus)


@dataclass(frozen=True)
class Moment:
    """One honest step: its inputs and its result. rate: the learning rate."""

    state: TrainingState
    batch: Batch
    scalars: Tensor
    honest: StepResult
    gradient: Tensor

    @property
    def rate(self) -> float:
        """The step's learning rate."""
        return float(self.scalars[0])


class Steerer:
    """Runs one program honestly, or bent towards a wish."""

    def __init__(
        self, built: BuiltProgram, optimizer: OptimizerConfig, numeric_format: str = "float32"
    ) -> None:
        self.program, self.optimizer, self.format = built.program, optimizer, numeric_format
        self.tape = Tape(built)
        self.adjoints = Adjoints(self.tape)
        self.edge = Edge(self.tape, numeric_format)
        self.weights = built.program.outputs.weights
        self.gradient = find_gradient(built.program)
        self._is_honest = False

    def begin(self, state: TrainingState, batch: Batch, scalars: Tensor) -> Moment:
        """Load a step's inputs and take it honestly."""
        vectors = (state.weights, state.first_moment, state.second_moment)
        self.tape.load(vectors, *batch, scalars)
        self._run()
        return Moment(
            state, batch, scalars, self.tape.read_results(), self.tape.buffers[self.gradient].clone()
        )

    def steer(
        self, seeds: Mapping[int, Tensor], nodes: Collection[int] | None = None
    ) -> tuple[StepResult, Gains]:
        """The loaded step, every element of the trace (of some nodes only) pushed to raise the functional
        with these coefficients (flat, by buffer)."""
        if not self._is_honest:
            self._run()
        self.adjoints.compute(seeds)
        gains = self._bend(self.adjoints.values, nodes)
        return self.tape.read_results(), gains

    def _run(self) -> None:
        self.tape.run()
        self._is_honest = True

    def _bend(self, wishes: Mapping[int, Tensor], nodes: Collection[int] | None) -> Gains:
        self._is_honest = False
        return self.edge.run(wishes, nodes)

    def measure(self, moment: Moment, seeds: Mapping[int, Tensor]) -> Tensor:
        """By how much that moves each weight (float64)."""
        return compare_weights(moment, self.steer(seeds)[0], self.optimizer)

    def scatter(self, seed: int, nodes: Collection[int] | None = None) -> StepResult:
        """The loaded step, every element pushed to its edge on a side chosen by chance."""
        generator = torch.Generator().manual_seed(seed)
        largest = max(values.numel() for values in self.adjoints.values.values())
        signs = torch.randn(2 * largest, generator=generator)
        wishes = {}
        for buffer, values in self.adjoints.values.items():
            start = int(torch.randint(largest, (1,), generator=generator))
            wishes[buffer] = signs[start : start + values.numel()]
        self._bend(wishes, nodes)
        return self.tape.read_results()


def build_steerer(spec: TrainingSpec) -> Steerer:
    """Of the spec's program."""
    return Steerer(build_program(describe_program(spec)), spec.optimizer, spec.numeric_format)


def compare_weights(moment: Moment, bent: StepResult, optimizer: OptimizerConfig) -> Tensor:
    """Bent minus honest new weights, from the new moments, before they are rounded to float32 (float64)."""
    _, correction1, correction2 = moment.scalars.double().unbind()

    def direct(result: StepResult) -> Tensor:
        root = result.second_moment.double().sqrt() / correction2.sqrt()
        return result.first_moment.double() / correction1 / (root + optimizer.epsilon)

    return moment.rate * (direct(moment.honest) - direct(bent))


def find_gradient(program: Program) -> int:
    """The buffer of the whole gradient: as long as the weights, and its square is summed."""
    size = program.buffers[program.outputs.weights].size
    for node in program.nodes:
        if node.operation is Operation.PRODUCT_SUM:
            first, second = (operand.buffer for operand in node.operands)
            if first == second and program.buffers[first].size == size:
                return first
    raise ValueError("no node sums the square of the gradient")


def count_outside(steerer: Steerer) -> int:
    """Elements of the trace on the tape that the checker finds outside of their bounds."""
    checker = TraceChecker(steerer.program, steerer.format)
    report = checker.check(steerer.tape.buffers.__getitem__)
    return sum(kind.outside for kind in report.kinds.values())


def add_by_kind(program: Program, gains: Gains) -> dict[str, float]:
    """Each kind of operation's share of the sum of all gains."""
    total = sum(gains.values()) or 1.0
    shares: dict[str, float] = {}
    for number, gain in gains.items():
        name = program.nodes[number].operation.name
        shares[name] = shares.get(name, 0.0) + gain / total
    return shares


def choose_loud(gains: Gains, share: float) -> frozenset[int]:
    """The nodes with the largest gains that together have this share of all."""
    chosen, missing = set(), share * sum(gains.values())
    for number in sorted(gains, key=lambda n: -gains[n]):
        if missing <= 0:
            break
        chosen.add(number)
        missing -= gains[number]
    return frozenset(chosen)


# --- One weight ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Reach:
    """How far each element of the gradient (`gradient`) and then each weight (`weights`, in units of lr) can
    go, roughly, and `slope`, the change of a weight over that of its gradient, across that range."""

    gradient: Tensor
    weights: Tensor
    slope: Tensor


def estimate_reach(steerer: Steerer, moment: Moment, seed: int = 0) -> Reach:
    """From two attacks on the signs of all gradients at once."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randn(moment.gradient.numel(), generator=generator).sign()
    moved = []
    for side in (signs, -signs):
        steerer.steer({steerer.gradient: side})
        moved.append((steerer.tape.buffers[steerer.gradient] - moment.gradient).abs())
    reach = AMPLIFICATION * (moved[0] + moved[1]) / 2
    up, down = (_update(steerer, moment, moment.gradient + side * reach) for side in (1, -1))
    plain = _update(steerer, moment, moment.gradient)
    weights = torch.maximum((up - plain).abs(), (down - plain).abs()) / moment.rate
    slope = torch.where(reach > 0, (up - down) / (2 * reach), 0.0)
    return Reach(reach, weights, slope)


def _update(steerer: Steerer, moment: Moment, gradient: Tensor) -> Tensor:
    """New weights from another gradient, clipped by the same factor."""
    factors = compute_factors(moment.gradient, moment.scalars, steerer.optimizer)
    state = moment.state
    vectors = (state.weights, state.first_moment, state.second_moment)
    return update(*vectors, gradient, factors, steerer.optimizer)[0]


def move_weight(steerer: Steerer, moment: Moment, weight: int) -> float:
    """The largest real movement of one weight, in units of lr, up or down, wished for at the weight or at its
    gradient."""
    worst = 0.0
    for buffer in (steerer.weights, steerer.gradient):
        for side in (1.0, -1.0):
            seed = torch.zeros(moment.gradient.numel())
            seed[weight] = side
            moved = steerer.measure(moment, {buffer: seed})[weight]
            worst = max(worst, abs(float(moved)) / moment.rate)
    return worst


def choose_weights(reach: Reach, count: int) -> tuple[int, list[int]]:
    """The weight with the median reach among those that move at all, and the `count` with the largest."""
    moving = (reach.weights > 0).nonzero().flatten()
    order = reach.weights[moving].argsort()
    ordinary = int(moving[order[len(order) // 2]])
    return ordinary, reach.weights.topk(count).indices.tolist()


# --- The whole update ---------------------------------------------------------------------------------------
def move_update(steerer: Steerer, moment: Moment, reach: Reach, rounds: int) -> float:
    """The largest norm of (new weights - honest ones) over the honest update's norm: in each round both
    wishes in the direction of the farthest point so far."""
    length = float((moment.honest.weights - moment.state.weights).norm())
    generator = torch.Generator().manual_seed(1)
    direction, best = torch.randn(moment.gradient.numel(), generator=generator), 0.0
    for _ in range(rounds):
        wishes: Sequence[tuple[int, Tensor]] = (
            (steerer.weights, direction),
            (steerer.gradient, direction * reach.slope),
        )
        moved = [steerer.measure(moment, {buffer: seed}) for buffer, seed in wishes]
        farthest = max(moved, key=lambda change: float(change.norm()))
        best = max(best, float(farthest.norm()) / length)
        direction = (farthest / farthest.norm()).float()
    return best
