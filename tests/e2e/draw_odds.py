"""Does the ledger draw as the published odds say? Asks the deployed ledger's own draw code 10,000 times.

RoundLedger keeps that code in the RoundReader that its constructor creates. Seeds are given in the call, so
nothing has to be mined; the registry is overridden for these calls by one with a single round of the setting,
which names the same auditor always.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import aiohttp

from protocol.adapters.chain import Deployment
from protocol.adapters.chain.abi import Entry, find_function, load_abi
from protocol.adapters.chain.values import decode_values, encode_call
from protocol.spec.codec import encode_terms
from protocol.spec.odds import compute_detection_probability, count_draws
from protocol.spec.params import ZERO_WORD
from protocol.spec.statuses import AuditRef
from scripts.creation import compute_creation_address
from tests.e2e.cheats import list_spoiled_segments
from tests.e2e.plan import build_plan
from tests.protocol.spec.simulator import make_terms

DRAWS = 10_000
BATCH_CALLS = 150
"""Anvil takes two megabytes a request."""
FIRST_CREATION_NONCE = 1
"""Of a contract (EIP-161)."""
COUNTS = (1, 5, 1)
"""Solvers, verifiers and whistleblowers of the round."""
NORMAL_99 = 2.5758
"""Two-sided 99 % of the standard normal distribution."""
CHI_SQUARED_99 = {1: 6.635, 2: 9.210, 3: 11.345, 5: 15.086, 9: 21.666, 14: 29.141}
"""99 % of the chi-squared distribution by degrees of freedom."""


@dataclass(frozen=True)
class Setting:
    """What decides the odds: segments of a round, draws, the late rate (1/65536) and what a cheat spoiled."""

    segments: int
    draws: int
    late_rate: int
    spoiled: frozenset[int]


@dataclass(frozen=True)
class Drawn:
    """What one claim was given: the segments of its draws, and that of its late audit if there is one."""

    segments: tuple[int, ...]
    late: int | None


@dataclass(frozen=True)
class Match:
    """Observed against published."""

    count: int
    met: int
    expected: Fraction
    chi_squared: float
    chi_squared_limit: float

    @property
    def deviation(self) -> float:
        """Of the rate of detection, in standard deviations."""
        p = float(self.expected)
        sigma = math.sqrt(self.count * p * (1 - p))
        return (self.met - self.count * p) / sigma if sigma else float(self.met != self.count * p)

    @property
    def holds(self) -> bool:
        """Whether both lie inside their 99 %."""
        return abs(self.deviation) <= NORMAL_99 and self.chi_squared <= self.chi_squared_limit

    def __str__(self) -> str:
        return (
            f"{self.count:,} draws of the ledger: {self.met / self.count:.4f} met the cheat, published "
            f"{float(self.expected):.4f} ({self.deviation:+.2f} sigma); sets of segments: chi-squared "
            f"{self.chi_squared:.2f}, 99 % is {self.chi_squared_limit:.2f}: "
            f"{'they match' if self.holds else 'THEY DO NOT MATCH'}"
        )


async def check_draws(rpc_url: str, deployment: Deployment, skip: Fraction) -> Match:
    """The demo's setting, with a solver that skips this share of its steps, against the deployed ledger."""
    plan = build_plan()
    spoiled = list_spoiled_segments(plan.inner_steps, plan.segment_steps, skip)
    setting = Setting(plan.inner_steps // plan.segment_steps, plan.segment_draws, plan.late_rate, spoiled)
    return match(setting, await ask_ledger(rpc_url, deployment, setting))


def match(setting: Setting, drawn: Sequence[Drawn]) -> Match:
    """Compare draws with `protocol/spec/odds.py`."""
    met = sum(not setting.spoiled.isdisjoint({*one.segments, one.late}) for one in drawn)
    expected = compute_detection_probability(
        setting.segments, setting.draws, setting.spoiled, setting.late_rate
    )
    sets = Counter(one.segments for one in drawn)
    cells = count_draws(setting.segments, setting.draws)
    each = len(drawn) / cells
    chi_squared = sum((n - each) ** 2 / each for n in sets.values()) + (cells - len(sets)) * each
    return Match(len(drawn), met, expected, chi_squared, CHI_SQUARED_99[cells - 1])


async def ask_ledger(rpc_url: str, deployment: Deployment, setting: Setting) -> list[Drawn]:
    """DRAWS claims drawn by the deployed code, each from seeds of its own."""
    reader = compute_creation_address(deployment.ledger, FIRST_CREATION_NONCE)
    entry = find_function(load_abi("RoundReader"), "drawnOf")
    overrides = {deployment.registry: {"code": "0x" + build_registry(setting).hex()}}
    calls = [{"to": reader, "data": "0x" + data.hex()} for data in _list_calls(entry, setting)]
    answers: list[tuple[int, str]] = []
    async with aiohttp.ClientSession() as session:
        for start in range(0, len(calls), BATCH_CALLS):
            batch = calls[start : start + BATCH_CALLS]
            body = [_to_request(i, call, overrides) for i, call in enumerate(batch)]
            async with session.post(rpc_url, json=body) as response:
                found = sorted(await response.json(), key=lambda answer: int(answer["id"]))
            answers += [_decode(entry, answer) for answer in found]
    each = setting.draws + 1
    return [_to_drawn(answers[start : start + each]) for start in range(0, len(answers), each)]


def build_registry(setting: Setting) -> bytes:
    """Code of a registry that answers the three questions of a draw: counts, terms, and account 1 for whoever
    is enrolled."""
    terms = replace(
        make_terms(),
        inner_steps=setting.segments,
        segment_steps=1,
        segment_draws=setting.draws,
        late_rate=setting.late_rate,
    )
    words = [number.to_bytes(32) for number in (0, 0, 0, *COUNTS)]
    answers = {
        "roundOf": b"".join(words),
        "termsOf": encode_terms(terms),
        "enrolledAt": (1).to_bytes(32),
    }
    abi = load_abi("ITaskRegistry")
    return _assemble({find_function(abi, name).selector: answer for name, answer in answers.items()})


def _assemble(answers: Mapping[bytes, bytes]) -> bytes:
    """EVM code that returns fixed bytes for each selector, and reverts for any other."""
    # PUSH0 CALLDATALOAD PUSH1 224 SHR; then for each: DUP1 PUSH4 EQ PUSH2 JUMPI; at last PUSH0 PUSH0 REVERT.
    head, case, jump = bytes.fromhex("5f3560e01c"), 11, 14
    bodies = len(head) + case * len(answers) + 3
    data = bodies + jump * len(answers)
    cases, targets, blobs = [], [], b""
    for number, (selector, answer) in enumerate(answers.items()):
        target = (bodies + jump * number).to_bytes(2)
        cases.append(b"\x80\x63" + selector + b"\x14\x61" + target + b"\x57")
        size, place = len(answer).to_bytes(2), (data + len(blobs)).to_bytes(2)
        # JUMPDEST PUSH2 size PUSH2 place PUSH0 CODECOPY PUSH2 size PUSH0 RETURN
        targets.append(b"\x5b\x61" + size + b"\x61" + place + b"\x5f\x39\x61" + size + b"\x5f\xf3")
        blobs += answer
    return head + b"".join(cases) + bytes.fromhex("5f5ffd") + b"".join(targets) + blobs


def _list_calls(entry: Entry, setting: Setting) -> Iterator[bytes]:
    for index in range(DRAWS):
        seeds = [sha256(f"{kind}/{index}".encode()).digest() for kind in ("draw", "late")]
        for draw in range(setting.draws + 1):
            yield encode_call(entry, [AuditRef(ZERO_WORD, 0, 0, draw, 0), *seeds])


def _to_request(number: int, call: dict[str, str], overrides: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "eth_call", "params": [call, "latest", overrides]}


def _decode(entry: Entry, answer: dict[str, Any]) -> tuple[int, str]:
    segment, auditor = decode_values(entry.outputs, bytes.fromhex(answer["result"].removeprefix("0x")))
    return segment, auditor


def _to_drawn(answers: Sequence[tuple[int, str]]) -> Drawn:
    *draws, (late, auditor) = answers
    is_due = int(auditor, 16) != 0
    return Drawn(tuple(segment for segment, _ in draws), late if is_due else None)
