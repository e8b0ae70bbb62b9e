"""Computes the seeds of a round, which no party can choose (docs/spec.md, section 4).

A seed comes from the randomness of one block. That block is fixed before any party knows its randomness, and
claims are committed before any party knows the seed that draws their audits. One seed for each round decides
which auditor audits which segment. The beacon decides which solver trains on which shard.
"""

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import TAG_SLOT


def compute_slot_seed(seed: bytes, slot: int) -> bytes:
    """Returns the part of a round's seed that belongs to one slot."""
    return hash_words(TAG_SLOT, seed, slot)


TAG_ROUND_SEED = "touchstone.seed"
TAG_ROUND_BEACON = "touchstone.beacon"


def _require(condition: bool, what: str, expected: str, actual: object) -> None:
    if not condition:
        raise InvalidInput(
            what=what, expected=expected, actual=actual, remedy="Check the task's terms and the frozen pool."
        )


def compute_grid_block(from_block: int, grid: int) -> int:
    """Returns the first block number from `from_block` on that is a multiple of `grid`. It is the deciding
    block. The grid leaves the last committer few such blocks to choose from."""
    _require(grid >= 1, "the grid of draws is not a number of blocks", "at least 1", grid)
    _require(from_block >= 0, "no such block", "at least 0", from_block)
    return -(-from_block // grid) * grid


def compute_round_seed(domain: bytes, round_number: int, randomness: bytes) -> bytes:
    """Returns the seed of a round's audits and of the late audits of the round before it (32 bytes)."""
    return hash_words(TAG_ROUND_SEED, domain, round_number, randomness)


def compute_round_beacon(domain: bytes, round_number: int, randomness: bytes) -> bytes:
    """Returns the seed of a round's shards and samples (32 bytes). `randomness` belongs to the seed that
    gives the round its beacon."""
    return hash_words(TAG_ROUND_BEACON, domain, round_number, randomness)
