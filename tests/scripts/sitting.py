"""A command that takes a seat, without its chain: what it reads, finds and agrees on is made up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
import rich.console

from tests.kit.nodes import NoJournal
from tests.node.health.test_checks import ACCOUNT
from tests.protocol.adapters.parties import make_key
from tests.protocol.spec.game.simulation import START_BLOCK, make_terms
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import NodeConfig, Notify, Status
from touchstone.node.kit.following import Following
from touchstone.node.loop.joined import Joined
from touchstone.node.loop.node import Node
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import Seat, create_game
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.seats import seat_session
from touchstone.scripts.seats.seat_agreement import Offer
from touchstone.scripts.seats.seat_session import SeatSession

TASK = b"t" * 32
NOW: Any = None
"""The task as it stands when the operator is asked."""
SEAT = Seat(7, SeatRole.SOLVER, ACCOUNT, 0, 0, -1, -1)


def silence() -> EnvironmentFault:
    return EnvironmentFault(what="the chain is silent", expected="an answer", actual="none", remedy="Wait.")


async def run_nothing(*_: object) -> bool:
    return False


async def do_nothing(*_: object) -> None:
    pass


async def find_no_seat(*_: object) -> int:
    return 0


async def _wait_for_ever() -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield


class StillFollowing(Following):
    """Follows a chain that does nothing."""

    async def take_next(self) -> None:
        pass

    async def catch_up(self, notify: Notify) -> None:
        pass


@dataclass
class StillNode(Node):
    """A node on a chain that does nothing. What it joins is made up. taken: what it took a seat for, each
    time in vain; teams: the workers of each task that it opened."""

    taken: list[SeatRequest] = field(default_factory=list)
    teams: list[Any] = field(default_factory=list)

    @classmethod
    def make(cls, game: Any) -> Self:
        """One whose chain has this game as `TASK`."""
        chain: Any = SimpleNamespace(address=ACCOUNT, sender=None, bounds=BOUNDS_LOCAL, connection=None)
        chain.game = SimpleNamespace(seat_of=find_no_seat)
        state, nothing = ChainState(ACCOUNT, BOUNDS_LOCAL, cast(Any, None)), cast(Any, None)
        state.games[TASK], state.head_block = game, START_BLOCK
        following = StillFollowing(chain, state, Status(ACCOUNT), _wait_for_ever())
        config = NodeConfig(Path(), Path(), "", nothing, notify=print)
        return cls(config, following, nothing, cast(Any, NoJournal()), nothing)

    def change(self, game: Any, blocks: int = 0) -> None:
        """The chain has this game now, so many blocks later."""
        self.state.games[TASK] = game
        self.state.head_block += blocks
        self.following.notify_loop()

    async def join(self, task: bytes, figures: Figures | None = None) -> None:
        self.joined = self.open_task(task)

    def open_task(self, task: bytes, spec: Any = None, *others: Any) -> Joined:
        self.teams += others[2:]
        closed: Any = SimpleNamespace(close=lambda: None, known=None)
        tools = SimpleNamespace(
            claims=None, cases=closed, pruning_memory=None, states=None, recompute_queue=closed, team=None
        )
        rooms: Any = SimpleNamespace(
            tools=tools,
            self_test=SimpleNamespace(check_bits=do_nothing),
            seat_taking=SimpleNamespace(take_seat=self._take_seat),
            model=SimpleNamespace(load_outer_state=do_nothing),
        )
        return Joined(task, bytes(32), spec, rooms, closed)

    async def _take_seat(self, request: SeatRequest) -> None:
        self.taken.append(request)
        raise silence()


@dataclass
class MadeSession:
    """seat: the account's; agreed: what was agreed on."""

    home: Path
    seat: Seat | None = None
    agreed: list[SeatRequest] = field(default_factory=list)

    def sit(
        self, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Awaitable[bool]], *, is_agreed: bool = True
    ) -> SeatSession:
        """The command's work. run: the role."""

        async def read(chain: object, account: str) -> Any:
            return SimpleNamespace(head_block=START_BLOCK, is_convicted=lambda *_: False)

        async def find_room(*_: object) -> Any:
            return SimpleNamespace(who="a solver", memory_bytes=1, disk_bytes=1)

        async def agree(*_: object) -> SeatRequest:
            self.agreed.append(SeatRequest(SeatRole.SOLVER, 5, is_held=self.seat is not None))
            return self.agreed[-1]

        async def show_nothing(*_: object) -> None:
            pass

        for name, made in (
            ("read_state", read), ("find_room", find_room), ("agree_on_seat", agree),
            ("find_own_game", lambda *_: (TASK, self.get_game())), ("refuse_seat", lambda *_: None),
            ("resolve_name", lambda _: run), ("show_progress", show_nothing),
            ("require_no_seat", show_nothing),
        ):  # fmt: skip
            monkeypatch.setattr(seat_session, name, made)
        config = NodeConfig(self.home, self.home, "", make_key(1))
        console = Console(rich.console.Console(file=StringIO(), width=400))
        chain: Any = SimpleNamespace(require_own_contracts=show_nothing)
        offer = Offer(SeatRole.SOLVER, 0, is_agreed)
        return SeatSession(chain, config, cast(Any, SimpleNamespace()), TASK.hex(), offer, console)

    def get_game(self) -> Any:
        known = [] if self.seat is None else [replace(self.seat, account=self.get_account())]
        game = create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)
        return replace(game, seats={seat.number: seat for seat in known})

    def get_account(self) -> str:
        return make_key(1).address.lower()
