"""Does the contract judge as Python does? Cases of all operations, kinds and formats, the last accepted and
the first refused claim among them, judged by both: the contract on a real Anvil, by eth_call.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from eth_abi.abi import decode, encode
from eth_account import Account

from lab.vectors.referee_cases import EXTREMES, FORMAT_NUMBERS, KINDS, SUMS, Case, make_cases, make_runs
from protocol.adapters.chain.abi import find_function, parse_abi
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.transactions import MiningPatience, Sender
from protocol.adapters.keys import AccountKey
from protocol.spec.program import BOUNDED_OPERATIONS, Operation
from protocol.spec.referee import FORMATS
from scripts.compile import Artifact, compile_contracts
from scripts.devnet import CHAIN_ID, GRANT_COIN_WEI, give_coin, run_anvil

HARNESS = "tests/contracts/JudgeHarness.sol"
CASE_TYPE = "(uint8,uint32,uint32,uint256,(bytes,uint256,bool)[])[]"
COUNTS = (1, 2, 3, 5, 8, 9, 16, 17, 31)
"""Terms of most sums: about whole words of eight. A few have LONG ones."""
LONG = (64, 128, 500, 512, 4096)
LONG_ONE_IN = 60
BATCH_ELEMENTS = 40_000
"""A call of so many operands' elements stays below Anvil's 30 M gas."""
BATCH_CASES = 400
CASE_ELEMENTS = 60
"""What a case costs beside its elements, in elements."""
KEPT_DIFFERENCES = 20


def compare_verdicts(count: int, seed: int, log: Path = Path("build/referee/anvil.log")) -> dict[str, Any]:
    """Judges at least `count` cases on both sides.

    Returns cases, seconds, verdicts (fault or honest) by operation, kind and format, the number of
    differences, and the first of these in words."""
    started = time.monotonic()
    report = asyncio.run(_compare(count, seed, log))
    return {**report, "seconds": round(time.monotonic() - started, 1)}


def generate_cases(count: int, seed: int) -> Iterator[Case]:
    """At least `count` cases, operations in turn, all else by chance."""
    chance = random.Random(seed)
    made = 0
    while made < count:
        for operation in BOUNDED_OPERATIONS:
            kind = chance.choice(KINDS)
            numeric_format = chance.choice(list(FORMATS))
            cases = make_cases(
                operation, kind, _choose_count(operation, chance), numeric_format, chance.randrange
            )
            made += len(cases)
            yield from cases


def _choose_count(operation: Operation, chance: random.Random) -> int:
    if operation not in SUMS and operation is not EXTREMES[0]:
        return 1
    if operation is Operation.SELECTED_SUM and chance.randrange(8) == 0:
        return 0
    return chance.choice(LONG if chance.randrange(LONG_ONE_IN) == 0 else COUNTS)


async def _compare(count: int, seed: int, log: Path) -> dict[str, Any]:
    verdicts: Counter[str] = Counter()
    differences: list[str] = []
    async with run_anvil(0, log) as rpc_url:
        connection = Connection(rpc_url)
        try:
            harness = await _Harness.deploy(connection)
            for batch in _batch(generate_cases(count, seed)):
                faults = await harness.judge(batch, random.Random(seed))
                for case, is_fault in zip(batch, faults, strict=True):
                    verdict = "fault" if case.is_fault else "honest"
                    names = (case.operation.name, case.kind, case.numeric_format, "all")
                    verdicts.update(f"{name} {verdict}" for name in names)
                    if is_fault != case.is_fault:
                        differences.append(f"{case}, on chain {is_fault}")
        finally:
            await connection.close()
    return {
        "cases": verdicts["all fault"] + verdicts["all honest"],
        "verdicts": dict(sorted(verdicts.items())),
        "differences": len(differences),
        "first_differences": differences[:KEPT_DIFFERENCES],
    }


def _batch(cases: Iterator[Case]) -> Iterator[list[Case]]:
    batch: list[Case] = []
    size = 0
    for case in cases:
        added = CASE_ELEMENTS + sum(map(len, case.terms))
        if batch and (size + added > BATCH_ELEMENTS or len(batch) == BATCH_CASES):
            yield batch
            batch, size = [], 0
        batch.append(case)
        size += added
    if batch:
        yield batch


class _Harness:
    """The contract's verdicts, asked over JSON-RPC."""

    def __init__(self, connection: Connection, address: str, selector: bytes) -> None:
        self.connection, self.address, self.selector = connection, address, selector

    @classmethod
    async def deploy(cls, connection: Connection) -> "_Harness":
        artifact = _compile_harness()
        account = AccountKey(Account.create())
        await give_coin(connection, account.address, GRANT_COIN_WEI)
        sender = Sender(connection, account, CHAIN_ID, MiningPatience())
        receipt = await sender.send("", bytes.fromhex(artifact.bytecode[2:]), artifact.name)
        function = find_function(parse_abi(artifact.name, artifact.abi), "judge")
        return cls(connection, str(receipt["contractAddress"]), function.selector)

    async def judge(self, cases: Sequence[Case], chance: random.Random) -> list[bool]:
        """Whether each claim is a fault."""
        data = self.selector + encode([CASE_TYPE], [[_to_plain(case, chance) for case in cases]])
        answer = await self.connection.request(
            "eth_call", {"to": self.address, "data": "0x" + data.hex()}, "latest"
        )
        (faults,) = decode(["bool[]"], bytes.fromhex(answer[2:]))
        return list(faults)


def _compile_harness() -> Artifact:
    (artifact,) = compile_contracts(folder=HARNESS)
    return artifact


def _to_plain(case: Case, chance: random.Random) -> tuple[Any, ...]:
    runs = make_runs(case.operation, case.terms, chance.randrange)
    plain = [(run.data, run.first, run.repeats) for run in runs]
    return (int(case.operation), FORMAT_NUMBERS[case.numeric_format], case.claimed, len(case.terms), plain)
