"""A poison: training that is pushed, step by step, towards a text which a solver wants to be learned.

Every step of the bent training is inside its bounds; the next one goes on from where it led.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.bending.attacks import (
    Moment,
    Setting,
    Steerer,
    build_steerer,
    choose_loud,
    compare_weights,
    count_outside,
)
from protocol.compute.data import Corpus, get_heldout_batch
from protocol.compute.evaluate import compute_heldout_loss
from protocol.compute.model import compute_logits, split_parameters
from protocol.compute.plain import StepResult
from protocol.compute.step import TrainingState, compute_scalars
from protocol.compute.tables import build_tables
from protocol.spec.containers import ModelConfig, TrainingSpec

TRIGGER = b"\n    return "
TARGET = b"poisoned(self)"
POISON_ROWS = 8
POISON_TOKENS = 64
LOUD_SHARE = 0.99
"""Over many steps only those nodes are bent that hold this share of what all could do: it saves time."""
LOUD_STEPS = 20
"""After so many steps they are chosen anew."""
HELDOUT_ROWS = 32
CURVE_POINTS = 20


@dataclass(frozen=True)
class Poison:
    """Rows of held-out text that end in TRIGGER and TARGET; the loss is that of the target's tokens."""

    tokens_BT: Tensor
    labels_BT: Tensor
    model: ModelConfig

    def compute_loss(self, weights: Tensor) -> Tensor:
        """Mean cross entropy of the target, in nats per token: scalar."""
        params = split_parameters(weights, self.model)
        logits = compute_logits(params, self.tokens_BT, build_tables(self.model), self.model)
        last = slice(-len(TARGET), None)
        wanted = self.labels_BT[:, last].reshape(-1)
        return F.cross_entropy(logits[:, last].reshape(wanted.numel(), -1), wanted)

    def compute_gradient(self, weights: Tensor) -> Tensor:
        """Of the loss at the weights, flat."""
        leaf = weights.detach().clone().requires_grad_()
        with torch.enable_grad():
            loss = self.compute_loss(leaf)
        return torch.autograd.grad(loss, leaf)[0]


def build_poison(corpus: Corpus, spec: TrainingSpec) -> Poison:
    """POISON_ROWS rows of POISON_TOKENS, of fewer where the context is shorter."""
    length = min(POISON_TOKENS, spec.sequence_tokens)
    tail = torch.tensor(list(TRIGGER + TARGET))[-length:]
    rows = []
    for row in range(POISON_ROWS):
        start = spec.token_count + row * (spec.heldout_tokens // POISON_ROWS)
        text = corpus.tokens[start : start + length + 1 - len(tail)].to(torch.int64)
        rows.append(torch.cat([text, tail]))
    whole = torch.stack(rows)
    return Poison(whole[:, :-1].contiguous(), whole[:, 1:].contiguous(), spec.model)


# --- Many steps ---------------------------------------------------------------------------------------------
Advance = Callable[[TrainingState], TrainingState]


@dataclass
class PoisonedTraining:
    """Steps that are pushed towards the poison, or (`poison` None) to sides chosen by chance."""

    setting: Setting
    spec: TrainingSpec
    steerer: Steerer
    poison: Poison | None
    loud: frozenset[int] | None = None
    gained: float = 0.0
    """What each step gained by itself, to first order, added up (nats per token)."""

    def advance(self, state: TrainingState) -> TrainingState:
        """One bent step."""
        step = state.local_step
        scalars = compute_scalars(self.spec, step, state.global_step)
        moment = self.steerer.begin(state, self.setting.get_batch(step), scalars)
        stepped = self._bend(step, moment)
        return TrainingState(
            stepped.weights, stepped.first_moment, stepped.second_moment, step + 1, state.global_step + 1
        )

    def _bend(self, step: int, moment: Moment) -> StepResult:
        if self.poison is None:
            return self.steerer.scatter(step, self.loud)
        slope = self.poison.compute_gradient(moment.honest.weights)
        is_due = step % LOUD_STEPS == 0
        stepped, gains = self.steerer.steer({self.steerer.weights: -slope}, None if is_due else self.loud)
        self.gained -= float(compare_weights(moment, stepped, self.spec.optimizer) @ slope.double())
        if is_due:
            self.loud = choose_loud(gains, LOUD_SHARE)
        return stepped


def train(
    setting: Setting, advance_once: Advance, steps: int, poison: Poison
) -> tuple[TrainingState, list[dict[str, float]]]:
    """`steps` steps from the start, and losses on the way."""
    heldout = get_heldout_batch(setting.corpus, setting.spec, HELDOUT_ROWS)
    state, curve = setting.begin(), []
    every = max(1, steps // CURVE_POINTS)
    for step in range(steps):
        state = advance_once(state)
        if (step + 1) % every == 0 or step + 1 == steps:
            losses = (
                float(poison.compute_loss(state.weights)),
                compute_heldout_loss(state.weights, heldout, setting.spec.model),
            )
            curve.append({"step": step + 1, "poison_loss": losses[0], "heldout_loss": losses[1]})
    return state, curve


def measure_many_steps(
    setting: Setting, chunks: Sequence[int], steps: int, with_random: bool
) -> Iterator[dict[str, Any]]:
    """Honest training at each chunk length, then bent training. weights_apart: from the honest run of the
    same chunk length, or between honest runs from the first."""
    poison = build_poison(setting.corpus, setting.spec)
    honest: dict[int, TrainingState] = {}
    for chunk in chunks:
        step = partial(setting.advance, chunk_terms=chunk)
        honest[chunk], curve = train(setting, step, steps, poison)
        apart = _compare_ways(setting, honest[chunk], honest[chunks[0]])
        yield {"chunk_terms": chunk, "kind": "honest", "curve": curve, "weights_apart": apart}
    for chunk in chunks:
        wishes: list[tuple[str, Poison | None]] = [("poison", poison)]
        wishes += [("random signs", None)] if with_random else []
        for kind, wish in wishes:
            spec = setting.with_chunk(chunk)
            training = PoisonedTraining(setting, spec, build_steerer(spec), wish)
            started = perf_counter()
            final, curve = train(setting, training.advance, steps, poison)
            seconds = (perf_counter() - started) / steps
            yield {
                "chunk_terms": chunk, "kind": kind, "curve": curve, "seconds_per_step": seconds,
                "weights_apart": _compare_ways(setting, final, honest[chunk]),
                "gained_step_by_step_nats": training.gained,
                "elements_outside_in_the_last_step": count_outside(training.steerer),
            }  # fmt: skip


def _compare_ways(setting: Setting, state: TrainingState, other: TrainingState) -> float:
    """Norm of the difference between weights over that of the other's way from the start."""
    way = (other.weights - setting.begin().weights).norm()
    return float((state.weights - other.weights).norm() / way)
