"""Checks that a deployment's contracts have this version's code, before a token moves into them.

`eth_call` without a receiver runs a contract's creation code with the addresses and bounds of the deployment,
and returns the runtime code with the constructor's values. `eth_getCode` must return the same bytes. The
token is not compared, because it is another project's contract.

A contract with the right code may have false storage: somebody's own creation code can write any credit into
`Vault` and return the right code. So the transactions that created the contracts are checked too, when a home
is made or examined. Finding them takes some thirty whole blocks. A home notes that its deployment was checked
so; without a home, each process checks before its first deposit.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from touchstone.protocol.adapters.chain.abi import load_bytecode
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.creation import (
    PLAIN,
    WITH_DRAND,
    compute_creation_address,
    compute_game_code,
)
from touchstone.protocol.adapters.chain.deployment import GameDeployment, KnownDeployment
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.terms import DeploymentBounds

SHARES, TEMPLATE = "Shares", "TaskShares"
"""SHARES first creates TEMPLATE; the shares of each task are a clone of TEMPLATE."""
CREATOR = "0x" + 20 * "c0"
"""The sender of an `eth_call` that creates. Nobody has its key, so it has sent nothing and its next nonce is
0."""
AT_ONCE = 4
"""Contracts to compare, or blocks to read, at the same time. Providers count requests."""
SEARCHED_BLOCKS = 256
"""How many blocks from the deployment's block on are searched for creations, because its contracts are
created one after the other."""
PUSH0, PUSH32 = 0x5F, 0x7F


@dataclass(frozen=True)
class _Subject:
    """The expected code of a contract. `codes` are creation codes with arguments; one of them must fit."""

    name: str
    address: str
    codes: tuple[bytes, ...]
    creator: str = CREATOR


async def require_own_contracts(
    connection: Connection, deployment: GameDeployment, bounds: DeploymentBounds
) -> None:
    """Raises as `require_own_code` does. If no home was made for this deployment, raises as
    `require_own_creations` does too."""
    await require_own_code(connection, deployment, bounds)
    if not isinstance(deployment, KnownDeployment):
        await require_own_creations(connection, deployment, bounds)


async def require_own_code(
    connection: Connection, deployment: GameDeployment, bounds: DeploymentBounds
) -> None:
    """Raises InvalidInput, naming each wrong contract, unless all contracts of a deployment have this
    version's code, with the deployment's addresses and with `bounds`, which its contract Tasks reports."""
    _refuse(
        "contracts of this deployment are not those of this version of Touchstone",
        "the code that this version creates with the deployment's addresses and bounds",
        await find_other_contracts(connection, deployment, bounds),
        connection.place,
    )


async def require_own_creations(
    connection: Connection, deployment: GameDeployment, bounds: DeploymentBounds
) -> None:
    """Raises InvalidInput, naming each wrong contract, unless transactions with the code of this version
    created all contracts. Raises EnvironmentFault if the chain's node lacks a block since the deployment."""
    _refuse(
        "contracts of this deployment were not created by the code of this version of Touchstone",
        f"their creations in the {SEARCHED_BLOCKS} blocks from {deployment.deploy_block} on",
        await find_other_creations(connection, deployment, bounds),
        connection.place,
    )


def _refuse(what: str, expected: str, found: Mapping[str, str], place: str) -> None:
    if found:
        raise InvalidInput(
            what=f"{what}: {', '.join(found)}",
            expected=expected,
            actual="; ".join(f"{name} {words}" for name, words in found.items()),
            where=place,
            remedy="No token was moved. The makers of such contracts may take all tokens that the contracts "
            "hold. Get the deployment file of contracts that you trust, or run the version that made these.",
        )


async def find_other_contracts(
    connection: Connection, deployment: GameDeployment, bounds: DeploymentBounds
) -> dict[str, str]:
    """Returns the contracts whose code differs from this version's, by name, with a description of the
    difference."""
    turns, where = asyncio.Semaphore(AT_ONCE), {**deployment.contracts(), "token": deployment.token}

    async def compare(subject: _Subject) -> str:
        async with turns:
            return await _find_difference(connection, subject, where)

    subjects = _list_subjects(deployment, where, bounds)
    words = await asyncio.gather(*map(compare, subjects))
    return {one.name: found for one, found in zip(subjects, words, strict=True) if found}


async def find_other_creations(
    connection: Connection, deployment: GameDeployment, bounds: DeploymentBounds
) -> dict[str, str]:
    """Returns the contracts that no transaction with the code of this version created, by name, with a
    description of what was found. Raises EnvironmentFault if the chain's node lacks a block since the
    deployment."""
    where = {**deployment.contracts(), "token": deployment.token}
    # A contract that another contract creates has no transaction of its own.
    wanted = {one.address: one for one in _list_subjects(deployment, where, bounds) if one.name != TEMPLATE}
    found, first = dict[str, str](), deployment.deploy_block
    end = min(first + SEARCHED_BLOCKS, (await connection.head()).number + 1)
    while wanted and first < end:
        numbers = range(first, min(first + AT_ONCE, end))
        for created in await asyncio.gather(*(_list_creations(connection, number) for number in numbers)):
            for address, code in created.items():
                subject = wanted.pop(address, None)
                if subject is not None and code not in subject.codes:
                    found[subject.name] = "was created by other code, which may have given anybody a credit"
        first = numbers.stop
    return found | {one.name: "was created by no transaction in these blocks" for one in wanted.values()}


async def _list_creations(connection: Connection, number: int) -> dict[str, bytes]:
    """Returns the code of each creation in a block, by the address of the created contract."""
    block = await connection.request("eth_getBlockByNumber", hex(number), True)
    if block is None:
        raise EnvironmentFault(
            what="the chain's node lacks a block since the deployment",
            expected=f"block {number}, with its transactions",
            actual="none",
            where=connection.place,
            remedy="Use an endpoint that keeps all blocks since the deployment: its events are read as well.",
            retryable=False,
        )
    return {
        compute_creation_address(one["from"], int(one["nonce"], 16)): bytes.fromhex(one["input"][2:])
        for one in block["transactions"]
        if one.get("to") is None
    }


def _list_subjects(
    deployment: GameDeployment, where: Mapping[str, str], bounds: DeploymentBounds
) -> list[_Subject]:
    subjects = []
    for name, address in deployment.contracts().items():
        versions = (PLAIN, WITH_DRAND) if name == PLAIN else (name,)
        codes = tuple(compute_game_code(one, where, bounds) for one in versions)
        subjects.append(_Subject(name, address, codes))
    shares = deployment.shares
    template = _Subject(TEMPLATE, compute_creation_address(shares, 1), (load_bytecode(TEMPLATE),), shares)
    return [*subjects, template]


async def _find_difference(connection: Connection, subject: _Subject, where: Mapping[str, str]) -> str:
    """Describes the difference; empty if there is none."""
    actual = await connection.code_at(subject.address)
    try:
        runtimes = [await _compute_runtime(connection, subject, code) for code in subject.codes]
    except InvalidInput as refusal:
        return f"cannot be created with these addresses and bounds ({refusal.what})"
    return "" if actual in runtimes else describe_difference(runtimes[0], actual, where)


async def _compute_runtime(connection: Connection, subject: _Subject, code: bytes) -> bytes:
    """Returns the runtime code that a creation gives at the subject's address."""
    runtime = await connection.call("", code, f"new {subject.name}", sender=subject.creator)
    if subject.name != SHARES:
        return runtime
    # Its constructor creates the template, at an address that follows from its own.
    elsewhere = compute_creation_address(compute_creation_address(CREATOR, 0), 1)
    template = compute_creation_address(subject.address, 1)
    return runtime.replace(bytes.fromhex(elsewhere[2:]), bytes.fromhex(template[2:]))


def describe_difference(expected: bytes, actual: bytes, where: Mapping[str, str]) -> str:
    """Describes the first difference of two codes. If it is a value that the constructor has put in, says
    which. `where` maps names to addresses."""
    if len(actual) != len(expected):
        return f"has {len(actual):,} bytes of code in the place of {len(expected):,}"
    place = next(i for i, (one, other) in enumerate(zip(expected, actual, strict=True)) if one != other)
    start, size = _find_instruction(expected, place)
    if size < PUSH32 - PUSH0 or place == start:
        return f"has other code from byte {place:,} on"
    values = (int.from_bytes(code[start + 1 : start + 1 + size]) for code in (actual, expected))
    return "has {} in the place of {}".format(*(_show_value(value, where) for value in values))


def _find_instruction(code: bytes, place: int) -> tuple[int, int]:
    """Returns the start of the instruction that contains byte `place`, and the bytes that it pushes (Yellow
    Paper, appendix H.2)."""
    start = 0
    while True:
        size = code[start] - PUSH0 if PUSH0 <= code[start] <= PUSH32 else 0
        if place <= start + size:
            return start, size
        start += 1 + size


def _show_value(value: int, where: Mapping[str, str]) -> str:
    if value < 1 << 64:
        return str(value)
    address = f"0x{value:040x}"
    name = next((name for name, one in where.items() if one == address), "")
    return f"{address} ({name})" if name else address
