"""A world in which each party reads the chain through a provider of its own, harassed in every way."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.e2e.attacks import list_contests, make_attacker
from tests.e2e.harassing import list_harassment
from tests.e2e.reading import list_closed, read_happened
from tests.e2e.roles import make_cast
from tests.e2e.test_happy_path import withdraw
from tests.e2e.world import GRANT_WEI, TINY_PLAN, Part, World, open_world, run_world
from tests.faults.provider import Fault, Provider, run_provider
from touchstone.node.kit.duty import Duty, Wait
from touchstone.node.kit.view import View
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.state import GameState
from touchstone.scripts.roles.role_nodes import Member

SCHEDULE = replace(TINY_PLAN.schedule, total_steps=TINY_PLAN.inner_steps)
PLAN = replace(TINY_PLAN, rounds=1, schedule=SCHEDULE, late_chance=0, least_whistleblowers=0)


def _list_attack(view: View, block: int) -> Iterator[Duty[Member] | Wait]:
    """Disputes of all claims and votes, questions, and a contest of the root down to a leaf."""
    yield from list_harassment(view, block)
    yield from list_contests(view, block, is_silent=False)


CAST = make_cast(2, 3, 0) | {"harasser": make_attacker(_list_attack)}


@asynccontextmanager
async def open_behind(
    folder: Path, cast: Mapping[str, Part], *faults: Fault
) -> AsyncIterator[tuple[World, dict[str, Provider]]]:
    """Open it; the submitter has a provider too."""
    async with open_world(folder, tuple(cast)) as world, AsyncExitStack() as stack:
        providers = {
            name: await stack.enter_async_context(run_provider(world.rpc_url, *faults, seed=seed))
            for seed, name in enumerate(world.keys)
        }
        world.endpoints = {name: provider.url for name, provider in providers.items()}
        yield world, providers


async def play(world: World, cast: Mapping[str, Part]) -> GameState:
    """Play the whole task. What the parties said is shown where a test fails."""
    try:
        return (await run_world(world, PLAN, cast))[0]
    finally:
        print("\n".join(world.lines))


async def check_paid(world: World, game: GameState, honest: set[str]) -> None:
    """All is as it should be: there were disputes, questions and a contest; the claims are merged, no stake
    is lost, and who worked is paid."""
    happened = await read_happened(world)
    assert happened.disputes and happened.list_events("QueryEnded") and happened.list_events("ContestEnded")
    assert game.is_closed and list_closed(world, game) == set()
    (game_round,) = game.rounds.values()
    assert game_round.phase == RoundPhase.POSTED and len(game_round.merged) == len(game_round.claims)
    gains = {name: await withdraw(world, name) - GRANT_WEI for name in sorted(honest)}
    assert min(gains.values()) >= 0 and all(gains[name] > 0 for name in gains if name.startswith("solver"))
