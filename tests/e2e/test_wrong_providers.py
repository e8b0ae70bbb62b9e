"""Whole tasks of nodes that see the chain through providers as they are, and through endpoints that lie."""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from protocol.actions.runtime.party import Party
from protocol.adapters.chain.connection import Connection
from protocol.adapters.keys import Signed
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.state import GameState, RoundPhase
from protocol.spec.statements import VoteWord
from scripts.devnet import run_anvil
from tests.e2e.harassing import HARASSER
from tests.e2e.reading import list_closed
from tests.e2e.roles import make_cast
from tests.e2e.test_happy_path import withdraw
from tests.e2e.world import GRANT_WEI, TINY_PLAN, Part, World, open_world, run_world
from tests.faults.provider import PASS, Fault, Provider, Refusal, Request, lag, run_provider

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


@dataclass
class Liar:
    """An endpoint that lies now and then, each time for some requests. sent: what was handed in to it while
    it lied."""

    lies: Mapping[str, Fault]
    may_lie: Callable[[], bool]
    chance: random.Random
    told: str = ""
    post: int = -1
    left: int = 30
    count: int = 0
    sent: list[str] = field(default_factory=list)

    async def answer(self, request: Request) -> Any:
        """Tell the truth for some requests, then a lie for some; of a batch one of the two."""
        if not self.may_lie():
            return PASS
        self.left -= 1
        if self.left <= 0 and request.post != self.post:
            self.told = "" if self.told else self.chance.choice(sorted(self.lies))
            self.left = self.chance.randint(20, 120)
            self.count += bool(self.told)
        self.post = request.post
        if not self.told:
            return PASS
        if request.method == "eth_sendRawTransaction":
            self.sent.append(self.told)
        return await self.lies[self.told](request)


def shift_head(blocks: int) -> Fault:
    """The head has another number."""

    async def answer(request: Request) -> Any:
        if request.method == "eth_getBlockByNumber" and request.params[0] == "latest":
            block = await request.ask(request.method, request.params)
            return {**block, "number": hex(int(block["number"], 16) + blocks)}
        return PASS

    return answer


def be_other(rpc_url: str) -> Fault:
    """Everything is answered by another chain."""
    connection = Connection(rpc_url)

    async def answer(request: Request) -> Any:
        if request.method == "eth_sendRawTransaction":
            return "0x" + 64 * "0"
        try:
            return await connection.request(request.method, *request.params)
        except EnvironmentFault as fault:
            raise Refusal(str(fault.actual)) from None

    return answer


async def test_an_endpoint_that_lies_now_and_then_makes_no_node_sign_or_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another chain with the same id, a head that is 2,000 blocks too high, one that is 2,000 too low: put in
    between any two requests of solvers, verifiers and the submitter, while they claim, audit, vote, merge and
    answer disputes. A node once signed UNSERVED against an honest solver so, and it counted."""
    cast = make_cast(2, 3, 0) | {"harasser": HARASSER}
    signed_in_a_lie: list[Signed] = []
    async with run_anvil(0, tmp_path / "other.log") as other_url:
        other = Connection(other_url)
        await other.request("anvil_mine", 3_000)
        await other.close()
        lies = {"other chain": be_other(other_url), "too high": shift_head(2_000), "too low": lag(2_000, 1.0)}
        async with open_behind(tmp_path, cast) as (world, providers):
            liars = {}
            for seed, (name, provider) in enumerate(providers.items()):
                liars[name] = Liar(lies, world.all_seated.is_set, random.Random(seed))
                provider.faults.append(liars[name].answer)
            usual = Party.sign

            async def sign(party: Party, statement: Signed) -> bytes:
                name = party.config.home.name
                before = (liars[name].told, liars[name].count)
                signature = await usual(party, statement)
                if before[0] and before == (liars[name].told, liars[name].count):
                    signed_in_a_lie.append(statement)
                return signature

            monkeypatch.setattr(Party, "sign", sign)
            game = await play(world, cast)
            assert min(liar.count for liar in liars.values()) > 3
            assert signed_in_a_lie == []
            print({name: liar.sent for name, liar in liars.items()})
            votes = [vote for draws in game.rounds[0].votes.values() for vote in draws.values()]
            assert votes and {vote.word for vote in votes} == {VoteWord.ACCEPT}
            await check_paid(world, game, set(cast) - {"harasser"})
