"""Merge signatures between real nodes: what is signed, what is not, and what a majority needs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import SIGNING, TASK, get_account
from tests.node.merging import stage as stages
from tests.node.merging.stage import Stage, open_stage
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.merging.merge_signing import list_duties
from touchstone.node.models.claim_openings import is_fetched
from touchstone.node.models.expected_merge import get_root, make_key, make_statement
from touchstone.node.models.global_model import MERGE, AskMerge, MergeAnswer, make_form
from touchstone.node.models.outer_step import FetchDelta, OuterSteps
from touchstone.node.models.round_judging import is_majority
from touchstone.node.records.claim_records import MergeKey, MergeMade
from touchstone.protocol.adapters.keys.signatures import recover_signer
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.scripts.roles.role_nodes import Member


async def _prepare(stage: Stage, *accepted: int) -> MergeMade:
    """Round 0 is drawn, these slots are accepted, all nodes have all bytes; node 1's merge of them."""
    await stage.commit(1, 2, 3)
    game_round = stage.draw()
    stage.accept(*accepted)
    await stage.fetch_all(1, 2)
    key = make_key(game_round, accepted)
    made: MergeMade = await stage.nodes[1].rooms.outer_steps.merge_claims(key)
    return made


async def _ask(stage: Stage, asked: AskMerge) -> bytes:
    """What node 2 answers node 1."""
    first, second = stage.nodes[1], stage.nodes[2]
    peer = first.state.network.find(second.account)
    answer = await first.rooms.tools.peers.ask(peer, MERGE, asked, make_form(MergeAnswer))
    return answer.signature


def _question(made: MergeMade) -> AskMerge:
    return AskMerge(TASK, made.round, made.base_root, made.slots, made.claim_roots, get_root(made))


async def test_a_solver_signs_what_it_merged_itself_and_nothing_else(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        made = await _prepare(stage, 0, 1, 2)
        second, key = stage.nodes[2], make_key(stage.world.state.rounds[0], (0, 1, 2))
        with pytest.raises(EnvironmentFault, match="not computed yet"):
            await _ask(stage, _question(made))
        assert (
            second.rooms.tools.claims.wanted.by_account == {get_account(1): key}
            and second.following.changed.is_set()
        )
        second.following.changed.clear()
        with pytest.raises(EnvironmentFault, match="not computed yet"):
            await _ask(stage, _question(made))
        assert not second.following.changed.is_set(), "it knows, and looks at each block anyway"
        await second.rooms.outer_steps.merge_claims(key)
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
        await stage.nodes[2].rooms.outer_steps.merge_claims(make_key(stage.world.state.rounds[0], (0, 1)))
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
        second, game_round = stage.nodes[2], stage.world.state.rounds[0]
        await second.rooms.outer_steps.merge_claims(make_key(game_round, (0,)))
        with pytest.raises(EnvironmentFault, match="no undecided claim"):
            await _ask(stage, _question(made))
        stage.reject(1, 2)
        assert await _ask(stage, _question(made))


async def test_a_statement_names_slots(tmp_path: Path) -> None:
    """Two slots may have the same claim root, and only one of them a work leaf that can be shown."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        made = await _prepare(stage, 0, 1, 2)
        statement = make_statement(stage.nodes[1].task.domain, made)
        assert statement.merged == 0b111
        other = make_statement(stage.nodes[1].task.domain, replace(made, slots=made.slots[:2]))
        assert other.merged_hash == statement.merged_hash and other != statement


async def test_signatures_are_gathered_once_and_a_silent_solver_holds_up_nobody(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        made = await _prepare(stage, 0, 1, 2)
        first, second = stage.nodes[1], stage.nodes[2]
        game_round = stage.world.state.rounds[0]
        alone = await first.rooms.merge_signing.gather_signatures(game_round, made)
        assert len(alone) == 1 and not is_majority(first.get_view(), game_round, len(alone))
        await second.rooms.outer_steps.merge_claims(make_key(game_round, (0, 1, 2)))
        del stage.nodes[3]
        first.state.network.peers.pop(get_account(3))
        both = await first.rooms.merge_signing.gather_signatures(game_round, made)
        assert len(both) == 2 and is_majority(first.get_view(), game_round, len(both))
        _forget_peers(first)
        assert await first.rooms.merge_signing.gather_signatures(game_round, made) == both


def _forget_peers(node: Member) -> None:
    node.state.network.peers.clear()


SEEDS = (1, 2, 3, 4, 5)
VICTIM = 1


@asynccontextmanager
async def withhold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """Five solvers, whose claims are all accepted; node 1 has fetched its own pseudo-gradient alone."""
    monkeypatch.setattr(stages, "SOLVERS", SEEDS)
    async with open_stage(folder, *SEEDS, solver_seats=len(SEEDS)) as stage:
        await stage.commit(*SEEDS)
        stage.draw()
        stage.accept(*range(len(SEEDS)))
        await fetch_own(stage)
        yield stage


async def fetch_own(stage: Stage) -> None:
    slot, game_round = stage.get_slot(VICTIM), stage.world.state.rounds[0]
    await FetchDelta(0, slot, game_round.claims[slot].claim_root).perform(
        stage.nodes[VICTIM].rooms.outer_steps
    )


async def ask(stage: Stage, seed: int, slots: Sequence[int], root: bytes = bytes(32)) -> bytes:
    """What node 1 answers this node about its own claim and those of other slots."""
    asker, own = stage.nodes[seed], stage.get_slot(VICTIM)
    key = make_key(stage.world.state.rounds[0], (own, *slots))
    peer = asker.state.network.find(get_account(VICTIM))
    answer = await asker.rooms.tools.peers.ask(
        peer, MERGE, AskMerge(TASK, *key, root), make_form(MergeAnswer)
    )
    return answer.signature


async def want(stage: Stage, seed: int, slots: Sequence[int]) -> None:
    with pytest.raises(EnvironmentFault, match="not computed yet"):
        await ask(stage, seed, slots)


def list_others(stage: Stage) -> list[int]:
    return [slot for slot in range(len(SEEDS)) if slot != stage.get_slot(VICTIM)]


def count_tensors(node: Member) -> int:
    return len(node.store.list_keys(BlobKind.TENSOR))


async def test_who_asks_for_every_subset_is_waited_for_with_the_last_one_and_wakes_the_loop_once_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.nodes[VICTIM], list_others(stage)
        sets = [some for count in range(len(others) + 1) for some in combinations(others, count)]
        notices = 0
        for some in sets:
            victim.following.changed.clear()
            await want(stage, 2, some)
            notices += victim.following.changed.is_set()
        assert len(sets) == 16 and notices == 1
        (duty,) = list_duties(victim.get_view(), stage.world.block)
        assert duty.key == make_key(stage.world.state.rounds[0], tuple(range(len(SEEDS))))


async def test_merges_that_others_ask_for_are_computed_one_at_a_time_and_each_holds_the_ones_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of one set are in memory, not those of all; and the store keeps none of the results."""
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.nodes[VICTIM], list_others(stage)
        running, most = 0, 0
        compute = OuterSteps.compute_merge

        async def note_running(steps: OuterSteps, key: MergeKey) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                return await compute(steps, key)
            finally:
                running -= 1

        monkeypatch.setattr(OuterSteps, "compute_merge", note_running)
        before = count_tensors(victim)
        for count in (1, 2, 3):
            for seed, some in zip((2, 3, 4, 5), combinations(others, count), strict=False):
                with pytest.raises(EnvironmentFault):
                    await ask(stage, seed, some)
            duties = list(list_duties(victim.get_view(), stage.world.block))
            await asyncio.gather(*(duty.perform(victim.rooms.merge_signing) for duty in duties))
        made = sorted(victim.rooms.tools.claims.merges, key=lambda key: len(key.slots))
        assert most == 1 and len(made) <= len(others)
        assert all(set(less.slots) < set(more.slots) for less, more in zip(made, made[1:], strict=False))
        game_round = stage.world.state.rounds[0]
        assert all(is_fetched(victim.get_view(), game_round, slot) for slot in made[-1].slots), (
            "as the bytes are there"
        )
        assert count_tensors(victim) == before


async def test_an_asked_merge_is_signed_and_where_it_is_posted_the_store_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.nodes[VICTIM], list_others(stage)
        await want(stage, 2, others[:2])
        (duty,) = list_duties(victim.get_view(), stage.world.block)
        await duty.perform(victim.rooms.merge_signing)
        assert not list(list_duties(victim.get_view(), stage.world.block))
        made, before = victim.rooms.tools.claims.merges[duty.key], count_tensors(victim)
        assert await ask(stage, 2, others[:2], get_root(made))
        assert await victim.rooms.outer_steps.merge_claims(duty.key) == made
        assert count_tensors(victim) == before + 2


async def test_what_was_asked_of_another_round_or_base_root_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.nodes[VICTIM], list_others(stage)
        await want(stage, 2, others[:1])
        wanted = victim.rooms.tools.claims.wanted
        key = wanted.by_account[get_account(2)]
        wanted.note(get_account(3), key._replace(base_root=make_word("another base")))
        assert list(wanted.by_account) == [get_account(3)]
        assert not list(list_duties(victim.get_view(), stage.world.block)), "the chain has no such round"


async def test_a_merge_is_left_that_would_not_be_signed_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another claim's bytes came meanwhile, or the asker wants another merge."""
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.nodes[VICTIM], list_others(stage)
        game_round = stage.world.state.rounds[0]
        await want(stage, 2, others[:1])
        (first,) = list_duties(victim.get_view(), stage.world.block)
        await want(stage, 2, others[:2])
        (second,) = list_duties(victim.get_view(), stage.world.block)
        await first.perform(victim.rooms.merge_signing)
        slot = others[2]
        await FetchDelta(0, slot, game_round.claims[slot].claim_root).perform(victim.rooms.outer_steps)
        await second.perform(victim.rooms.merge_signing)
        assert not victim.rooms.tools.claims.merges and not list(
            list_duties(victim.get_view(), stage.world.block)
        )
