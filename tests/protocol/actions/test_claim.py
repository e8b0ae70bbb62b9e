"""A claim is made once: whatever is interrupted goes on where it was, and says the same again."""

import shutil
import time
from typing import Any

import pytest

from protocol.actions import claim
from protocol.actions.party import Party
from protocol.actions.states import keep_state
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec import codec, merkle
from protocol.spec.containers import StateHeader, TrainingSpec
from protocol.spec.errors import EnvironmentFault
from tests.protocol.actions.facts import TASK
from tests.protocol.actions.lone import SOLVER, Lone, deal_anew, get_spec, restart

SEGMENTS = get_spec().terms.segment_count


class Train:
    """`train_segment` that counts, looks at the journal, and is killed when told to be."""

    def __init__(self, lone: Lone, killed_at: int = -1) -> None:
        self.lone, self.killed_at = lone, killed_at
        self.steps: list[int] = []

    def __call__(
        self, state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        assert 0 in self.lone.party.memory.salts, "the salts are drawn before training"
        if len(self.steps) == self.killed_at:
            while (0, self.killed_at) not in self.lone.party.memory.boundaries:
                time.sleep(0.001)
            raise KeyError("killed")
        self.steps.append(inner_step)
        return train_segment(state, spec, batches, inner_step, steps)


async def test_every_boundary_of_a_claim_opens(solver: Lone) -> None:
    made = await claim.prepare_claim(solver.party, 0, 0, train_segment)
    for boundary in range(SEGMENTS + 1):
        proof = claim.open_boundary(solver.party, 0, boundary)
        root, domain = codec.compute_state_root(proof.header), solver.party.domain
        leaf = codec.compute_boundary_leaf(domain, 0, SOLVER, boundary, proof.salt, root)
        assert merkle.is_valid_path(made.claim_root, leaf, boundary, SEGMENTS + 1, proof.path)
        assert proof.header.local_step == boundary * get_spec().terms.segment_steps


async def test_a_killed_training_goes_on_at_its_last_boundary(solver: Lone) -> None:
    with pytest.raises(KeyError):
        await claim.prepare_claim(solver.party, 0, 0, Train(solver, killed_at=2))
    salts, again = solver.party.memory.salts, restart(solver)
    again.chain.answers = solver.chain.answers
    train = Train(again)
    made = await claim.prepare_claim(again.party, 0, 0, train)
    assert train.steps == [4, 6] and again.party.memory.salts == salts
    assert made == again.party.memory.claims[0]


async def test_a_reorg_that_deals_anew_voids_what_was_trained(solver: Lone) -> None:
    first = await claim.prepare_claim(solver.party, 0, 0, train_segment)
    deal_anew(solver, "another block")
    train = Train(solver)
    second = await claim.prepare_claim(solver.party, 0, 0, train)
    assert len(train.steps) == SEGMENTS and second.claim_root != first.claim_root
    again = restart(solver)
    deal_anew(again, "another block")
    assert await claim.prepare_claim(again.party, 0, 0, Train(again, killed_at=0)) == second


async def test_a_reorg_during_training_leaves_no_claim(solver: Lone) -> None:
    def train(*arguments: Any) -> tuple[TrainingState, list[float]]:
        deal_anew(solver, "another block")
        return train_segment(*arguments)

    with pytest.raises(EnvironmentFault, match="a reorg has dealt round 0 anew"):
        await claim.prepare_claim(solver.party, 0, 0, train)
    assert not solver.party.memory.claims
    fresh = Train(solver)
    await claim.prepare_claim(solver.party, 0, 0, fresh)
    assert len(fresh.steps) == SEGMENTS


async def test_an_interrupted_claim_is_the_uninterrupted_one(solver: Lone) -> None:
    with pytest.raises(KeyError):
        await claim.prepare_claim(solver.party, 0, 0, Train(solver, killed_at=3))
    again = restart(solver)
    await claim.prepare_claim(again.party, 0, 0, train_segment)
    found = again.party.memory.boundaries[(0, SEGMENTS)]
    state = await claim.begin_state(solver.party, 0, again.party.memory.boundaries[(0, 0)])
    batches = claim.get_dealt_batches(solver.party, 0, 0)
    state, _ = train_segment(state, get_spec().training, batches, 0, get_spec().terms.inner_steps)
    assert keep_state(solver.party, state) == found


async def test_a_start_that_the_store_has_is_not_hashed_again(
    solver: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = solver.chain.answers["expected_start"]
    keep_state(solver.party, await claim.begin_state(solver.party, 0, expected))
    hashed: list[int] = []

    def keep(party: Party, state: TrainingState) -> StateHeader:
        hashed.append(state.local_step)
        return keep_state(party, state)

    monkeypatch.setattr(claim, "keep_state", keep)
    await claim.prepare_claim(solver.party, 0, 0, train_segment)
    assert solver.party.memory.boundaries[(0, 0)] == expected
    assert hashed == [step * get_spec().terms.segment_steps for step in range(1, SEGMENTS + 1)]


async def test_a_restart_commits_to_the_same_though_its_blobs_are_gone(solver: Lone) -> None:
    await claim.commit_claim(solver.party, 0, 0, train_segment)
    again = restart(solver)
    train = Train(again)
    for folder in (again.party.store.folder / kind for kind in ("tensor", "delta")):
        shutil.rmtree(folder)
    await claim.commit_claim(again.party, 0, 0, train)
    assert solver.chain.list_sent("commit") == again.chain.list_sent("commit") and train.steps == []
    [(task, index, claim_root, delta_root, start)] = again.chain.list_sent("commit")
    assert (task, index) == (TASK, 0) and start == claim.open_boundary(again.party, 0, 0)
    assert claim_root != delta_root


async def test_moments_are_carried_where_the_contract_expects_them(solver: Lone) -> None:
    await claim.prepare_claim(solver.party, 0, 0, train_segment)
    last = solver.party.memory.boundaries[(0, SEGMENTS)]
    state = await claim.begin_state(solver.party, 0, last)
    found = keep_state(solver.party, state)
    assert found.first_moment_root == last.first_moment_root and found.local_step == last.local_step
    assert found.weights_root == get_spec().terms.initial_weights_root
