"""The holes of the reference code of Proof-of-Learning (Jia et al., arXiv 2103.05633), which others walked
through (Zhang et al., arXiv 2108.09454; Fang et al., arXiv 2208.03567), as tests that ours are closed:

data hashed as the text of an array, of which NumPy prints six numbers; a cosine distance by a wrong norm; an
optimizer whose state is not compared; hyperparameters read from the prover's file; the steps to check ranked
by how far the prover says it moved; and updates so tiny that any absolute distance passes.
"""

import hashlib
import inspect
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
import torch

from tests.attacks.frame import Attack, all_but_one
from tests.attacks.steps import ATTACKS as STEPS
from tests.protocol.compute.conftest import TOKENS, build_tiny_training
from tests.task_models import draw_first, respecify
from touchstone.node.records.claim_records import ClaimFinished
from touchstone.node.serving import audit_room
from touchstone.node.training import claims
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.compute.audit.distance_survey import FLOORS, count_floor_units
from touchstone.protocol.compute.batches import dataset_root, get_batch, open_corpus
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.compute.tolerance import compare
from touchstone.protocol.compute.tolerance.compare import judge_state
from touchstone.protocol.spec.audit_draws import draw_circle_segments, draw_late
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.posted_terms import PostedTerms
from touchstone.protocol.spec.params import TAU_FRACTION_BITS
from touchstone.protocol.spec.round_seeds import compute_round_seed
from touchstone.protocol.spec.schedule import compute_learning_rate
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import Limits
from touchstone.protocol.spec.tolerance import does_element_exceed
from touchstone.protocol.spec.training_codec import encode_training
from touchstone.step.optimizers import AdamW
from touchstone.verifier import replayed_segment

SPEC = build_tiny_training()
BATCHES: GetBatch = partial(get_batch, open_corpus(TOKENS, SPEC), SPEC, bytes(32), 0)
LENGTH = 4


def make_limits(tau: float) -> Limits:
    one = int(tau * 2**TAU_FRACTION_BITS)
    eps_m, floor_v, tau_r = count_floor_units(FLOORS)
    return Limits(one, eps_m, one, floor_v, one, tau_r)


LIMITS = make_limits(1e-4)
"""Much wider than any that was measured."""


def exceeds_limits(claimed: TrainingState, replayed: TrainingState) -> bool:
    rates = sum(
        compute_learning_rate(SPEC.schedule, step, step)
        for step in range(replayed.local_step - LENGTH, replayed.local_step)
    )
    return judge_state(claimed, replayed, int(rates * 2**64), LIMITS).exceeds_limits


@pytest.fixture(scope="module")
def start() -> TrainingState:
    fresh = begin_round(draw_first(SPEC), 0)
    return train_segment(fresh, SPEC, BATCHES, 0, LENGTH)[0]


@pytest.fixture(scope="module")
def end(start: TrainingState) -> TrainingState:
    return train_segment(start, SPEC, BATCHES, LENGTH, LENGTH)[0]


# Data hashed through a string
def test_every_byte_of_the_data_counts() -> None:
    data = np.arange(5000, dtype=np.uint8)
    other = data.copy()
    other[2500] ^= 1
    through_text = {hashlib.sha256(str(array).encode()).digest() for array in (data, other)}
    assert len(through_text) == 1  # the hole
    for place in (0, 1, 2500, 4998, 4999):
        changed = data.copy()
        changed[place] ^= 1
        assert dataset_root(changed.tobytes()) != dataset_root(data.tobytes())
    assert dataset_root(data.tobytes()) != dataset_root(data.astype("<u2").tobytes())


# A wrong cosine norm
def test_no_norm_hides_what_an_element_shows(end: TrainingState) -> None:
    longer = replace(end, weights=end.weights * 1.01)
    cosine = torch.nn.functional.cosine_similarity(longer.weights, end.weights, dim=0)
    assert 1 - cosine < 1e-6  # whatever the norm, a direction says nothing of a length
    turned = end.weights.clone()
    turned[:32] = turned[:32].flip(0)
    assert torch.allclose(turned.norm(), end.weights.norm())  # nor a length of a direction
    assert exceeds_limits(longer, end)
    assert exceeds_limits(replace(end, weights=turned), end)


# An optimizer that is not compared
@pytest.mark.parametrize("name", ["first_moment", "second_moment"])
def test_the_optimizer_s_state_is_compared(end: TrainingState, name: str) -> None:
    assert not exceeds_limits(end, end)
    vector = getattr(end, name).clone()
    vector[end.second_moment.argmax()] *= 1.01
    tampered = replace(end, **{name: vector})
    assert torch.equal(tampered.weights, end.weights)
    assert exceeds_limits(tampered, end)
    with pytest.raises(InvalidInput):
        exceeds_limits(replace(end, local_step=end.local_step + 1), end)


# Hyperparameters from the prover
def test_no_hyperparameter_comes_from_the_prover() -> None:
    said = {field.name for kind in (ClaimFinished, BoundaryProof, StateHeader) for field in fields(kind)}
    chosen = {field.name for part in (AdamW(), SPEC.schedule) for field in fields(part)}
    assert not said & (chosen | {"training", "spec", "optimizer", "schedule", "batch"})
    # A task's id is the hash of its terms and of these bytes (`Tasks.postTask`).
    for changed in (
        respecify(SPEC, optimizer=replace(AdamW(), weight_decay=0.0)),
        replace(SPEC, schedule=replace(SPEC.schedule, warmup_steps=SPEC.schedule.warmup_steps + 1)),
        respecify(SPEC, sequences_per_step=SPEC.sequences_per_step + 1),
    ):
        assert encode_training(changed) != encode_training(SPEC)
    # Solver and auditor train by the spec that the task's id covers, and by nothing else.
    assert "view.spec.training" in inspect.getsource(claims.Training._train_segment)
    assert "about.training" in inspect.getsource(replayed_segment.SegmentReplay.replay)
    assert "spec.training" in inspect.getsource(audit_room.read_audit_task)


# Samples ranked by the prover
def test_no_claim_moves_its_own_draw() -> None:
    assert list(inspect.signature(compute_round_seed).parameters) == ["domain", "round_number", "randomness"]
    drawn = ["seed", "slot", "draws", "segment_count"]
    assert list(inspect.signature(draw_circle_segments).parameters) == drawn
    late = ["seed", "slot", "chance", "drawn_segments", "segment_count", "pool_size", "slots"]
    assert list(inspect.signature(draw_late).parameters) == late


# Tiny updates
TINY = [attack for attack in STEPS if attack.number == "2"]


@pytest.mark.parametrize("attack", TINY, ids=[attack.name for attack in TINY])
def test_a_tiny_update_is_measured_by_what_it_should_be(
    attack: Attack, start: TrainingState, end: TrainingState
) -> None:
    claimed, _ = attack.train(start, SPEC, BATCHES, LENGTH, LENGTH)
    assert exceeds_limits(claimed, end)
    if attack.saved is all_but_one:
        # As an absolute distance between two checkpoints it is nothing.
        moved = (claimed.weights - start.weights).norm() / start.weights.norm()
        assert moved < 0.05


def test_the_scale_of_the_limits_is_the_replayer_s() -> None:
    parameters = list(inspect.signature(compare.judge_state).parameters)
    assert parameters == ["claimed", "replayed", "learning_rate_sum", "limits"]


# Hardware
def test_the_limits_know_no_hardware() -> None:
    # Nothing that a claimant says of itself is part of a judgement: a class that is claimed gains nothing.
    for function in (judge_state, does_element_exceed):
        assert not {"configuration", "hardware", "profile"} & set(inspect.signature(function).parameters)
    names = {field.name for kind in (ClaimFinished, BoundaryProof, PostedTerms) for field in fields(kind)}
    assert not [name for name in names if "hardware" in name or "device" in name]
