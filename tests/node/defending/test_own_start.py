"""A solver disputes a vote on its own claim: it has the start of the segment, whatever the signer shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import TASK
from tests.node.merging.stage import Stage
from tests.node.upkeep.test_pruning import list_due, list_here, open_solver
from touchstone.node.kit.states import StateStore
from touchstone.node.models.own_openings import get_finished
from touchstone.node.upkeep.pruning import Prune, RestoreBoundary
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerBook, InnerDispute, PostedTrace
from touchstone.protocol.spec.game.state import RunningDispute, StatementRef
from touchstone.scripts.roles.role_nodes import Member

SEGMENT = 2
SLANDERER = Peer("0x" + "9" * 40, "https://127.0.0.1:1", bytes(32))


async def dispute_false_rejection(stage: Stage, node: Member) -> InnerDispute:
    """The solver's dispute on a vote that has another end than its claim; half of its turn is over. What is
    made for it is pruned again."""
    slot, game = stage.get_slot(1), stage.world.state
    start = await node.rooms.segments.restore_boundary(0, SEGMENT)
    roots = (*node.rooms.segments.compute_roots((0, slot), SEGMENT, start)[:-1], bytes(32))
    (prune,) = [one for one in list_due(node) if isinstance(one, Prune)] or [Prune(())]
    await prune.perform(node.rooms.pruning)
    assert list_here(node) == [0]
    ref, respond = StatementRef(0, slot, 0, 0), game.terms.windows.respond
    clock = node.state.head_block + respond // 2
    seat = next(one for one in game.seats.values() if one.account != node.account)
    dispute = InnerDispute(
        b"d" * 32, seat.number, ref, SEGMENT, node.account, clock, DisputeStage.NAME, roots
    )
    node.state.inner[TASK] = InnerBook(respond, {dispute.name: dispute})
    running = RunningDispute(7, ref, seat.number, node.account, clock)
    stage.world.state = replace(game, disputes={7: running})
    stage.sync()
    return dispute


async def test_a_solver_names_a_step_of_who_shows_nothing_from_its_own_start(tmp_path: Path) -> None:
    """Also where the start was pruned."""
    async with open_solver(tmp_path) as (stage, node):
        dispute = await dispute_false_rejection(stage, node)
        assert await node.list_challenges().step_judging.find_step(dispute) == len(dispute.roots) - 2


async def test_a_pruned_start_is_trained_again_for_an_own_dispute_and_stays(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node):
        dispute = await dispute_false_rejection(stage, node)
        due = {type(one): one for one in list_due(node)}
        assert due[RestoreBoundary] == RestoreBoundary(0, SEGMENT)
        await due[RestoreBoundary].perform(node.rooms.pruning)
        await due[Prune].perform(node.rooms.pruning)
        assert list_here(node) == [0, SEGMENT] and not list_due(node)
        ended = replace(dispute, stage=DisputeStage.CLEARED)
        node.state.inner[TASK] = InnerBook(10, {dispute.name: ended})
        await Prune(()).perform(node.rooms.pruning)
        assert list_here(node) == [0], "no longer than it is open"


async def test_the_state_before_a_step_that_is_not_shown_is_computed_from_the_own_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch_nothing(*_: Any) -> Any:
        raise EnvironmentFault(what="silent", expected="", actual="", remedy="")

    monkeypatch.setattr(StateStore, "fetch_and_load", fetch_nothing)
    async with open_solver(tmp_path) as (stage, node):
        dispute = replace(await dispute_false_rejection(stage, node), stage=DisputeStage.PROVE, step=1)
        start = await node.rooms.segments.restore_boundary(0, SEGMENT)
        states = list(node.rooms.segments.iterate_states((0, dispute.statement.slot), SEGMENT, start))
        before = state_header(states[1])
        trace = PostedTrace(b"t" * 32, before, before)
        place = (dispute, SLANDERER, trace, dispute.clock)
        found = await node.list_challenges().prosecuting._find_step_start(*place)
        assert state_header(found) == before and node.rooms.tools.states.has(
            get_finished(node.get_view(), 0).boundaries[SEGMENT]
        )
