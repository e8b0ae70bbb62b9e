"""Guesses that follow one another: the states of the newest two stay, and of the one that merges the most
claims. One that is made again is trained again to the same claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.node.merging import stage as stages
from tests.node.merging.stage import Stage, give, hand, open_stage
from tests.node.upkeep.test_pruning import list_due
from touchstone.node.kit.retention_windows import WHOLE_SPECULATIONS
from touchstone.node.models.claim_openings import name_claim
from touchstone.node.training import speculation
from touchstone.node.training.claims import is_whole
from touchstone.node.training.speculation import TrainSpeculatively
from touchstone.node.upkeep.pruning import Prune
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.roles.role_nodes import Member


async def open_audited(stage: Stage) -> Member:
    """The first node, once round 0 is audited and all pseudo-gradients are there."""
    await stage.commit(1, 2, 3)
    game_round, first = stage.draw(), stage.nodes[1]
    give(first, *map(hand, (0, 1, 2)))
    await stage.fetch_all(1)
    windows = stage.world.state.terms.windows
    stage.world.jump((game_round.closed or 0) + windows.audit_max // 8 + 1)
    stage.sync()
    return first


async def train_ahead(stage: Stage, node: Member, *slots: int) -> bytes:
    """On the guess that these claims are merged, and prune; the claim's root."""
    game_round = stage.world.state.rounds[0]
    node.rooms.tools.claims.fetched.clear()
    node.rooms.tools.claims.fetched.update(name_claim(node.get_view(), game_round, slot) for slot in slots)
    await _follow(stage, node, *slots)
    finished = node.rooms.tools.claims.works[node.rooms.tools.pruning_memory.begun[-1]].finished
    assert finished is not None
    return finished.claim_root


async def test_the_newest_two_guesses_stay_and_an_older_one_is_trained_again(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await open_audited(stage)
        own = stage.get_slot(1)
        others = [slot for slot in (0, 1, 2) if slot != own]
        speculations = [(own, others[0]), (own, others[1]), (0, 1, 2)]
        roots = [await train_ahead(stage, first, *slots) for slots in speculations]
        assert _list_whole(first) == roots[1:]
        assert await train_ahead(stage, first, *speculations[0]) == roots[0], "the same salts, the same claim"
        assert _list_whole(first) == [roots[0], roots[2]]


async def test_votes_that_take_claims_out_and_put_them_back_cost_no_training(tmp_path: Path) -> None:
    """Two verifiers say UNSERVED, each of another claim, one after the other. One UNSERVED of a draw costs no
    fee, and the reserves accept: the guess is all claims, all but one, all but another, and all again."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        node = await open_audited(stage)
        own = stage.get_slot(1)
        one, other = (slot for slot in (0, 1, 2) if slot != own)
        give(node)
        await _follow(stage, node, 0, 1, 2)
        first = [hand(one, VoteWord.UNSERVED)]
        give(node, *first)
        await _follow(stage, node, own, other)
        first += [hand(one, rank=1), hand(one, rank=2), hand(other, VoteWord.UNSERVED)]
        give(node, *first)
        await _follow(stage, node, own, one)
        give(node, *first, hand(other, rank=1), hand(other, rank=2))
        assert not _list_ahead(stage, node), "the guess that the round began with is right again, and trained"


async def open_five(stage: Stage) -> Member:
    """The first of five nodes, once all pseudo-gradients of round 0 are there."""
    await stage.commit(1, 2, 3, 4, 5)
    game_round, node = stage.draw(), stage.nodes[1]
    await stage.fetch_all(1)
    stage.world.jump((game_round.closed or 0) + stage.world.state.terms.windows.audit_max // 8 + 1)
    stage.sync()
    give(node)
    await _follow(stage, node, 0, 1, 2, 3, 4)
    return node


@pytest.fixture
def five_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "SOLVERS", (1, 2, 3, 4, 5))
    monkeypatch.setattr(stages, "AUDITORS", range(11, 20))


@pytest.mark.usefixtures("five_solvers")
async def test_a_guess_that_cannot_be_right_any_more_takes_no_place(tmp_path: Path) -> None:
    """One solver serves no auditor, so its claim is void for good. Two verifiers say UNSERVED, each of
    another claim, one after the other: the guess that all other claims are merged is right in the end."""
    async with open_stage(tmp_path, 1, 2, 3, 4, 5, solver_seats=5) as stage:
        node, own = await open_five(stage), stage.get_slot(1)
        void, y, z, w = (slot for slot in range(5) if slot != own)
        votes = [hand(void, VoteWord.UNSERVED), hand(void, VoteWord.UNSERVED, rank=1)]
        give(node, *votes)
        await _follow(stage, node, own, y, z, w)
        votes += [hand(y, VoteWord.UNSERVED)]
        give(node, *votes)
        await _follow(stage, node, own, z, w)
        votes += [hand(y, rank=1), hand(y, rank=2), hand(z, VoteWord.UNSERVED)]
        give(node, *votes)
        await _follow(stage, node, own, y, w)
        votes += [hand(z, rank=1), hand(z, rank=2)]
        give(node, *votes)
        assert not _list_ahead(stage, node), "what all honest claims come to was trained, and is right"


@pytest.mark.usefixtures("five_solvers")
async def test_merges_of_guesses_that_went_go_too(tmp_path: Path) -> None:
    """Each vote of a liar makes another guess, and each guess another merge, of 8 bytes a parameter."""
    async with open_stage(tmp_path, 1, 2, 3, 4, 5, solver_seats=5) as stage:
        node, own = await open_five(stage), stage.get_slot(1)
        others = [slot for slot in range(5) if slot != own]
        votes: list[Any] = []
        for slot in others:
            give(node, *votes, hand(slot, VoteWord.UNSERVED))
            await _follow(stage, node, own, *(one for one in others if one != slot))
            votes += [hand(slot, VoteWord.UNSERVED), hand(slot, rank=1), hand(slot, rank=2)]
        here = {key.root for key in node.store.list_keys(BlobKind.TENSOR)}
        merges = [one for one in node.rooms.tools.claims.merges.values() if one.momentum_root in here]
        assert len(node.rooms.tools.claims.merges) == 5 and len(merges) <= WHOLE_SPECULATIONS


async def _follow(stage: Stage, node: Member, *slots: int) -> None:
    """Train on the guess, which merges these claims, and prune."""
    (due,) = _list_ahead(stage, node)
    assert set(due.key.slots) == set(slots)
    await due.perform(node.rooms.speculation)
    for prune in [duty for duty in list_due(node) if isinstance(duty, Prune)]:
        await prune.perform(node.rooms.pruning)
    assert not _list_ahead(stage, node), "it is trained"


def _list_ahead(stage: Stage, node: Member) -> list[TrainSpeculatively]:
    found = speculation.list_duties(node.get_view(), stage.world.block)
    return [due for due in found if isinstance(due, TrainSpeculatively)]


def _list_whole(node: Member) -> list[bytes]:
    """Claims of round 1 that are whole in the store."""
    works = [work for (index, _), work in node.rooms.tools.claims.works.items() if index == 1]
    return [work.finished.claim_root for work in works if work.finished and is_whole(node.get_view(), work)]
