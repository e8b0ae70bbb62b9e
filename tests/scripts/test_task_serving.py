"""`task serve`: an own open task is served again; no other one is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.scripts.test_closing_commands import Terminal
from touchstone.node.upkeep import last_model
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.roles.role_nodes import Submitter
from touchstone.scripts.tasks import task_serving
from touchstone.scripts.tasks.task_serving import serve_task

TASK, ACCOUNT = bytes(range(32)), "0x" + "ab" * 20


async def serve(monkeypatch: pytest.MonkeyPatch, submitter: str, *, is_closed: bool) -> list[Any]:
    """What is served, and the documents, with a node that does nothing."""
    done: list[Any] = []
    game = SimpleNamespace(is_closed=is_closed, terms=SimpleNamespace(submitter=submitter))
    state = SimpleNamespace(games={TASK: game}, refused={}, head_block=1)

    async def take_next() -> None:
        done.append("read")

    async def work_on(task: bytes) -> None:
        done.append(task)

    @asynccontextmanager
    async def open_node(config: Any, role: Any) -> AsyncIterator[Any]:
        assert role is Submitter
        following = SimpleNamespace(take_next=take_next)
        yield SimpleNamespace(
            account=ACCOUNT,
            chain=None,
            state=state,
            following=following,
            get_view=lambda: None,
            work_on=work_on,
        )

    async def show_nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(task_serving, "open_node", open_node)
    monkeypatch.setattr(task_serving, "show_progress", show_nothing)
    monkeypatch.setattr(last_model, "list_duties", lambda view, block: iter(()))
    await serve_task(cast(Any, None), f"0x{TASK.hex()}"[:14], Terminal(is_agreed=True), done.append)
    return done


async def test_an_own_task_is_served_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read, document, served = await serve(monkeypatch, ACCOUNT, is_closed=False)
    assert (read, served) == ("read", TASK)
    assert (document.task, document.submitter) == (f"0x{TASK.hex()}", ACCOUNT)


@pytest.mark.parametrize(("submitter", "is_closed"), [("0x" + "cd" * 20, False), (ACCOUNT, True)])
async def test_another_s_task_and_a_closed_one_are_refused(
    monkeypatch: pytest.MonkeyPatch, submitter: str, is_closed: bool
) -> None:
    with pytest.raises(InvalidInput, match="cannot be served by this account"):
        await serve(monkeypatch, submitter, is_closed=is_closed)
