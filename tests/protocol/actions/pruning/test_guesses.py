"""Guesses that follow one another: the states of the newest two stay, and one that is made again is trained
again to the same claim."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from protocol.actions.audit.book import AuditBook
from protocol.actions.dispute.casebook import CaseBook
from protocol.actions.merge import ahead
from protocol.actions.merge.ahead import TrainAhead
from protocol.actions.merge.training import is_whole
from protocol.actions.merge.work import name_claim
from protocol.actions.pruning.duties import Prune
from protocol.actions.runtime.duties import Wait
from protocol.actions.runtime.party import Party
from protocol.spec.game.inner_dispute import InnerBook
from tests.protocol.actions.merge.stage import TASK, Stage, give, hand, open_stage
from tests.protocol.actions.pruning.test_duties import list_due


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
    (due,) = [one for one in ahead.list_duties(party, stage.world.block) if not isinstance(one, Wait)]
    assert isinstance(due, TrainAhead) and len(due.key.slots) == len(slots)
    await due.perform(party)
    for prune in [one for one in list_due(party) if isinstance(one, Prune)]:
        await prune.perform(party)
    assert not list(ahead.list_duties(party, stage.world.block)), "it is trained"
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


def _list_whole(party: Party) -> list[bytes]:
    """Claims of round 1 that are whole in the store."""
    works = [work for (index, _), work in party.task.claims.works.items() if index == 1]
    return [work.finished.claim_root for work in works if work.finished and is_whole(party, work)]
