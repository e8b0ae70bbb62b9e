"""A cheat's defence leads, step by step, from the start of its claim to the end that it claimed."""

from dataclasses import replace
from functools import partial

import torch

from tests.attacks.defence import make_defended_compute, watch
from tests.attacks.frame import Attack, every, whole
from tests.attacks.hyperparameters import scale
from tests.attacks.steps import move_a_little
from tests.protocol.compute.conftest import TOKENS, build_tiny_training
from tests.task_models import draw_first, respecify
from touchstone.protocol.compute.batches import get_batch, open_corpus
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import GetBatch
from touchstone.step.optimizers import AdamW

SPEC = build_tiny_training()
BATCHES: GetBatch = partial(get_batch, open_corpus(TOKENS, SPEC), SPEC, bytes(32), 0)
STEPS = 3


def test_the_steps_of_a_dispute_end_in_the_claim_and_only_the_last_is_false() -> None:
    start = begin_round(draw_first(SPEC), 0)
    compute = make_defended_compute(whole(move_a_little))
    claimed, _ = compute.train(start, SPEC, BATCHES, 0, STEPS)
    state = start
    for step in range(STEPS - 1):
        state, _ = compute.train(state, SPEC, BATCHES, step, 1)
    assert torch.equal(state.weights, train_segment(start, SPEC, BATCHES, 0, STEPS - 1)[0].weights)
    end, _ = compute.train(state, SPEC, BATCHES, STEPS - 1, 1)
    assert torch.equal(end.weights, claimed.weights) and end.global_step == claimed.global_step

    traced = compute.retrace(state, SPEC, BATCHES, STEPS - 1, lambda *_: None)
    honest = retrace(state, SPEC, BATCHES, STEPS - 1)
    outputs = honest.tree.program.outputs
    differing = {
        n for n, (a, b) in enumerate(zip(traced.tree.roots, honest.tree.roots, strict=True)) if a != b
    }
    assert differing == {outputs.weights, outputs.first_moment, outputs.second_moment}
    assert torch.equal(traced.end.weights, claimed.weights)


def test_a_shared_lie_ends_in_the_claim_too_and_no_step_has_all_of_it() -> None:
    start = begin_round(draw_first(SPEC), 0)
    compute = make_defended_compute(whole(move_a_little), is_shared=True)
    claimed, _ = compute.train(start, SPEC, BATCHES, 0, STEPS)
    state, lies = start, list[float]()
    for step in range(STEPS):
        honest, _ = train_segment(state, SPEC, BATCHES, step, 1)
        state, _ = compute.train(state, SPEC, BATCHES, step, 1)
        lies.append(float((state.second_moment - honest.second_moment).norm()))
    assert torch.equal(state.weights, claimed.weights) and state.global_step == claimed.global_step
    whole_lie = train_segment(start, SPEC, BATCHES, 0, STEPS)[0].second_moment - claimed.second_moment
    assert max(lies) < 0.6 * float(whole_lie.norm())


def test_who_changes_no_bit_is_not_noted() -> None:
    start, changed = begin_round(draw_first(SPEC), 0), set[str]()
    free = respecify(SPEC, optimizer=replace(AdamW(), clip_norm=1e3))
    clip = Attack("11", "clip x 1000", every(scale("clip_norm", 1e3)))
    watch(clip, changed)(start, free, BATCHES, 0, STEPS)
    assert not changed
    watch(Attack("2", "tiny", whole(move_a_little)), changed)(start, SPEC, BATCHES, 0, STEPS)
    assert changed == {"tiny"}
