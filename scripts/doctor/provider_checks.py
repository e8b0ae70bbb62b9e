"""Checks the endpoints of a home's chain.

If one endpoint is silent, another is used. So each is checked alone: otherwise a second one that never worked
would be noticed only when it is needed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import GameDeployment
from touchstone.protocol.adapters.chain.gate import LAG_BLOCKS
from touchstone.protocol.adapters.chain.rpc import name_place
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, TouchstoneError
from touchstone.scripts.doctor.patient import Patient
from touchstone.scripts.home.home_config import HomeConfig

GRACE_S = 30.0
"""Seconds for all questions to one endpoint."""


@dataclass(frozen=True)
class Seen:
    """The result for an endpoint. `name` is its key and its URL, without possible secrets. `fault` is what it
    lacks, empty if nothing; `error` is the raised error. `first` is the block in which the deployment begins,
    None if it does not show the deployment's chain. `lacks` are things that a node can do without."""

    url: str
    name: str
    fault: str = ""
    error: TouchstoneError | None = None
    first: Head | None = None
    lacks: tuple[str, ...] = ()


async def check_provider(patient: Patient) -> str:
    """Checks that each endpoint answers for the deployment's chain up to its newest block. Each must also
    give logs by the hash of a block, and headers that can be proven. Other missing features are only
    reported, because a node can work without them."""
    config = patient.get_config()
    deployment = config.read_deployment()
    looks = (_look(url, name, deployment, config.account) for url, name in name_endpoints(config))
    seen = await asyncio.gather(*looks)
    seen = _compare_origins(seen, deployment)
    patient.sound_urls = [one.url for one in seen if one.first is not None]
    seen = await _compare_heads(seen)
    faulty = [one for one in seen if one.fault]
    if len(seen) == 1 and seen[0].error is not None:
        raise seen[0].error
    if faulty:
        raise _faulty_endpoints(patient, faulty, seen)
    return "; ".join(_describe(one) for one in seen)


def _faulty_endpoints(patient: Patient, faulty: list[Seen], seen: list[Seen]) -> EnvironmentFault:
    return EnvironmentFault(
        what=f"{len(faulty)} of {len(seen)} endpoints of the chain cannot replace another",
        expected="from each: the deployment's chain up to its newest block, and answers to all questions",
        actual="; ".join(f"{one.name}: {one.fault}" for one in faulty),
        where=str(patient.home),
        remedy="Correct that URL in config.toml, or take it out. A node signs nothing while two "
        "endpoints disagree.",
        retryable=False,
    )


def _describe(seen: Seen) -> str:
    without = f" (it does without {', '.join(seen.lacks)})" if seen.lacks else ""
    return f"{seen.name}: has what a node needs{without}"


def name_endpoints(config: HomeConfig) -> Iterator[tuple[str, str]]:
    """Yields each endpoint's URL, with the key and place by which an operator knows it."""
    yield config.rpc_url, f"rpc_url {name_place(config.rpc_url)}"
    for index, url in enumerate(config.rpc_urls):
        yield url, f"rpc_urls[{index}] {name_place(url)}"


async def _look(url: str, name: str, deployment: GameDeployment, account: str) -> Seen:
    try:
        async with asyncio.timeout(GRACE_S), open_game_chain(url, deployment) as chain:
            first = await chain.connection.block(deployment.deploy_block)
            if first is None:
                fault = f"it has no block {deployment.deploy_block}, where the deployment begins"
                return Seen(url, name, fault, _lacking(name, fault))
            missing = [text async for text in _list_missing(chain, account)]
            lacks = tuple(sorted(chain.connection.providers.lacks))
            if missing:
                fault = "; ".join(missing)
                return Seen(url, name, fault, _lacking(name, fault), first, lacks)
            return Seen(url, name, first=first, lacks=lacks)
    except TimeoutError:
        fault = f"no answer within {GRACE_S:.0f} s"
        return Seen(url, name, fault, _lacking(name, fault))
    except InvalidInput as error:
        actual = "" if error.actual == "none" else f" ({error.actual})"
        return Seen(url, name, f"{error.what}{actual}", error)
    except TouchstoneError as error:
        return Seen(url, name, f"no answer that can be used ({error.actual})", error)


async def _list_missing(chain: GameChain, account: str) -> AsyncIterator[str]:
    """Yields the questions of a node that the endpoint does not answer, with its own words."""
    connection, head = chain.connection, await chain.head()
    vault = [chain.deployment.vault]
    questions: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("logs by the hash of a block", partial(connection.logs_of_blocks, vault, [head], list)),
        ("logs by numbers of blocks", partial(connection.logs, vault, head.number, head.number, list)),
        ("transactions that wait", partial(connection.transaction_count, account, "pending")),
        ("a tip for the gas", connection.priority_fee),
        ("a header that can be proven", chain.require_provable),
    ]
    for what, question in questions:
        try:
            await question()
        except TouchstoneError as error:
            yield f"it does not give {what} ({error.actual})"


def _lacking(name: str, fault: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="the endpoint of the chain cannot do what a node needs",
        expected="answers, the deployment's chain, and all that a node asks",
        actual=fault,
        where=name,
        remedy="Set rpc_url in config.toml to another endpoint, or name a second one in rpc_urls.",
        retryable=False,
    )


def _compare_origins(seen: list[Seen], deployment: GameDeployment) -> list[Seen]:
    """Compares first blocks: a copy of the chain has the same id and contracts, but begins with other
    blocks."""
    sound = [one for one in seen if one.first is not None]
    if len({one.first.block_hash for one in sound if one.first is not None}) < 2:
        return seen
    shown = ", ".join(f"0x{one.first.block_hash.hex()[:8]} at {one.name}" for one in sound if one.first)
    fault = f"endpoints disagree on block {deployment.deploy_block}, where the deployment begins: {shown}"
    return [one if one.first is None else replace(one, fault=one.fault or fault) for one in seen]


async def _compare_heads(seen: list[Seen]) -> list[Seen]:
    """Compares heads at the same time: an endpoint that is stuck or late is behind the others."""
    sound = [one for one in seen if not one.fault]
    if len(sound) < 2:
        return seen
    heads = dict(zip((one.url for one in sound), await asyncio.gather(*map(_ask_head, sound)), strict=True))
    newest = max((number for number in heads.values() if number is not None), default=0)
    return [_judge_head(one, heads[one.url], newest) if one.url in heads else one for one in seen]


async def _ask_head(seen: Seen) -> int | None:
    connection = Connection(seen.url)
    try:
        async with asyncio.timeout(GRACE_S):
            return (await connection.head()).number
    except (TimeoutError, TouchstoneError):
        return None
    finally:
        await connection.close()


def _judge_head(seen: Seen, number: int | None, newest: int) -> Seen:
    if number is None:
        return replace(seen, fault="it does not answer any more")
    if number < newest - LAG_BLOCKS:
        return replace(seen, fault=f"an old head: block {number}, another endpoint has {newest}")
    return seen
