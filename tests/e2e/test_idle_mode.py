"""A solver on a machine that somebody uses: it waits, joins, pauses, goes on, leaves, and works off what it
owes. Windows hold a thousand blocks, and idle ones are skipped: no machine is too slow for one."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.e2e.roles import SOLVER, make_cast
from tests.e2e.world import LOOK_S, TINY_PLAN, Part, World, open_world, run_world
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.protocol.adapters.machine.machine_use import LASTING_S, MachineUse
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameRound, Seat

NAME, OTHERS = "shared solver", 3
TYPING = "somebody types in a terminal"
ROUNDS = 24
PLAN = replace(
    TINY_PLAN,
    windows=replace(
        TINY_PLAN.windows, train_min=1_000, train_max=1_000, audit_max=300, dispute=2_000, query=9_000
    ),
    rounds=ROUNDS,
    schedule=replace(TINY_PLAN.schedule, total_steps=ROUNDS * TINY_PLAN.inner_steps),
    solver_seats=OTHERS + 1,
    late_chance=0,
    least_whistleblowers=0,
)


@dataclass
class SharedMachine:
    """Somebody is there from the beginning, and comes again once the node has its seat. rounds: as the chain
    told of them last."""

    world: World
    use: MachineUse = field(default_factory=lambda: MachineUse(idle_s=600, cores=0.5))
    rounds: dict[int, GameRound] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.use.note(TYPING, 0.0)
        self.account = self.world.keys[NAME].address.lower()

    def go_away(self) -> None:
        """Nobody has used it for long enough."""
        self.use.is_used, self.use.is_lasting, self.use.is_idle = False, False, True

    async def play(self, world: World, name: str, part: Part) -> None:
        """The node on it."""
        world.unseated.discard(name)
        config = world.configure(name)

        def notify(line: str) -> None:
            config.notify(line)
            if line.startswith("took a seat"):
                self.use.note(TYPING, 0.0)

        async with open_node(replace(config, use=self.use, notify=notify), part.role) as node:
            world.parties[name] = node
            try:
                await node.work_on(world.task, part.request)
            finally:
                world.parties.pop(name)

    # What the chain tells
    @property
    def submitter(self) -> Node:
        return self.world.parties["submitter"]

    @property
    def game(self) -> LoggedGame:
        return self.submitter.state.games[self.world.task]

    def find_seat(self) -> Seat | None:
        return find_seat(self.game, self.account)

    def has_left(self) -> bool:
        seat = self.find_seat()
        return seat is not None and seat.status == SeatStatus.LEAVING

    def list_held(self) -> list[GameRound]:
        """Rounds whose pools hold its seat, and that have begun."""
        seat = self.find_seat()
        self.rounds |= self.game.rounds
        return [r for r in self.rounds.values() if seat is not None and seat.number in r.pool.solvers]

    def list_claims(self) -> list[int]:
        """Of these the rounds with its claim."""
        return [
            r.index for r in self.list_held() if self.account in {one.account for one in r.claims.values()}
        ]

    async def live(self) -> None:
        """What happens at it, one after the other; each step waits for what the one before has led to."""
        await self.world.all_seated.wait()
        await until(lambda: self.world.task in self.submitter.state.games)
        await until(lambda: self.find_seat() is not None or self.game.next_round > 1)
        assert self.find_seat() is None, "it waits, while others post a round"
        self.go_away()
        await until(lambda: any(len(r.claims) == OTHERS for r in self.list_held()))
        (first, *_), node = self.list_held(), self.world.parties[NAME]
        paused = f"{NAME}: pausing, because somebody uses the machine: {TYPING}"
        await until(lambda: paused in self.world.lines)
        works = node.rooms.tools.claims.works.values()
        assert max(len(work.boundaries) for work in works) <= 1, "it has trained no segment"
        peer = self.submitter.state.network.find(self.account)
        assert (await self.submitter.client.get_status(peer)).processed_block > 0, "it answers"
        self.go_away()
        await until(lambda: first.index in self.list_claims())
        self.use.note(TYPING, 0.0)
        self.use.note(TYPING, LASTING_S)
        await until(self.has_left)
        coming = self.game.next_round
        await until(lambda: max(self.list_claims()) >= coming)
        missed = {r.index for r in self.list_held() if r.closed is not None} - {*self.list_claims()}
        assert not missed, "a fee is due"


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(LOOK_S)


async def test_a_node_waits_pauses_and_leaves_while_somebody_uses_its_machine(tmp_path: Path) -> None:
    cast = make_cast(OTHERS, 3, 0)
    async with open_world(tmp_path, (*cast, NAME)) as world:
        machine = SharedMachine(world)
        plays: Callable[[World, str, Part], Awaitable[None]] = machine.play
        cast[NAME] = replace(SOLVER, request=SeatRequest(SeatRole.SOLVER), plays=plays)
        living = asyncio.create_task(machine.live())
        await run_world(world, PLAN, cast, until=lambda _: living.done())
        assert living.done(), "the task is over before all of it has happened"
        await living
