"""Every random choice of the protocol (docs/spec.md, section 4), from seeds that nobody could choose. Twin:
`Draw.sol`.

A seed hangs on the randomness of a block that was fixed before anyone knew it; all that follows is a keyed
hash of that seed, so that each node and the contract deal the same cards. Rejection sampling keeps every
choice exactly uniform.
"""

from dataclasses import dataclass

from protocol.spec.errors import InvalidInput
from protocol.spec.hashing import hash_words
from protocol.spec.params import (
    LATE_RATE_ONE,
    MIN_VERIFIERS,
    TAG_BEACON,
    TAG_DRAW,
    TAG_LATE,
    TAG_LEAVES,
    TAG_SAMPLE,
    TAG_SLOT,
    TAG_UNIFORM,
)

AUDITOR_COUNTER_STRIDE = 1000
SLOT_STRIDE = 256


@dataclass(frozen=True)
class LateAudit:
    """A late audit of one accepted claim: the segment (index in the round) and the whistleblower (index of
    enrolment)."""

    segment: int
    whistleblower: int


def _require(condition: bool, what: str, expected: str, actual: object) -> None:
    if not condition:
        raise InvalidInput(
            what=what, expected=expected, actual=actual, remedy="Check the task's terms and the enrolment."
        )


# --- Seeds --------------------------------------------------------------------------------------------------
def compute_beacon(domain: bytes, round_number: int, randomness: bytes) -> bytes:
    """Seed of shards and samples; randomness is that of block enrolEnd + delay."""
    return hash_words(TAG_BEACON, domain, round_number, randomness)


def compute_draw_seed(domain: bytes, round_number: int, randomness: bytes) -> bytes:
    """Seed of segments and auditors; randomness is that of block trainEnd + delay."""
    return hash_words(TAG_DRAW, domain, round_number, randomness)


def compute_leaf_seed(domain: bytes, round_number: int, phase: int, randomness: bytes) -> bytes:
    """Seed of the opened leaves; phase: 0 primaries, 1 reserves, 2 the late audit."""
    return hash_words(TAG_LEAVES, domain, round_number, phase, randomness)


def compute_late_seed(domain: bytes, round_number: int, randomness: bytes) -> bytes:
    """Seed of the late audits; randomness is that of block mergedBlock + delay."""
    return hash_words(TAG_LATE, domain, round_number, randomness)


def compute_slot_seed(seed: bytes, slot: int) -> bytes:
    """The part of a round's seed that belongs to one slot."""
    return hash_words(TAG_SLOT, seed, slot)


# --- Choices ------------------------------------------------------------------------------------------------
def draw_uniform(seed: bytes, counter: int, n: int) -> int:
    """An unbiased integer in 0 .. n-1: the first hash below the largest multiple of n, modulo n."""
    _require(1 <= n < 1 << 256, "a draw needs something to draw from", "1 <= n < 2^256", n)
    bound = (1 << 256) - (1 << 256) % n
    attempt = 0
    while True:
        x = int.from_bytes(hash_words(TAG_UNIFORM, seed, counter, attempt), "big")
        if x < bound:
            return x % n
        attempt += 1


def draw_distinct(seed: bytes, counter: int, count: int, n: int) -> list[int]:
    """`count` distinct integers in 0 .. n-1 in the order drawn, uniform over such sequences (Fisher-Yates,
    cut short)."""
    _require(0 <= count <= n, "cannot draw more than there are", f"0 <= count <= {n}", count)
    moved: dict[int, int] = {}  # the identity permutation, but for the positions that were swapped
    drawn = []
    for i in range(count):
        j = i + draw_uniform(seed, counter + i, n - i)
        drawn.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return drawn


def draw_shard(beacon: bytes, slot: int, solver_count: int) -> int:
    """Shard of a slot: a rotation of all solvers by one uniform offset."""
    _require(0 <= slot < solver_count, "no such slot", f"0 <= slot < {solver_count}", slot)
    return (slot + draw_uniform(beacon, 0, solver_count)) % solver_count


def draw_segments(slot_seed: bytes, draws: int, segment_count: int) -> list[int]:
    """`draws` segments of a claim in ascending order, no two adjacent, uniform over such sets.

    Gaps between non-adjacent choices are squeezed out: q of n - q + 1, sorted, plus 0, 1, ..., q - 1.
    Adjacent draws would show the end of one segment as the start of the next, before the replay is
    committed."""
    _require(
        draws >= 1 and segment_count >= 2 * draws - 1,
        "not enough segments for draws that are not adjacent",
        f"at least {2 * draws - 1} segments",
        segment_count,
    )
    squeezed = sorted(draw_distinct(slot_seed, 0, draws, segment_count - draws + 1))
    return [position + i for i, position in enumerate(squeezed)]


def draw_auditors(slot_seed: bytes, draw: int, verifier_count: int) -> list[int]:
    """Indices of three verifiers for one draw: primary, first and second reserve."""
    _require(
        verifier_count >= MIN_VERIFIERS, "too few verifiers", f"at least {MIN_VERIFIERS}", verifier_count
    )
    return draw_distinct(slot_seed, AUDITOR_COUNTER_STRIDE * (draw + 1), MIN_VERIFIERS, verifier_count)


def draw_late_audit(
    late_seed: bytes,
    slot: int,
    late_rate: int,
    drawn_segments: list[int],
    segment_count: int,
    whistleblower_count: int,
) -> LateAudit | None:
    """The late audit of an accepted claim, or None: with chance late_rate / 65536 one of the undrawn
    segments."""
    slot_seed = compute_slot_seed(late_seed, slot)
    undrawn = [segment for segment in range(segment_count) if segment not in drawn_segments]
    if not undrawn or whistleblower_count == 0 or draw_uniform(slot_seed, 0, LATE_RATE_ONE) >= late_rate:
        return None
    segment = undrawn[draw_uniform(slot_seed, 1, len(undrawn))]
    return LateAudit(segment=segment, whistleblower=draw_uniform(slot_seed, 2, whistleblower_count))


def draw_leaves(leaf_seed: bytes, slot: int, draw: int, leaf_draws: int, leaf_count: int) -> list[int]:
    """Leaf indices to open in one audit, in the order drawn; the same for all ranks of a draw in one
    phase."""
    _require(0 <= draw < SLOT_STRIDE, "no such draw", f"0 <= draw < {SLOT_STRIDE}", draw)
    seed = compute_slot_seed(leaf_seed, slot * SLOT_STRIDE + draw)
    return draw_distinct(seed, 0, min(leaf_draws, leaf_count), leaf_count)


def draw_sample_start(
    beacon: bytes, shard: int, step: int, row: int, token_count: int, sequence_tokens: int
) -> int:
    """First token of row `row` of inner step `step` (0-based in the round); its labels are the next
    tokens."""
    _require(
        token_count > sequence_tokens,
        "the dataset is shorter than a row",
        f"more than {sequence_tokens}",
        token_count,
    )
    return draw_uniform(hash_words(TAG_SAMPLE, beacon, shard, step), row, token_count - sequence_tokens)
