"""Half of the solvers are killed in mid-round and a new one joins: real nodes on a real chain."""

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

from tests.e2e.roles import SOLVER, make_cast
from tests.e2e.world import KILL_LOOK_S, TINY_PLAN, Part, World, join, open_world, run_world
from touchstone.node.loop.node import Node
from touchstone.protocol.adapters.wire.session import RetryPolicy
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.game.terms import SILENCES_LEAST

SOLVERS, VERIFIERS, KILLED = 4, 3, ("solver 2", "solver 3")
ROUNDS = 7
SCHEDULE = replace(TINY_PLAN.schedule, total_steps=ROUNDS * TINY_PLAN.inner_steps)
WINDOWS = replace(TINY_PLAN.windows, train_min=56, train_max=80, audit_max=40, post=8)
PLAN = replace(
    TINY_PLAN,
    windows=WINDOWS,
    rounds=ROUNDS,
    solver_seats=SOLVERS + 1,
    schedule=SCHEDULE,
    late_chance=0,
    least_whistleblowers=0,
)


def _is_half_trained(node: Node) -> bool:
    works = node.rooms.tools.claims.works.items()
    return any(index == 1 and len(work.boundaries) in (2, 3) for (index, _), work in works)


async def _die(world: World, name: str, part: Part) -> None:
    """Killed in round 1, and not started again."""
    async with world.open(name, part.role) as node:
        await join(world, node, name, part)
        looping = asyncio.create_task(part.make_loop(node).run())
        while not looping.done() and not _is_half_trained(node):
            await asyncio.wait({looping}, timeout=KILL_LOOK_S)
        looping.cancel()
        await asyncio.gather(looping, return_exceptions=True)
    world.lines.append(f"{name}: killed")


@dataclass
class Seen:
    """What the chain tells the submitter. rounds: as they were last, also those that the chain has forgotten;
    is_silence_seen: a dead solver leaves."""

    rounds: dict[int, GameRound] = field(default_factory=dict)
    is_silence_seen: asyncio.Event = field(default_factory=asyncio.Event)

    def get_view(self, submitter: Node) -> bool:
        """Never enough."""
        for state in submitter.state.games.values():
            self.rounds |= state.rounds
            if any(seat.status == SeatStatus.LEAVING for seat in state.seats.values()):
                self.is_silence_seen.set()
        return False


async def _come(seen: Seen, world: World, name: str, part: Part) -> None:
    """Once a dead solver has lost its seat for the rounds to come."""
    world.unseated.discard(name)
    await seen.is_silence_seen.wait()
    async with world.open(name, part.role) as node:
        await join(world, node, name, part)
        await part.make_loop(node).run()


def _count_blocks(one: GameRound) -> int:
    """How long it was open to claims."""
    assert one.closed is not None and one.trained_from is not None
    return one.closed - one.trained_from


async def play_leaving(folder: Path) -> list[GameRound]:
    """The rounds of a task of four solvers, two of which are killed in round 1, as the chain last told them.
    folder: of the nodes' homes. Takes minutes."""
    seen, cast = Seen(), make_cast(SOLVERS, VERIFIERS, 0)
    cast |= {name: replace(SOLVER, plays=_die) for name in KILLED}
    cast["newcomer"] = replace(SOLVER, plays=partial(_come, seen))
    # The dead are asked five times each: pauses of seconds would only make the play long.
    with patch.object(RetryPolicy, "compute_pause_s", lambda *_: 0.01):
        async with open_world(folder, tuple(cast)) as world:
            least = 1 + SOLVERS + VERIFIERS - len(KILLED)
            await run_world(world, PLAN, cast, until=seen.get_view, least_parties=least)
    return [seen.rounds[index] for index in range(ROUNDS)]


def list_leaving_flaws(rounds: list[GameRound]) -> list[str]:
    """What is not as it should be. While the dead sit, a round closes at `trainMax` with the claims of the
    living, and no majority signs its root. Once they have missed enough places their seats close. Then rounds
    close as soon as all have committed, the newcomer too, and are merged."""
    first, *others = rounds
    living = SOLVERS - len(KILLED)
    waiting = [one for one in others if one.counted == SOLVERS]
    later = others[len(waiting) :]
    rules = {
        "all four commit to the first round": len(first.claims) == SOLVERS,
        "the dead sit until they have missed enough": len(waiting) >= SILENCES_LEAST,
        "rounds with the dead come before all others": others[: len(waiting)] == waiting,
        "the living commit while the dead sit": all(len(one.claims) == living for one in waiting),
        "the base root stands while the dead sit": all(one.phase is RoundPhase.STANDING for one in waiting),
        "rounds with the dead close at trainMax": all(
            _count_blocks(one) == WINDOWS.train_max for one in waiting
        ),
        "a round comes after the dead have lost their seats": bool(later),
        "the newcomer sits and commits in each of those": all(
            one.counted == len(one.claims) == living + 1 for one in later
        ),
        "those are merged": all(one.phase is RoundPhase.POSTED for one in later),
        "those close once all have committed": all(
            one.closed == one.filled and _count_blocks(one) < WINDOWS.train_min for one in later
        ),
    }
    return [rule for rule, holds in rules.items() if not holds]
