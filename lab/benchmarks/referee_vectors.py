"""Compares the verdicts of the contract and of Python on generated cases of all operations.

Among the cases are the last accepted and the first refused claim. The contract judges on a real Anvil, by
eth_call. In exact formats each draw of operands has two claims: the right bits, and others.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from eth_abi.abi import decode, encode
from eth_account import Account

from tools.compile import Artifact, compile_contracts
from tools.vectors.exact_cases import LEAST_NORMAL, NANS, SCALES, SPECIAL, make_quantized_runs, pack_integer
from tools.vectors.fixed_values import bits as bits_of
from tools.vectors.referee_inputs import (
    EXTREMES,
    KINDS,
    SUMS,
    Case,
    Draw,
    make_cases,
    make_runs,
    make_terms,
    step,
)
from touchstone.protocol.adapters.chain.abi import find_function, parse_abi
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.exact import compute_element
from touchstone.protocol.spec.float32 import INFINITY, SIGN_BIT, round_to_bits, to_fraction
from touchstone.protocol.spec.operation_bounds import Terms
from touchstone.protocol.spec.params import FORMAT_NUMBERS, PRODUCT_BITS
from touchstone.protocol.spec.program import ELEMENT_BYTES, QUANTIZED_ROLES
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, QUANTIZED_LIMITS, Operation
from touchstone.protocol.spec.referee import judge_operation
from touchstone.scripts.network.devnet import CHAIN_ID, GRANT_COIN_WEI, give_coin, run_anvil

HARNESS = "tests/contracts/JudgeHarness.sol"
CASE_TYPE = "(uint8,uint32,uint32,uint256,uint256,uint256,(bytes,uint256,bool)[])[]"
COUNTS = (1, 2, 3, 5, 8, 9, 16, 17, 31)
"""Terms of most sums, around multiples of a word of eight. A few sums have LONG terms."""
LONG = (64, 128, 500, 512, 4096)
LONG_ONE_IN = 60
BATCH_ELEMENTS = 40_000
"""The most elements of operands in one call, so that it stays below Anvil's 30 M gas."""
BATCH_CASES = 400
CASE_ELEMENTS = 60
"""The cost of a case besides its elements, in elements."""
KEPT_DIFFERENCES = 20
OF_EXACT_PROGRAMS = [one for one in Operation if one is not Operation.PRODUCT_SUM]


def compare_verdicts(
    cases: Iterable[Case], seed: int, log: Path = Path("build/referee/anvil.log")
) -> dict[str, Any]:
    """Has the contract judge cases that Python has judged. `seed` decides where in longer data operands lie.
    Returns cases, seconds, verdicts (fault or honest) by operation, kind and format, the number of
    differences, and the first of these in words."""
    started = time.monotonic()
    report = asyncio.run(_compare(cases, seed, log))
    return {**report, "seconds": round(time.monotonic() - started, 1)}


def generate_cases(count: int, seed: int) -> Iterator[Case]:
    """Yields at least `count` cases, operations in turn, all else at random."""
    chance = random.Random(seed)
    made = 0
    while made < count:
        for operation in BOUNDED_OPERATIONS:
            kind = chance.choice(KINDS)
            cases = make_cases(operation, kind, _choose_count(operation, chance), chance.randrange)
            made += len(cases)
            yield from cases


def _choose_count(operation: Operation, chance: random.Random) -> int:
    if operation not in (*SUMS, EXTREMES[0], Operation.SCALE_OF, Operation.QUANTIZED_PRODUCT_SUM):
        return 1
    if operation is Operation.SELECTED_SUM and chance.randrange(8) == 0:
        return 0
    return chance.choice(LONG if chance.randrange(LONG_ONE_IN) == 0 else COUNTS)


# Cases of exact programs
EXACT_KINDS = (*KINDS, "special", "any", "ties")
"""Kinds of operands. `special`: NaN, infinities, zeros and subnormal numbers among others; `any`: random
patterns; `ties`: halfway between two results, or one place beside it."""
QUANTIZED_OPERATIONS = (Operation.SCALE_OF, Operation.QUANTIZE, Operation.QUANTIZED_PRODUCT_SUM)


def generate_exact_cases(count: int, seed: int) -> Iterator[Case]:
    """Yields at least `count` draws of operands of exact programs, each with a right claim and a wrong
    one."""
    chance, formats = random.Random(seed), list(PRODUCT_BITS)
    for made in range(0, count, len(OF_EXACT_PROGRAMS)):
        for operation in OF_EXACT_PROGRAMS:
            kind, numeric_format = chance.choice(EXACT_KINDS), formats[made % len(formats)]
            terms_count = _choose_count(operation, chance)
            yield from make_exact_cases(operation, kind, terms_count, numeric_format, chance.randrange)


def make_exact_cases(
    operation: Operation, kind: str, terms_count: int, numeric_format: str, draw: Draw
) -> list[Case]:
    """Returns the two cases of a draw: a claim of the right bits, and one of others, most often near them."""
    bits = [*QUANTIZED_LIMITS][draw(3)] if operation in QUANTIZED_OPERATIONS else 0
    if operation is Operation.QUANTIZED_PRODUCT_SUM:
        terms = _make_products(kind, terms_count, bits, draw)
    else:
        terms = _make_values(operation, kind, terms_count, bits, draw)
    right = compute_element(operation, terms, bits)
    claims = right, _make_wrong(operation, right, bits, draw)
    faults = [judge_operation(operation, terms, one, numeric_format, bits).is_fault for one in claims]
    pairs = zip(claims, faults, strict=True)
    return [Case(kind, operation, terms, one, fault, numeric_format, bits) for one, fault in pairs]


def _make_wrong(operation: Operation, right: int, bits: int, draw: Draw) -> int:
    """Returns wrong bits; for QUANTIZE an integer that its buffer can hold."""
    if operation is Operation.QUANTIZE:
        span = 1 << (8 * ELEMENT_BYTES[QUANTIZED_ROLES[bits]])
        wrong = right ^ (1 << draw(span.bit_length() - 1)) if draw(4) else draw(span)
        return (wrong + span // 2) % span - span // 2
    others = (0, SIGN_BIT, INFINITY, *NANS, right ^ SIGN_BIT, draw(1 << 32))
    return right ^ (1 << draw(32)) if draw(2) else others[draw(len(others))]


def _make_values(operation: Operation, kind: str, terms_count: int, bits: int, draw: Draw) -> Terms:
    terms = make_terms(operation, kind if kind in KINDS else "plain", terms_count, draw)
    if kind == "ties" and terms:
        return _make_ties(operation, terms, bits, draw)
    if kind == "special":
        return [tuple(one if draw(8) else SPECIAL[draw(len(SPECIAL))] for one in term) for term in terms]
    return [tuple(draw(1 << 32) for _ in term) for term in terms] if kind == "any" else terms


def _make_ties(operation: Operation, terms: Terms, bits: int, draw: Draw) -> Terms:
    """Returns odd halves of what is rounded: of the scale, of the unit of a sum, or of the last place of the
    first operand."""
    head, sign = terms[0][0] | LEAST_NORMAL << 6, draw(2) * SIGN_BIT
    power = bits_of(2.0 ** (((head & INFINITY) >> 23) - 127))
    if operation in QUANTIZED_OPERATIONS:
        halves = Fraction(2 * draw(QUANTIZED_LIMITS[bits] + 2) + 1, 2)
        halves = halves if operation is Operation.QUANTIZE else QUANTIZED_LIMITS[bits] + Fraction(1, 2)
        value = step(round_to_bits(halves * to_fraction(power)), draw(3) - 1) | sign
        return [(value, power)] if operation is Operation.QUANTIZE else [(value,), *terms[1:]]
    places = 39 if operation in (Operation.SUM, Operation.SELECTED_SUM) else 24
    halves = (2 * draw(8) + 1) * to_fraction(power) / (1 << places)
    value = step(round_to_bits(halves), draw(3) - 1) | sign
    return [(head, *[value] * (len(terms[0]) - 1)), *[(value,) * len(term) for term in terms[1:]]]


def _make_products(kind: str, terms_count: int, bits: int, draw: Draw) -> Terms:
    """Returns factors inside their limits, at them, or anything that their buffers can hold; scales of rows,
    or any."""
    limit, most = QUANTIZED_LIMITS[bits], 1 << (8 * ELEMENT_BYTES[QUANTIZED_ROLES[bits]] - 1)
    edges = (0, 1, -1, limit, -limit, min(limit + 1, most - 1), most - 1, -most)

    def draw_factor() -> int:
        """Draws a factor of one term."""
        if kind in ("special", "edges", "verge"):
            return edges[draw(len(edges))]
        reach = most if kind in ("any", "broken", "wide") else limit
        return draw(2 * reach) - reach

    pairs = [(draw_factor(), draw_factor()) for _ in range(terms_count)]
    if kind == "repeated":
        pairs = [(pairs[0][0], b) for _, b in pairs]
    if kind in ("cancelling", "ties"):  # the odd ones undo the even ones, of ties all but little
        pairs = [(a * (-1) ** n, b) for n in range(terms_count) for a, b in pairs[n // 2 : n // 2 + 1]]
    if kind == "ties":
        pairs[-1] = (limit, 1 << (bits - 2)) if draw(2) else (2 * draw(limit // 2) + 1, 1)
    scales = SCALES[draw(len(SCALES))] if draw(2) else (draw(255) << 23, draw(255) << 23)
    scales = (draw(1 << 32), draw(1 << 32)) if kind == "any" else scales
    return [(*pair, *scales) for pair in pairs]


# Both referees
async def _compare(cases: Iterable[Case], seed: int, log: Path) -> dict[str, Any]:
    verdicts: Counter[str] = Counter()
    differences: list[str] = []
    async with run_anvil(0, log) as rpc_url:
        connection = Connection(rpc_url)
        try:
            harness = await _Harness.deploy(connection)
            for batch in _batch(cases):
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


def _batch(cases: Iterable[Case]) -> Iterator[list[Case]]:
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
    """Asks for the contract's verdicts over JSON-RPC."""

    def __init__(self, connection: Connection, address: str, selector: bytes) -> None:
        self.connection, self.address, self.selector = connection, address, selector

    @classmethod
    async def deploy(cls, connection: Connection) -> "_Harness":
        artifact = _compile_harness()
        account = AccountKey(Account.create())
        await give_coin(connection, account.address, GRANT_COIN_WEI)
        sender = Sender(connection, account, CHAIN_ID, ResendPolicy())
        receipt = await sender.send("", bytes.fromhex(artifact.bytecode[2:]), artifact.name)
        function = find_function(parse_abi(artifact.name, artifact.abi), "judge")
        return cls(connection, receipt.contract_address, function.selector)

    async def judge(self, cases: Sequence[Case], chance: random.Random) -> list[bool]:
        """Returns whether each claim is a fault."""
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
    integer_bytes = ELEMENT_BYTES[QUANTIZED_ROLES[case.bits]] if case.bits else 4
    if case.operation is Operation.QUANTIZED_PRODUCT_SUM:
        runs = make_quantized_runs(case.terms, integer_bytes, chance.randrange)
    else:
        runs = make_runs(case.operation, case.terms, chance.randrange)
    plain = [(run.data, run.first, run.repeats) for run in runs]
    head = (int(case.operation), FORMAT_NUMBERS[case.numeric_format], pack_integer(case.claimed))
    return (*head, len(case.terms), case.bits, integer_bytes, plain)
