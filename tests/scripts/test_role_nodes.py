"""What each role does, and what comes first; the seat that it takes."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.nodes import TASK, open_joined
from tests.node.merging.stage import make_world
from tests.protocol.adapters.parties import make_key
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.config import NodeConfig
from touchstone.node.loop.node import Node
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.roles import role_nodes
from touchstone.scripts.roles.role_nodes import ROLES, Solver, Submitter, Verifier, Whistleblower, run_role
from touchstone.whistleblower import contesting

REPORTS = ["loss_reports", "distance_reports"]
URGENT = ["defence", "challenging", "upkeep_duties", "idle_mode"]
"""Silence in a dispute costs the seat; all else that is late costs a fee, or its pay."""


def list_lists(role: type[Node], folder: Path) -> list[Callable[..., Any]]:
    """What lists the duties of each room of a role, in their order."""
    with open_joined(folder, make_world().state, role=role) as node:
        lists = [room.list_duties for room in node.list_rooms()]
    return [one.func if isinstance(one, partial) else one for one in lists]


def list_rooms(role: type[Node], folder: Path) -> list[str]:
    """The modules whose duties a role has, in their order."""
    return [one.__module__.rpartition(".")[2] for one in list_lists(role, folder)]


@pytest.mark.parametrize("role", ROLES.values())
def test_every_role_answers_disputes_before_it_does_anything_else(tmp_path: Path, role: type[Node]) -> None:
    """Votes can be disputed as well. A whistleblower is paid for what it finds false."""
    assert list_rooms(role, tmp_path)[:4] == URGENT


def test_a_solver_has_every_duty_of_its_role_once(tmp_path: Path) -> None:
    """It claims, fetches and merges, posts, trains ahead, contests and defends roots, and serves auditors.
    Pruning looks at what the others left; a bucket holds copies of what pruning left."""
    merging = ["claims", "outer_step", "merge_signing", "posting", "speculation", "contesting"]
    kept = ["audit_duties", "pruning", *REPORTS, "heldout_reports", "bucket_copies"]
    assert list_rooms(Solver, tmp_path) == [*URGENT, *merging, *kept]


@pytest.mark.parametrize("role", [Verifier, Whistleblower])
def test_an_auditor_has_the_duties_of_its_role_and_no_others(tmp_path: Path, role: type[Node]) -> None:
    """It audits, and hands votes in where solvers do not. It claims nothing: it neither trains nor merges."""
    own = ["audit_duties", "posting", "contesting", *REPORTS, "pruning"]
    assert list_rooms(role, tmp_path) == [*URGENT, *own]


def test_a_verifier_checks_no_posted_root_which_a_whistleblower_does(tmp_path: Path) -> None:
    """Those who made a root and those who watch contest. A contest that its account has opened as one of
    those a verifier plays on."""
    found = [list_lists(role, tmp_path / role.__name__) for role in (Verifier, Whistleblower)]
    assert contesting.list_own_moves in found[0] and contesting.list_duties not in found[0]
    assert contesting.list_duties in found[1] and contesting.list_own_moves not in found[1]


def test_a_submitter_sends_upkeep_measures_each_model_and_keeps_the_last(tmp_path: Path) -> None:
    kept = ["heldout_reports", "halting", "pruning", "bucket_copies"]
    assert list_rooms(Submitter, tmp_path) == ["upkeep_duties", "last_model", *kept]


@pytest.mark.parametrize("role", ROLES)
async def test_a_node_takes_a_seat_of_its_own_role_unless_its_operator_wishes_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: SeatRole
) -> None:
    """An operator names another stake, or a seat that it holds already: who holds one goes on where it cannot
    listen."""
    config, worked = NodeConfig(tmp_path, tmp_path, "", make_key(1)), list[tuple[Any, ...]]()

    @asynccontextmanager
    async def open_node(found: NodeConfig, kind: type[Node], *, is_held: bool) -> AsyncIterator[Any]:
        assert found is config

        async def work_on(task: bytes, request: SeatRequest) -> bool:
            worked.append((kind, is_held, task, request))
            return True

        yield SimpleNamespace(work_on=work_on)

    monkeypatch.setattr(role_nodes, "open_node", open_node)
    held = SeatRequest(role, 7, is_held=True)
    assert await run_role(role, config, TASK) and await run_role(role, config, TASK, held)
    assert worked == [(ROLES[role], False, TASK, SeatRequest(role)), (ROLES[role], True, TASK, held)]
