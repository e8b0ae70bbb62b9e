"""What a role's `run` does with a party, in order, without a chain."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from eth_account import Account

from protocol.actions.party import PartyConfig
from protocol.adapters.keys import AccountKey
from protocol.spec.calls import Call
from protocol.spec.round import RoundState
from tests.protocol.actions.facts import TASK

ListDuties = Callable[[RoundState, str, int], tuple[Call, ...]]


async def record_run(module: ModuleType, patch: pytest.MonkeyPatch) -> tuple[list[Any], ListDuties]:
    """The steps that `module.run` takes, and the duties that its participant takes on."""
    steps: list[Any] = []
    duties: list[ListDuties] = []

    @asynccontextmanager
    async def open_party(config: PartyConfig) -> AsyncIterator[str]:
        steps.append("open")
        yield "party"
        steps.append("close")

    async def catch_up(party: str) -> None:
        steps.append(("catch up", party))

    async def join_task(party: str, task: bytes) -> None:
        steps.append(("join", party, task))

    class Recorder:
        def __init__(self, party: str, list_duties: ListDuties, **_: Any) -> None:
            duties.append(list_duties)

        async def run(self) -> None:
            steps.append("play")

    replaced: dict[str, object] = {"open_party": open_party, "catch_up": catch_up, "join_task": join_task}
    for name, replacement in {**replaced, "Participant": Recorder}.items():
        patch.setattr(module, name, replacement)
    config = PartyConfig(Path(), Path(), "", AccountKey(Account.create()))
    await module.run(config, TASK)
    return steps, duties[0]


EXPECTED_STEPS = ["open", ("catch up", "party"), ("join", "party", TASK), "play", "close"]
"""A role reads the chain and the task before it exposes any stake."""
