"""A seat commits to the root of another claim, or to its own of an earlier round: it hinders no merge, and no
node merges what the chain could not open."""

from pathlib import Path

import pytest

from tests.kit.nodes import get_account
from tests.node.merging.stage import Stage, finish, make_votes, open_stage
from touchstone.node.merging.posting import choose_slots
from touchstone.node.models.claim_openings import is_fetched
from touchstone.node.models.expected_merge import get_root, make_key
from touchstone.node.models.outer_step import FetchDelta
from touchstone.node.models.round_judging import find_merge_set, is_majority
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.claim_status import list_mergeable
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.state import compute_seat_id

COPIER = 3


def commit(stage: Stage, index: int, seed: int, claim_root: bytes, segments: int) -> None:
    """A solver commits to this root."""
    game_round = stage.world.state.rounds[index]
    words = (game_round.base_root, game_round.beacon or b"", claim_root, segments)
    stage.world.send(calls.CommitRound(index, *words), get_account(seed))
    stage.sync()


def copy(stage: Stage, victim: int) -> None:
    """The copier commits to what its victim has committed to, as the chain shows it."""
    claim = stage.world.state.rounds[0].claims[stage.get_slot(victim)]
    commit(stage, 0, COPIER, claim.claim_root, claim.segments)


async def test_a_copied_claim_hinders_no_merge(tmp_path: Path) -> None:
    """Its work leaf cannot be had. The honest claims are merged, each in its own slot, and both solvers
    sign."""
    async with open_stage(tmp_path, 1, 2) as stage:
        await stage.commit(1, 2)
        copy(stage, 2)
        stage.draw()
        honest = tuple(sorted((stage.get_slot(1), stage.get_slot(2))))
        stage.accept(*honest)
        stage.reject(stage.get_slot(COPIER))
        game_round = stage.world.state.rounds[0]
        assert list_mergeable(stage.world.state, game_round, stage.world.block) == honest
        key = make_key(game_round, honest)
        for node in stage.nodes.values():
            for slot in honest:
                await FetchDelta(0, slot, game_round.claims[slot].claim_root).perform(node.rooms.outer_steps)
            made = await node.rooms.outer_steps.merge_claims(key)
            assert not is_fetched(node.get_view(), game_round, stage.get_slot(COPIER)), (
                "nor is the copy taken for had"
            )
        for node in stage.nodes.values():
            assert len(await node.rooms.merge_signing.gather_signatures(game_round, made)) == 2


async def test_an_accepted_copy_is_not_merged(tmp_path: Path) -> None:
    """Its own auditors accept the copy, and not its original. On the chain its work leaf names another
    account: the signers of a merge of it would be convicted by a contest, whose leaf cannot be brought."""
    async with open_stage(tmp_path, 1, 2) as stage:
        await stage.commit(1, 2)
        copy(stage, 2)
        stage.draw()
        slots = tuple(sorted((stage.get_slot(1), stage.get_slot(COPIER))))
        stage.accept(*slots)
        game_round = stage.world.state.rounds[0]
        for node in stage.nodes.values():
            for seed in (1, 2):
                slot = stage.get_slot(seed)
                await FetchDelta(0, slot, game_round.claims[slot].claim_root).perform(node.rooms.outer_steps)
            chosen = find_merge_set(node.get_view(), game_round, stage.world.block)
            assert chosen.slots == slots and choose_slots(node.get_view(), chosen) == (stage.get_slot(1),)
            with pytest.raises(EnvironmentFault):
                await node.rooms.outer_steps.merge_claims(make_key(game_round, slots))


async def test_an_old_claim_root_is_not_merged(tmp_path: Path) -> None:
    """A seat computes nothing and commits again to its claim of the round before, which all nodes have. Its
    own auditors accept it."""
    async with open_stage(tmp_path, 1, 2) as stage:
        async with stage.open(COPIER):
            old = (await stage.commit(1, 2, COPIER))[2]
            game_round = stage.draw()
            stage.accept(0, 1, 2)
            await stage.fetch_all(1, 2)
        key, world = make_key(game_round, (0, 1, 2)), stage.world
        for node in stage.nodes.values():
            merged = await node.rooms.outer_steps.merge_claims(key)
        signers = tuple(compute_seat_id(SeatRole.SOLVER, number) for number in range(3))
        world.send(calls.PostRoot(0, (0, 1, 2), get_root(merged), signers), get_account(1))
        stage.sync()
        for seed in (1, 2):
            done = await finish(stage.nodes[seed], 1)
            commit(stage, 1, seed, done.claim_root, done.segments)
        commit(stage, 1, COPIER, old.claim_root, old.segments)
        game_round = stage.draw(1)
        world.send(calls.JudgeVotes(1, make_votes(world.state, game_round, (0, 1, 2))), "anybody")
        stage.sync()
        game_round, honest = world.state.rounds[1], tuple(sorted((stage.get_slot(1), stage.get_slot(2))))
        for node in stage.nodes.values():
            for slot in honest:
                await FetchDelta(1, slot, game_round.claims[slot].claim_root).perform(node.rooms.outer_steps)
            chosen = find_merge_set(node.get_view(), game_round, world.block)
            assert chosen.slots == (0, 1, 2) and choose_slots(node.get_view(), chosen) == honest
            merged = await node.rooms.outer_steps.merge_claims(make_key(game_round, honest))
        signatures = await stage.nodes[1].rooms.merge_signing.gather_signatures(game_round, merged)
        assert is_majority(stage.nodes[1].get_view(), game_round, len(signatures))
