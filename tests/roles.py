"""What the tests of the three roles share: their rooms by name, and what a node that is run plays."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest

from touchstone.node.kit.config import PartyConfig
from touchstone.node.kit.duty import ListDuties

TASK = b"t" * 32


def list_rooms(rooms: Sequence[ListDuties]) -> list[str]:
    """The modules whose duties a role has, in their order."""
    return [room.__module__.rpartition(".")[2] for room in rooms]


def note_plays(role: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the role plays from now on: it opens no party and performs no duty."""
    made: list[tuple[Any, ...]] = []
    held: list[bool] = []

    @asynccontextmanager
    async def open_party(config: PartyConfig, *, is_held: bool) -> AsyncIterator[PartyConfig]:
        held.append(is_held)
        yield config

    async def play(*words: Any) -> None:
        made.append(words)
        assert held[-1] is words[-1].is_held, "who holds a seat goes on where it cannot listen"

    monkeypatch.setattr(role, "open_party", open_party)
    monkeypatch.setattr(role, "play", play)
    return made
