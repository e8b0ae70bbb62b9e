"""Training: steps join to segments, states are checked, and a machine repeats its own bits."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256

import pytest
import torch

from tests.protocol.compute.conftest import build_tiny_training
from tests.protocol.compute.programs import run_python
from tests.task_models import compute_gradient, draw_first, get_model
from touchstone.protocol.compute.batches import Corpus, WholeCorpus, get_batch
from touchstone.protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.step import advance, begin_round, compute_scalars, train_segment
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig

BEACON = sha256(b"step").digest()


def batch_of(corpus: Corpus, spec: TrainingSpec, step: int) -> Batch:
    return get_batch(corpus, spec, BEACON, 0, step)


def train(state: TrainingState, corpus: Corpus, spec: TrainingSpec, steps: int) -> TrainingState:
    return train_segment(state, spec, lambda i: batch_of(corpus, spec, i), 0, steps)[0]


def test_loss_falls(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    _, losses = train_segment(state, spec, lambda i: batch_of(corpus, spec, i), 0, 60)
    assert losses[0] == pytest.approx(4.16, abs=0.1) and losses[-1] < losses[0] - 0.5


def test_training_follows_torch_adamw(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    weights = torch.nn.Parameter(state.weights.clone())
    options = AdamW()
    optimizer = torch.optim.AdamW(
        [weights],
        betas=(options.beta1, options.beta2),
        eps=options.epsilon,
        weight_decay=options.weight_decay,
    )
    for step in range(5):
        optimizer.param_groups[0]["lr"] = float(compute_scalars(spec, step, step)[0])
        batch = batch_of(corpus, spec, step)
        _, weights.grad = compute_gradient(weights.detach(), *batch, get_model(spec))
        torch.nn.utils.clip_grad_norm_([weights], options.clip_norm)
        optimizer.step()
    ours = train(state, corpus, spec, 5)
    moved = (weights.detach() - state.weights).norm()
    assert float((ours.weights - weights.detach()).norm() / moved) < 1e-4


def test_segments_of_a_round_join(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    whole = train(state, corpus, spec, 6)
    half = train(state, corpus, spec, 3)
    rest, _ = train_segment(half, spec, lambda i: batch_of(corpus, spec, i), 3, 3)
    assert state_header(rest) == state_header(whole) and whole.local_step == whole.global_step == 6


def test_a_state_that_nobody_reads_is_written_over() -> None:
    """Where the model is large enough for the compiled update. The state that was given stays."""
    spec = build_tiny_training(model=DecoderConfig(256, 64, 192, 1, 4, 4, 16), sequence_tokens=16)
    state = begin_round(draw_first(spec, 1), 0)
    corpus = WholeCorpus(torch.arange(6000) % 256)
    first, _ = advance(state, batch_of(corpus, spec, 0), spec)
    before = [state_header(one) for one in (state, first)]
    fresh, _ = advance(first, batch_of(corpus, spec, 1), spec)
    assert [state_header(one) for one in (state, first)] == before
    second, _ = advance(first, batch_of(corpus, spec, 1), spec, overwrites=True)
    assert [a.data_ptr() == b.data_ptr() for a, b in zip(first.vectors, second.vectors, strict=True)] == [
        True
    ] * 3
    assert state_header(second) == state_header(fresh) == state_header(train(state, corpus, spec, 2))
    assert state_header(state) == before[0]


def test_inputs_are_not_written_to(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    before = state_header(state)
    train(state, corpus, spec, 2)
    assert state_header(state) == before


def test_begin_round_carries_or_resets(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    last = train(state, corpus, spec, 3)
    carried = begin_round(state.weights, 20, last)
    assert carried.first_moment is last.first_moment and (carried.local_step, carried.global_step) == (3, 20)
    fresh = begin_round(state.weights, 20)
    assert not fresh.first_moment.any() and (fresh.local_step, fresh.global_step) == (0, 20)


@pytest.mark.parametrize("name", ["weights", "first_moment", "second_moment"])
def test_a_misshapen_state_is_refused(
    name: str, state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    w = state.weights
    for bad in (w[:-1], torch.cat((w, w[:1])), w.double(), w.view(1, -1)):
        with pytest.raises(InvalidInput, match=f"does not fit the task at {name}"):
            advance(replace(state, **{name: bad}), batch_of(corpus, spec, 0), spec)  # type: ignore[arg-type]


# Repeating
def test_two_threads_that_train_at_once_do_not_disturb_each_other(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    other = begin_round(state.weights * 1.25, 7)
    alone = [state_header(train(start, corpus, spec, 12)) for start in (state, other)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda start: state_header(train(start, corpus, spec, 12)), (state, other)))
    assert together == alone


def test_training_goes_on_after_a_batch_that_was_refused(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    before = state_header(train(state, corpus, spec, 2))
    with pytest.raises(InvalidInput, match="does not fit the program"):
        advance(state, Batch(*(part[:-1] for part in batch_of(corpus, spec, 0))), spec)
    assert state_header(train(state, corpus, spec, 2)) == before


TRAIN_PROGRAM = """
import sys
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.digest import state_header
from tests.task_models import draw_first
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.batches import get_batch, open_corpus
from tests.protocol.compute.conftest import TOKENS, build_tiny_training
pin_kernels(int(sys.argv[1]))
spec = build_tiny_training()
corpus = open_corpus(TOKENS, spec)
state = begin_round(draw_first(spec, 5), 0)
print(state_header(train_segment(state, spec, lambda i: get_batch(corpus, spec, bytes(32), 0, i), 0, 4)[0]))
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_training_repeats_its_bits_in_another_process(
    threads: int, state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    pin_kernels(threads)
    here, _ = train_segment(state, spec, lambda i: get_batch(corpus, spec, bytes(32), 0, i), 0, 4)
    best = list_cpu_capabilities()[0]
    there = run_python(TRAIN_PROGRAM, str(threads), ATEN_CPU_CAPABILITY=best, OMP_NUM_THREADS=str(threads))
    assert there.strip() == str(state_header(here))
