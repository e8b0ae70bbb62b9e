"""A solver's claim: what it commits to, what a kill and a reorg leave of it, and when it is due."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.actions.merge import claim
from protocol.actions.merge.claim import MakeClaim, finish_claim, get_basis
from protocol.actions.merge.opening import get_finished, open_boundary, open_work
from protocol.actions.runtime.states import load_state
from protocol.adapters.blobs import refer_delta
from protocol.compute.outer import encode_delta
from protocol.compute.step import train_segment
from protocol.spec.claim_tree import compute_work_leaf
from protocol.spec.codec import compute_boundary_leaf, compute_state_root
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game import calls
from protocol.spec.game.enums import SeatRole
from protocol.spec.merkle import verify_path
from tests.protocol.actions.merge.stage import DOMAIN, get_account, open_stage
from tests.protocol.actions.specs import get_spec
from tests.protocol.spec.game.world import make_word

SEGMENTS = 4


async def test_everything_that_is_opened_stands_under_the_committed_root(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        (made,) = await stage.commit(1)
        party = stage.parties[1]
        place = (DOMAIN, 0, party.account)
        for boundary in range(SEGMENTS + 1):
            proof = open_boundary(party, 0, boundary)
            leaf = compute_boundary_leaf(*place, boundary, proof.salt, compute_state_root(proof.header))
            verify_path(made.claim_root, leaf, boundary, SEGMENTS + 2, proof.path)
        work = open_work(party, 0)
        leaf = compute_work_leaf(*place, SEGMENTS, work.delta_root, work.carried_root)
        verify_path(made.claim_root, leaf, SEGMENTS + 1, SEGMENTS + 2, work.path)
        first, last = (open_boundary(party, 0, b).header for b in (0, SEGMENTS))
        terms = get_spec().terms
        assert (first.weights_root, first.first_moment_root) == (terms.initial_weights_root, terms.zero_root)
        weights = [load_state(party, header).weights for header in (first, last)]
        assert party.store.get(refer_delta(made.delta_root, terms.parameter_count)) == encode_delta(*weights)


async def test_a_killed_solver_goes_on_at_its_last_boundary_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pseudo-gradient is the one of an undisturbed node; the salts are those that were drawn first."""
    trained: list[int] = []

    def train(state: Any, spec: Any, batches: Any, step: int, steps: int) -> Any:
        if len(trained) == 2 and step == 4:
            trained.append(-1)
            raise RuntimeError("killed")
        trained.append(step)
        return claim_train(state, spec, batches, step, steps)

    claim_train = train_segment
    monkeypatch.setattr(claim, "train_segment", train)
    async with open_stage(tmp_path) as stage:
        async with stage.open(1) as party:
            with pytest.raises(RuntimeError, match="killed"):
                await finish_claim(party, party.game.rounds[0])
            salts = party.task.claims.find(party.game.rounds[0]).salts
        async with stage.open(1) as party:
            made = await finish_claim(party, party.game.rounds[0])
            assert party.task.claims.find(party.game.rounds[0]).salts == salts
            assert (await finish_claim(party, party.game.rounds[0])) == made
        monkeypatch.undo()
        async with stage.open(1) as party:
            assert get_finished(party, 0).finished == made
    assert trained == [0, 2, -1, 4, 6]
    async with open_stage(tmp_path / "other", 1) as other:
        (undisturbed,) = await other.commit(1)
    assert (undisturbed.delta_root, undisturbed.carried_root) == (made.delta_root, made.carried_root)


async def test_after_a_reorg_the_round_is_trained_anew_and_back_again_nothing_is(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        party, before = stage.parties[1], stage.world.state
        made = await finish_claim(party, before.rounds[0])
        stage.world.state = _deal_anew(before)
        stage.sync()
        other = await finish_claim(party, party.game.rounds[0])
        assert other.delta_root != made.delta_root and other.basis != made.basis
        stage.world.state = before
        stage.sync()
        assert await finish_claim(party, party.game.rounds[0]) == made


def _deal_anew(state: Any) -> Any:
    game_round = replace(state.rounds[0], beacon=make_word("another beacon"))
    return replace(state, rounds={**state.rounds, 0: game_round})


async def test_training_stops_when_the_round_starts_from_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a whole round is trained for nothing, and a commitment is sent that can only be refused."""
    async with open_stage(tmp_path, 1) as stage:
        party, claim_train = stage.parties[1], train_segment
        trained: list[int] = []

        def train(*arguments: Any) -> Any:
            trained.append(arguments[3])
            stage.world.state = _deal_anew(stage.world.state)
            stage.sync()
            return claim_train(*arguments)

        monkeypatch.setattr(claim, "train_segment", train)
        duty = MakeClaim(0, get_basis(party.game.rounds[0]) or b"")
        with pytest.raises(EnvironmentFault, match="starts from something else"):
            await duty.perform(party)
        assert trained == [0] and not party.chain.sent  # type: ignore[attr-defined]


async def test_a_claim_is_due_once_while_the_round_runs_and_to_who_sits_in_it(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2) as stage:
        first, second = stage.parties[1], stage.parties[2]
        duty = MakeClaim(0, get_basis(first.game.rounds[0]) or b"")
        assert list(claim.list_duties(first, stage.world.block)) == [duty]
        await duty.perform(first)
        (sent,) = first.chain.sent  # type: ignore[attr-defined]
        made = get_finished(first, 0).finished
        assert made is not None and sent[0] == "rounds.commit" and sent[1][-2:] == (made.claim_root, SEGMENTS)
        await stage.commit(1)
        assert not list(claim.list_duties(first, stage.world.block))
        assert list(claim.list_duties(second, stage.world.block)) == [duty]
        stage.draw()
        assert not list(claim.list_duties(second, stage.world.block))


async def test_a_solver_without_a_seat_in_the_round_claims_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        stage.world.send(calls.JoinSeat(SeatRole.SOLVER, 2_000), get_account(4))
        async with stage.open(4) as late:
            assert not list(claim.list_duties(late, stage.world.block))
