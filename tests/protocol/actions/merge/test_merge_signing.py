"""Merge signatures between real nodes: what is signed, what is not, and what a majority needs."""

from dataclasses import replace
from pathlib import Path

import pytest

from protocol.actions.merge.global_model import MERGE, AskMerge, MergeAnswer, ask_peer
from protocol.actions.merge.merge_records import MergeMade
from protocol.actions.merge.merge_signing import gather_signatures, is_majority
from protocol.actions.merge.outer_step import get_root, make_key, make_statement, merge_claims
from protocol.actions.runtime.party import Party
from protocol.adapters.signing import recover_signer
from protocol.spec.errors import EnvironmentFault
from tests.protocol.actions.merge.stage import SIGNING, TASK, Stage, get_account, open_stage


async def _prepare(stage: Stage, *accepted: int) -> MergeMade:
    """Round 0 is drawn, these slots are accepted, all nodes have all bytes; node 1's merge of them."""
    await stage.commit(1, 2, 3)
    game_round = stage.draw()
    stage.accept(*accepted)
    await stage.fetch_all(1, 2)
    return await merge_claims(stage.parties[1], make_key(game_round, accepted))


async def _ask(stage: Stage, asked: AskMerge) -> bytes:
    """What node 2 answers node 1."""
    first, second = stage.parties[1], stage.parties[2]
    peer = first.state.network.find(second.account)
    return (await ask_peer(first, peer, MERGE, asked, MergeAnswer)).signature


def _question(made: MergeMade) -> AskMerge:
    return AskMerge(TASK, made.round, made.base_root, made.slots, made.claim_roots, get_root(made))


async def test_a_solver_signs_what_it_merged_itself_and_nothing_else(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        made = await _prepare(stage, 0, 1, 2)
        second, key = stage.parties[2], make_key(stage.world.state.rounds[0], (0, 1, 2))
        with pytest.raises(EnvironmentFault, match="not computed yet"):
            await _ask(stage, _question(made))
        assert second.task.claims.wanted.by_account == {get_account(1): key} and second.woken.is_set()
        second.woken.clear()
        with pytest.raises(EnvironmentFault, match="not computed yet"):
            await _ask(stage, _question(made))
        assert not second.woken.is_set(), "it knows, and looks at each block anyway"
        await merge_claims(second, key)
        signature = await _ask(stage, _question(made))
        statement = make_statement(second.task.domain, made)
        assert recover_signer(statement, signature, SIGNING) == get_account(2)
        with pytest.raises(EnvironmentFault, match="not what this node computed"):
            await _ask(stage, AskMerge(TASK, *key, bytes(32)))


async def test_nothing_is_signed_that_is_not_accepted_or_leaves_out_what_is(tmp_path: Path) -> None:
    """Slot 2 is rejected: no set with it. Slots 0 and 1 are accepted: no set without one of them. Claims in
    another order than that of their shards are another sum."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        made = await _prepare(stage, 0, 1)
        stage.reject(2)
        await merge_claims(stage.parties[2], make_key(stage.world.state.rounds[0], (0, 1)))
        assert await _ask(stage, _question(made))
        game_round = stage.world.state.rounds[0]
        for slots, reason in (((0, 1, 2), "claims that are accepted"), ((0,), "every accepted claim")):
            key = make_key(game_round, slots)
            with pytest.raises(EnvironmentFault, match=reason):
                await _ask(stage, AskMerge(TASK, *key, get_root(made)))
        turned = replace(made, slots=made.slots[::-1], claim_roots=made.claim_roots[::-1])
        with pytest.raises(EnvironmentFault, match="shard order"):
            await _ask(stage, _question(turned))


async def test_nothing_is_signed_while_a_claim_is_undecided(tmp_path: Path) -> None:
    """A seat could keep signatures of its own claim alone until all are accepted, and post that one."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        made = await _prepare(stage, 0)
        second, game_round = stage.parties[2], stage.world.state.rounds[0]
        await merge_claims(second, make_key(game_round, (0,)))
        with pytest.raises(EnvironmentFault, match="no undecided claim"):
            await _ask(stage, _question(made))
        stage.reject(1, 2)
        assert await _ask(stage, _question(made))


async def test_a_statement_names_slots(tmp_path: Path) -> None:
    """Two slots may have the same claim root, and only one of them a work leaf that can be shown."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        made = await _prepare(stage, 0, 1, 2)
        statement = make_statement(stage.parties[1].task.domain, made)
        assert statement.merged == 0b111
        other = make_statement(stage.parties[1].task.domain, replace(made, slots=made.slots[:2]))
        assert other.merged_hash == statement.merged_hash and other != statement


async def test_signatures_are_gathered_once_and_a_silent_solver_holds_up_nobody(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        made = await _prepare(stage, 0, 1, 2)
        first, second = stage.parties[1], stage.parties[2]
        game_round = stage.world.state.rounds[0]
        alone = await gather_signatures(first, game_round, made)
        assert len(alone) == 1 and not is_majority(first, game_round, len(alone))
        await merge_claims(second, make_key(game_round, (0, 1, 2)))
        del stage.parties[3]
        first.state.network.peers.pop(get_account(3))
        both = await gather_signatures(first, game_round, made)
        assert len(both) == 2 and is_majority(first, game_round, len(both))
        _forget_peers(first)
        assert await gather_signatures(first, game_round, made) == both


def _forget_peers(party: Party) -> None:
    party.state.network.peers.clear()
