"""Merges that others ask to sign: solvers that withhold pseudo-gradients ask for one set after another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from protocol.actions.merge import outer_step
from protocol.actions.merge.asked_merges import list_duties
from protocol.actions.merge.global_model import MERGE, AskMerge, MergeAnswer, ask_peer
from protocol.actions.merge.outer_step import FetchDelta, get_root, make_key, merge_claims
from protocol.actions.merge.work import is_fetched
from protocol.actions.runtime.party import Party
from protocol.adapters.blobs import BlobKind
from protocol.spec.errors import EnvironmentFault
from tests.protocol.actions.merge import stage as stages
from tests.protocol.actions.merge.stage import TASK, Stage, get_account, open_stage
from tests.protocol.spec.game.world import make_word

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
    await FetchDelta(0, slot, game_round.claims[slot].claim_root).perform(stage.parties[VICTIM])


async def ask(stage: Stage, seed: int, slots: Sequence[int], root: bytes = bytes(32)) -> bytes:
    """What node 1 answers this node about its own claim and those of other slots."""
    asker, own = stage.parties[seed], stage.get_slot(VICTIM)
    key = make_key(stage.world.state.rounds[0], (own, *slots))
    peer = asker.state.network.find(get_account(VICTIM))
    return (await ask_peer(asker, peer, MERGE, AskMerge(TASK, *key, root), MergeAnswer)).signature


async def want(stage: Stage, seed: int, slots: Sequence[int]) -> None:
    with pytest.raises(EnvironmentFault, match="not computed yet"):
        await ask(stage, seed, slots)


def list_others(stage: Stage) -> list[int]:
    return [slot for slot in range(len(SEEDS)) if slot != stage.get_slot(VICTIM)]


def count_tensors(party: Party) -> int:
    return len(party.store.list_keys(BlobKind.TENSOR))


async def test_who_asks_for_every_subset_is_waited_for_with_the_last_one_and_wakes_the_loop_once_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.parties[VICTIM], list_others(stage)
        sets = [some for count in range(len(others) + 1) for some in combinations(others, count)]
        wakes = 0
        for some in sets:
            victim.woken.clear()
            await want(stage, 2, some)
            wakes += victim.woken.is_set()
        assert len(sets) == 16 and wakes == 1
        (duty,) = list_duties(victim, stage.world.block)
        assert duty.key == make_key(stage.world.state.rounds[0], tuple(range(len(SEEDS))))


async def test_merges_that_others_ask_for_are_computed_one_at_a_time_and_each_holds_the_ones_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of one set are in memory, not those of all; and the store keeps none of the results."""
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.parties[VICTIM], list_others(stage)
        running, most = 0, 0
        compute = outer_step.compute_merge

        async def note_running(*arguments: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                return await compute(*arguments)
            finally:
                running -= 1

        monkeypatch.setattr(outer_step, "compute_merge", note_running)
        before = count_tensors(victim)
        for count in (1, 2, 3):
            for seed, some in zip((2, 3, 4, 5), combinations(others, count), strict=False):
                with pytest.raises(EnvironmentFault):
                    await ask(stage, seed, some)
            duties = list(list_duties(victim, stage.world.block))
            await asyncio.gather(*(duty.perform(victim) for duty in duties))
        made = sorted(victim.task.claims.merges, key=lambda key: len(key.slots))
        assert most == 1 and len(made) <= len(others)
        assert all(set(less.slots) < set(more.slots) for less, more in zip(made, made[1:], strict=False))
        game_round = stage.world.state.rounds[0]
        assert all(is_fetched(victim, game_round, slot) for slot in made[-1].slots), "as the bytes are there"
        assert count_tensors(victim) == before


async def test_an_asked_merge_is_signed_and_where_it_is_posted_the_store_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.parties[VICTIM], list_others(stage)
        await want(stage, 2, others[:2])
        (duty,) = list_duties(victim, stage.world.block)
        await duty.perform(victim)
        assert not list(list_duties(victim, stage.world.block))
        made, before = victim.task.claims.merges[duty.key], count_tensors(victim)
        assert await ask(stage, 2, others[:2], get_root(made))
        assert await merge_claims(victim, duty.key) == made
        assert count_tensors(victim) == before + 2


async def test_what_was_asked_of_another_round_or_base_root_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.parties[VICTIM], list_others(stage)
        await want(stage, 2, others[:1])
        wanted = victim.task.claims.wanted
        key = wanted.by_account[get_account(2)]
        wanted.note(get_account(3), key._replace(base_root=make_word("another base")))
        assert list(wanted.by_account) == [get_account(3)]
        assert not list(list_duties(victim, stage.world.block)), "the chain has no such round"


async def test_a_merge_is_left_that_would_not_be_signed_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another claim's bytes came meanwhile, or the asker wants another merge."""
    async with withhold(tmp_path, monkeypatch) as stage:
        victim, others = stage.parties[VICTIM], list_others(stage)
        game_round = stage.world.state.rounds[0]
        await want(stage, 2, others[:1])
        (first,) = list_duties(victim, stage.world.block)
        await want(stage, 2, others[:2])
        (second,) = list_duties(victim, stage.world.block)
        await first.perform(victim)
        slot = others[2]
        await FetchDelta(0, slot, game_round.claims[slot].claim_root).perform(victim)
        await second.perform(victim)
        assert not victim.task.claims.merges and not list(list_duties(victim, stage.world.block))
