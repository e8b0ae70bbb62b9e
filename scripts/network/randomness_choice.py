"""Chooses the randomness contract of a chain.

Before the contracts are created, it measures whether the chain's prevrandao may decide draws
(docs/decisions/0020-randomness.md).
"""

from dataclasses import dataclass

from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.creation import PLAIN, WITH_DRAND
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput

SAMPLE_BLOCKS = 16
"""The blocks that are measured. A rollup repeats the value of the chain below for 6 or more of its blocks."""
LEAST_RANDOM = 1 << 128
"""A random word is below this once in 2^128. A smaller one is a constant, a counter or a time."""
BLS_G1ADD = "0x000000000000000000000000000000000000000b"
G1_BYTES = 128

_SEQUENCER = "it repeats the value of a block of the chain below, which its sequencer chooses"
_CONSTANT = "it is a constant"
NOT_RANDOM = {
    # OP Stack specification, "L1 attributes": prevrandao is that of the L1 origin.
    10: _SEQUENCER, 130: _SEQUENCER, 480: _SEQUENCER, 8_453: _SEQUENCER, 34_443: _SEQUENCER,
    57_073: _SEQUENCER, 81_457: _SEQUENCER, 7_777_777: _SEQUENCER, 5_000: _SEQUENCER,
    # Each chain's page of differences from Ethereum: Arbitrum has 1, ZKsync 2.5e15, the others 0 or a fixed
    # number.
    42_161: _CONSTANT, 42_170: _CONSTANT, 324: _CONSTANT, 1_101: _CONSTANT, 534_352: _CONSTANT,
    59_144: _CONSTANT,
    # These have no RANDAO: their own consensus writes the field.
    56: "its producers write it", 137: "its producers write it", 43_114: _CONSTANT,
}  # fmt: skip
"""Chains by id whose weakness a measurement may be too short to show."""


@dataclass(frozen=True)
class Sample:
    """The prevrandao of consecutive blocks, the oldest first."""

    first_block: int
    values: tuple[int, ...]


def find_weakness(chain_id: int, sample: Sample) -> str:
    """Returns why draws must not depend only on this chain's prevrandao; empty if nothing speaks against
    it."""
    if reason := NOT_RANDOM.get(chain_id, ""):
        return f"chain {chain_id}: {reason}"
    numbered = list(enumerate(sample.values, sample.first_block))
    for block, value in numbered:
        if value < LEAST_RANDOM:
            return f"block {block} has {value:#x}"
    first_seen: dict[int, int] = {}
    for block, value in numbered:
        if value in first_seen:
            return f"blocks {first_seen[value]} and {block} both have {value:#x}"
        first_seen[value] = block
    return ""


async def measure(connection: Connection) -> Sample:
    """Returns prevrandao of the newest blocks, without the genesis block, which no validator produced."""
    head = (await connection.head()).number
    first = max(1, head - SAMPLE_BLOCKS + 1)
    blocks = [await connection.raw_block(number) for number in range(first, head + 1)]
    return Sample(first, tuple(int(block["mixHash"], 16) for block in blocks))


async def has_bls(connection: Connection) -> bool:
    """Returns whether the chain has the precompiles of EIP-2537, by adding two points at infinity."""
    try:
        return len(await connection.call(BLS_G1ADD, bytes(2 * G1_BYTES), "G1ADD")) == G1_BYTES
    except (InvalidInput, EnvironmentFault):
        return False


async def choose_contract(connection: Connection, *, with_drand: bool) -> str:
    """Returns which randomness contract to create on this chain. Raises EnvironmentFault if its prevrandao is
    not random and drand is not used, or the chain cannot verify drand."""
    chain_id = await connection.chain_id()
    weakness = find_weakness(chain_id, await measure(connection))
    can_verify = await has_bls(connection) if weakness or with_drand else False
    if with_drand and not can_verify:
        raise _refuse(
            "this chain cannot verify drand", "precompiles of EIP-2537", "none", "Use another chain."
        )
    if weakness and not with_drand:
        remedy = (
            "Deploy with --drand."
            if can_verify
            else "Use another chain: this one cannot verify drand either."
        )
        raise _refuse("this chain's prevrandao is not random", "fresh random words", weakness, remedy)
    return WITH_DRAND if with_drand else PLAIN


def _refuse(what: str, expected: str, actual: str, remedy: str) -> EnvironmentFault:
    where = "docs/decisions/0020-randomness.md"
    return EnvironmentFault(
        what=what, expected=expected, actual=actual, where=where, remedy=remedy, retryable=False
    )
