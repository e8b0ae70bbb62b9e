"""A whole task of nodes that see the chain through providers as they are."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from protocol.spec.game.state import GameState, RoundPhase
from tests.e2e.harassing import HARASSER
from tests.e2e.reading import list_closed
from tests.e2e.roles import make_cast
from tests.e2e.test_happy_path import withdraw
from tests.e2e.world import GRANT_WEI, TINY_PLAN, Part, World, open_world, run_world
from tests.faults.provider import Fault, Provider, lag, run_provider

SCHEDULE = replace(TINY_PLAN.schedule, total_steps=TINY_PLAN.inner_steps)
PLAN = replace(TINY_PLAN, rounds=1, schedule=SCHEDULE, late_chance=0, least_whistleblowers=0)


@asynccontextmanager
async def open_behind(
    folder: Path, cast: Mapping[str, Part], *faults: Fault
) -> AsyncIterator[tuple[World, dict[str, Provider]]]:
    """A world in which each party, the submitter too, has a provider of its own."""
    async with open_world(folder, tuple(cast)) as world, AsyncExitStack() as stack:
        providers = {
            name: await stack.enter_async_context(run_provider(world.rpc_url, *faults, seed=seed))
            for seed, name in enumerate(world.keys)
        }
        world.endpoints = {name: provider.url for name, provider in providers.items()}
        yield world, providers


async def play(world: World, cast: Mapping[str, Part]) -> GameState:
    """The whole task. What the parties said is shown where a test fails."""
    try:
        return (await run_world(world, PLAN, cast))[0]
    finally:
        print("\n".join(world.lines))


async def check_paid(world: World, game: GameState, honest: set[str]) -> None:
    """All is as it should be: the claims merged, no stake lost, who worked is paid."""
    assert game.is_closed and list_closed(world, game) == set()
    (game_round,) = game.rounds.values()
    assert game_round.phase == RoundPhase.POSTED and len(game_round.merged) == len(game_round.claims)
    gains = {name: await withdraw(world, name) - GRANT_WEI for name in sorted(honest)}
    assert min(gains.values()) >= 0 and all(gains[name] > 0 for name in gains if name.startswith("solver"))


async def test_behind_backends_that_lag_all_are_paid_though_they_are_harassed(tmp_path: Path) -> None:
    """One block behind for 30 % of the requests: an honest solver was convicted so, and lost its stake."""
    cast = make_cast(2, 3, 0) | {"harasser": HARASSER}
    async with open_behind(tmp_path, cast, lag(1, 0.3)) as (world, _):
        game = await play(world, cast)
        await check_paid(world, game, set(cast) - {"harasser"})
