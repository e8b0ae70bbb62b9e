"""From the first request to the seal: how long an auditor asks, what it seals, when it replays nothing."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.verifier.stage import (
    SOLVER,
    TASK,
    Node,
    get_account,
    judge,
    make_bystander,
    make_solver,
    make_stage,
)
from tests.verifier.test_audit_duties import list_due
from tests.verifier.test_audit_votes import make_vote
from touchstone.node.kit.view import require_game
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.statements import VoteWord, compute_seal
from touchstone.verifier import sealing
from touchstone.verifier.audit_duties import AuditDraw
from touchstone.verifier.sealing import NotServed, ask_until, make_seal

ACCUSED = get_account(SOLVER)
LATER = 1 << 30
"""A block that never comes."""


class SlowSolver:
    """A solver that serves from the n-th request on."""

    def __init__(self, served_from: int) -> None:
        self.served_from, self.count = served_from, 0

    async def ask(self) -> int:
        self.count += 1
        if self.count < self.served_from:
            raise EnvironmentFault(what="away", expected="", actual="", remedy="")
        return self.count


@pytest.fixture
def auditor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """The primary of the claim; it pauses as good as not between two requests."""
    monkeypatch.setattr(sealing, "ASK_PAUSE_S", 0.001)
    stage = make_stage()
    return Node(stage, stage.find_auditor(), tmp_path / "auditor")


async def test_a_solver_that_is_late_is_asked_again_until_its_time_is_over(
    auditor: Node, tmp_path: Path
) -> None:
    stage, slow, silent = auditor.stage, SlowSolver(20), SlowSolver(LATER)
    until = stage.head + 4
    async with auditor.run(), make_bystander(stage, tmp_path).run():
        assert await ask_until(auditor.room, ACCUSED, slow.ask, until, "the start") == 20
        waiting = asyncio.create_task(ask_until(auditor.room, ACCUSED, silent.ask, until, "the start"))
        await stage.pass_blocks(until - 1)
        await asyncio.sleep(0.05)
        assert not waiting.done() and silent.count
        await stage.pass_blocks(until)
        with pytest.raises(NotServed, match="serves the data"):
            await waiting
    asked = silent.count
    await asyncio.sleep(0.05)
    assert silent.count == asked, "it is left in peace"


async def test_an_auditor_that_comes_after_the_time_waits_for_one_block_all_the_same(auditor: Node) -> None:
    """It was down, so its solver was never asked. A vote of UNSERVED would cost that solver a fee."""
    slow = SlowSolver(20)
    async with auditor.run():
        assert await ask_until(auditor.room, ACCUSED, slow.ask, auditor.stage.head - 9, "the start") == 20


async def test_while_the_chain_is_read_anew_no_time_of_the_solver_runs_out(auditor: Node) -> None:
    """Where it serves is not known then. It was said to serve nothing, which costs it a fee."""

    async def ask() -> int:
        await auditor.stage.pass_blocks(until)
        return cast(int, require_game(None, TASK))

    until = auditor.stage.head + 4
    async with auditor.run():
        with pytest.raises(GateShut, match="cannot work on the task now"):
            await ask_until(auditor.room, ACCUSED, ask, until, "the start")


async def test_what_is_sealed_is_the_auditors_own_end_under_a_salt(auditor: Node, tmp_path: Path) -> None:
    """It is in the journal and the store before it is sent: a dispute on the vote is answered with it."""
    stage = auditor.stage
    drawn, place = stage.get_drawn(), stage.get_drawn().place
    async with make_solver(stage, tmp_path).run(), auditor.run():
        made = await make_seal(auditor.room, drawn, LATER)
    assert made is not None and made.own_end == stage.claim.headers[drawn.segment + 1]
    leaf = stage.claim.levels[0][drawn.segment]
    where = (place.domain, 0, place.slot, place.draw, place.rank, auditor.account)
    assert made.sealed.seal == compute_seal(*where, leaf, compute_state_root(made.own_end), made.salt)
    assert (made.sealed.start_leaf, made.start) == (leaf, stage.claim.open_boundary(0, drawn.segment))
    assert made.salt != ZERO_WORD and auditor.room.states.load(made.own_end).local_step > 0
    again = Node(stage, auditor.seed, auditor.folder)
    assert again.room.book.seals[place] == made
    again.journal.close()


async def test_a_draw_that_a_reorg_took_back_and_brings_again_is_audited(
    auditor: Node, tmp_path: Path
) -> None:
    """It was held for one in which no word counts any more, until the process ended: a silent primary."""
    stage, drawn = auditor.stage, auditor.stage.get_drawn()
    now = stage.world.state

    async def take_back() -> None:
        stage.world.state = replace(now, rounds={0: replace(now.rounds[0], seed=None)})

    auditor.room.pause = take_back
    async with make_solver(stage, tmp_path).run(), auditor.run():
        assert await make_seal(auditor.room, drawn, LATER) is None
    assert AuditDraw(drawn.place) not in list_due(auditor)
    stage.world.state = now
    assert AuditDraw(drawn.place) in list_due(auditor)


async def test_where_no_word_would_count_any_more_nothing_is_replayed(tmp_path: Path) -> None:
    """The primary's ACCEPT decided the draw while its reserve asked for the start."""
    stage = make_stage()
    judge(stage, make_vote(stage, word=VoteWord.ACCEPT))
    reserve = Node(stage, stage.find_auditor(1), tmp_path / "reserve")
    trained = watch_training(reserve)
    async with make_solver(stage, tmp_path).run(), reserve.run():
        assert await make_seal(reserve.room, stage.get_drawn(1), LATER) is None
    assert reserve.room.book.passed == {stage.get_drawn(1).place}
    assert not trained and not reserve.room.book.seals


def watch_training(node: Node) -> list[int]:
    """The steps of each training of a node."""
    train, steps = node.room.train, list[int]()

    def train_and_note(*arguments: Any) -> Any:
        steps.append(arguments[-1])
        return train(*arguments)

    node.room.train = train_and_note
    return steps
