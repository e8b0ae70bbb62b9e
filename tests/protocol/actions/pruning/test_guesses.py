"""Guesses that follow one another: the states of the newest two stay, and of the one that merges the most
claims. One that is made again is trained again to the same claim."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from protocol.actions.audit.audit_records import AuditBook
from protocol.actions.dispute.casebook import CaseBook
from protocol.actions.merge import ahead
from protocol.actions.merge.ahead import TrainAhead
from protocol.actions.merge.training import is_whole
from protocol.actions.merge.work import name_claim
from protocol.actions.pruning.pruning_duties import Prune
from protocol.actions.runtime.party import Party
from protocol.spec.game.inner_dispute import InnerBook
from protocol.spec.statements import VoteWord
from tests.protocol.actions.merge.stage import TASK, Stage, give, hand, open_stage
from tests.protocol.actions.pruning.test_pruning_duties import list_due


async def open_audited(stage: Stage) -> Party:
    """The first node, once round 0 is audited and all pseudo-gradients are there."""
    await stage.commit(1, 2, 3)
    game_round, first = stage.draw(), stage.parties[1]
    give(first, *map(hand, (0, 1, 2)))
    await stage.fetch_all(1)
    handed: Any = first.task.audits
    handed.room = SimpleNamespace(book=AuditBook(first.journal, TASK))
    first.joined = replace(first.task, cases=CaseBook(first.journal, TASK))
    first.state.inner[TASK] = InnerBook(10)
    windows = stage.world.state.terms.windows
    stage.world.jump((game_round.closed or 0) + windows.audit_max // 8 + 1)
    stage.sync()
    return first


async def train_ahead(stage: Stage, party: Party, *slots: int) -> bytes:
    """On the guess that these claims are merged, and prune; the claim's root."""
    game_round = stage.world.state.rounds[0]
    party.task.claims.fetched.clear()
    party.task.claims.fetched.update(name_claim(party, game_round, slot) for slot in slots)
    await _follow(stage, party, *slots)
    finished = party.task.claims.works[party.task.pruning.begun[-1]].finished
    assert finished is not None
    return finished.claim_root


async def test_the_newest_two_guesses_stay_and_an_older_one_is_trained_again(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await open_audited(stage)
        own = stage.get_slot(1)
        others = [slot for slot in (0, 1, 2) if slot != own]
        guesses = [(own, others[0]), (own, others[1]), (0, 1, 2)]
        roots = [await train_ahead(stage, first, *slots) for slots in guesses]
        assert _list_whole(first) == roots[1:]
        assert await train_ahead(stage, first, *guesses[0]) == roots[0], "the same salts, the same claim"
        assert _list_whole(first) == [roots[0], roots[2]]


async def test_votes_that_take_claims_out_and_put_them_back_cost_no_training(tmp_path: Path) -> None:
    """Two verifiers say UNSERVED, each of another claim, one after the other. One UNSERVED of a draw costs no
    fee, and the reserves accept: the guess is all claims, all but one, all but another, and all again."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        party = await open_audited(stage)
        own = stage.get_slot(1)
        one, other = (slot for slot in (0, 1, 2) if slot != own)
        give(party)
        await _follow(stage, party, 0, 1, 2)
        first = [hand(one, VoteWord.UNSERVED)]
        give(party, *first)
        await _follow(stage, party, own, other)
        first += [hand(one, rank=1), hand(one, rank=2), hand(other, VoteWord.UNSERVED)]
        give(party, *first)
        await _follow(stage, party, own, one)
        give(party, *first, hand(other, rank=1), hand(other, rank=2))
        assert not _list_ahead(stage, party), (
            "the guess that the round began with is right again, and trained"
        )


async def _follow(stage: Stage, party: Party, *slots: int) -> None:
    """Train on the guess, which merges these claims, and prune."""
    (due,) = _list_ahead(stage, party)
    assert set(due.key.slots) == set(slots)
    await due.perform(party)
    for prune in [duty for duty in list_due(party) if isinstance(duty, Prune)]:
        await prune.perform(party)
    assert not _list_ahead(stage, party), "it is trained"


def _list_ahead(stage: Stage, party: Party) -> list[TrainAhead]:
    found = ahead.list_duties(party, stage.world.block)
    return [due for due in found if isinstance(due, TrainAhead)]


def _list_whole(party: Party) -> list[bytes]:
    """Claims of round 1 that are whole in the store."""
    works = [work for (index, _), work in party.task.claims.works.items() if index == 1]
    return [work.finished.claim_root for work in works if work.finished and is_whole(party, work)]
