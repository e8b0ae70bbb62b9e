"""Every random choice of the protocol, from seeds that no party chooses; rounds of drand's quicknet.

The choices are those of docs/spec.md, section 4. Twins: `Draw.sol` and `AuditDraw.sol`.

A seed comes from the randomness of one block. That block is fixed before any party knows its randomness, and
claims are committed before any party knows the seed that draws their audits. Every choice is a keyed hash of
a seed, so each node and the contract deal the same cards. Every choice is exactly uniform, because
`draw_uniform` rejects the hashes that would make it uneven.

One seed a round decides which auditor audits which segment. The beacon decides which solver trains on which
shard.

    segments     of a claim   no two are neighbours, and each segment of the claim is drawn equally often
    permutation  of a pool    once a seed: it mixes the frozen seats, and auditors are places in it
    late draw    of a claim   with chance c one more segment, and three whistleblowers
    shards       of a round   a rotation of the slots

Rounds of drand's quicknet as a proof of randomness needs them (docs/spec.md, section 4). Twin:
`Quicknet.sol`. Scheme bls-unchained-g1-rfc9380. Only the contract decides whether a signature is drand's.
This module neither verifies a signature nor trusts the server that sent it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from touchstone.protocol.spec.codec import hash_words
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import LATE_RATE_ONE, TAG_SAMPLE, TAG_SLOT, TAG_UNIFORM


def _require(condition: bool, what: str, expected: str, actual: object) -> None:
    if not condition:
        raise InvalidInput(what=what, expected=expected, actual=actual, remedy="Check the task's terms.")


# --- Seeds --------------------------------------------------------------------------------------------------
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


TAG_ROUND_SEED = "touchstone.seed"
TAG_ROUND_BEACON = "touchstone.deal"
TAG_LATE_SLOT = "touchstone.late-slot"
VERIFIER_POOL = "touchstone.verifiers"
"""Role tag of the permutation that primaries and reserves are places of."""
WHISTLEBLOWER_POOL = "touchstone.whistleblowers"
"""Role tag of the permutation that late auditors are places of."""
RANKS = 3
"""auditors of one draw: the primary (rank 0) and two reserves (1, 2)."""

Places = tuple[int, int, int]
"""Places in a permutation, by rank. The seat is `pool[permutation[place]]`."""


@dataclass(frozen=True)
class LateDraw:
    """A late audit of one claim: the segment, and the places of its three whistleblowers by rank."""

    segment: int
    places: Places


def _require_pool(condition: bool, what: str, expected: str, actual: object) -> None:
    if not condition:
        raise InvalidInput(
            what=what, expected=expected, actual=actual, remedy="Check the task's terms and the frozen pool."
        )


# --- Seeds --------------------------------------------------------------------------------------------------
def compute_grid_block(from_block: int, grid: int) -> int:
    """The first block number from `from_block` on that is a multiple of `grid`: the block whose randomness
    decides. The last committer chooses among few such blocks."""
    _require_pool(grid >= 1, "the grid of draws is no number of blocks", "at least 1", grid)
    _require_pool(from_block >= 0, "no such block", "at least 0", from_block)
    return -(-from_block // grid) * grid


def compute_round_seed(domain: bytes, round_number: int, randomness: bytes) -> bytes:
    """The seed of a round's audits and of the late audits of the round before it (32 bytes)."""
    return hash_words(TAG_ROUND_SEED, domain, round_number, randomness)


def compute_round_beacon(domain: bytes, round_number: int, randomness: bytes) -> bytes:
    """The seed of a round's shards and samples (32 bytes). `randomness` is that of the seed that deals the
    round."""
    return hash_words(TAG_ROUND_BEACON, domain, round_number, randomness)


# --- Segments -----------------------------------------------------------------------------------------------
def count_draws(draws: int, segment_count: int) -> int:
    """How many segments of a claim are audited: the task's `draws`, fewer where the claim is short.

    A segment and its two neighbours are at most three. So there is one left to draw as long as three times
    the segments drawn are fewer than all: (n + 2) // 3 draws always find one."""
    _require_pool(draws >= 1, "a claim needs an audit", "at least 1 draw", draws)
    _require_pool(segment_count >= 1, "a claim without segments", "at least 1 segment", segment_count)
    return max(1, min(draws, (segment_count + 2) // 3))


def draw_circle_segments(seed: bytes, slot: int, draws: int, segment_count: int) -> tuple[int, ...]:
    """The audited segments of the claim of `slot`, in the order drawn: `count_draws` of them.

    The first is uniform among all n, each further one among those that touch none drawn before. n - 1 and 0
    touch too: the segments stand on a circle. Neighbours would show the end of one as the start of the other,
    before the replay is sealed.

    At each place of the result each segment stands with chance exactly 1/n. The first is uniform. A further
    one stands at a distance from the first, and what distances may follow does not depend on where the first
    stands. A uniform number plus one that is independent of it is uniform modulo n. (On a line the two ends
    would be drawn more often, because they have one neighbour only.)"""
    count = count_draws(draws, segment_count)
    slot_seed = compute_slot_seed(seed, slot)
    first = draw_uniform(slot_seed, 0, segment_count)
    distances: list[int] = []
    for i in range(1, count):
        free = [distance for distance in range(2, segment_count - 1) if not _touches(distance, distances)]
        distances.append(free[draw_uniform(slot_seed, i, len(free))])
    return (first, *((first + distance) % segment_count for distance in distances))


def _touches(distance: int, others: Sequence[int]) -> bool:
    return any(abs(distance - other) <= 1 for other in others)


# --- Auditors -----------------------------------------------------------------------------------------------
def count_places(pool_size: int, draws: int) -> int:
    """How many places of a pool's permutation a round of `draws` draws in all uses: three for each draw, at
    most all."""
    return min(RANKS * draws, pool_size)


def compute_permutation(seed: bytes, role_tag: str, pool_size: int, count: int) -> tuple[int, ...]:
    """The first `count` places of the positions 0 .. pool_size - 1 of a frozen pool, mixed: every order is
    equally likely (Fisher-Yates, cut short).

    `role_tag` is VERIFIER_POOL or WHISTLEBLOWER_POOL. It costs a hash for each place, on chain 700 gas, so
    a large pool is mixed only as far as a round's draws reach (`count_places`)."""
    return tuple(draw_distinct(hash_words(role_tag, seed), 0, count, pool_size))


def get_auditor_places(pool_size: int, slot: int, draw: int, draws_per_claim: int, slots: int) -> Places:
    """The places of a draw's primary and of its two reserves, for the task's q = `draws_per_claim` and a
    round of `slots` solver seats.

    The round has T = q * slots draws. Draw t = q * slot + draw takes place t, round and round, so that all
    seats get equally many draws, give or take one. The reserves stand T places further each, or a third of
    the pool where that is less. With 3 q places or more, no auditor audits one claim twice."""
    _require_pool(0 <= slot < slots, "no such slot", f"0 <= slot < {slots}", slot)
    _require_pool(
        0 <= draw < draws_per_claim, "no such draw of a claim", f"0 <= draw < {draws_per_claim}", draw
    )
    least = RANKS * draws_per_claim
    _require_pool(pool_size >= least, "too few auditors in the pool", f"at least {least}", pool_size)
    count = count_places(pool_size, draws_per_claim * slots)
    step = min(draws_per_claim * slots, pool_size // RANKS)
    primary = draws_per_claim * slot + draw
    return primary % count, (primary + step) % count, (primary + 2 * step) % count


def draw_late(
    seed: bytes,
    slot: int,
    chance: int,
    drawn_segments: Sequence[int],
    segment_count: int,
    pool_size: int,
    slots: int,
) -> LateDraw | None:
    """The late audit of the claim of `slot`, or None: with chance `chance` / 65536 one of the segments not
    drawn before, each equally likely, and three whistleblowers of a pool of `pool_size` (3 or more).

    `drawn_segments` is what `draw_circle_segments` gave for the claim. The late segment may touch one of
    them. Only one is drawn, so no two late ones touch. What the first audits published is the ends of drawn
    segments, and none of those is the end of a segment that was not drawn. Only the auditors of the segment
    after the late one have seen its end. They could give it away, but so could the solver itself. So a rule
    against neighbours would hide nothing, and it would leave short claims without late audits."""
    _require_pool(0 <= chance <= LATE_RATE_ONE, "no such chance", f"0 to {LATE_RATE_ONE}", chance)
    slot_seed = hash_words(TAG_LATE_SLOT, seed, slot)
    if draw_uniform(slot_seed, 0, LATE_RATE_ONE) >= chance:
        return None
    undrawn = sorted(set(range(segment_count)) - set(drawn_segments))
    if not undrawn:
        return None
    segment = undrawn[draw_uniform(slot_seed, 1, len(undrawn))]
    return LateDraw(segment, get_auditor_places(pool_size, slot, 0, 1, slots))


# --- Shards -------------------------------------------------------------------------------------------------
def deal_shards(beacon: bytes, solver_count: int) -> tuple[int, ...]:
    """The shard of each slot: all slots turned by one uniform offset.

    A permutation would deal no better. A shard is a number that goes into the hash of each sample
    (`draw_sample_start`), so the samples of neighbouring shards have nothing to do with each other. One
    offset is one hash for the contract, whichever slot it asks about."""
    _require_pool(solver_count >= 1, "a round without solvers", "at least 1", solver_count)
    offset = draw_uniform(beacon, 0, solver_count)
    return tuple((slot + offset) % solver_count for slot in range(solver_count))


# --- Rounds of quicknet -------------------------------------------------------------------------------------
CHAIN_HASH = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"
GENESIS_S = 1_692_803_367
PERIOD_S = 3
MARGIN_S = 60
"""From a block to its round: five slots of Ethereum."""
SIGNATURE_BYTES = 48
FIELD_BYTES = 64
"""A field element as EIP-2537 has it: big endian, the upper 16 bytes zero."""
_MODULUS = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
_COMPRESSED, _INFINITY, _LARGER = 0x80, 0x40, 0x20


def compute_round_after(timestamp_s: int) -> int:
    """The first round that is due a margin or more after a block's time (Unix)."""
    late_s = max(timestamp_s + MARGIN_S - GENESIS_S, 0)
    return -(-late_s // PERIOD_S) + 1


def compute_due_s(round_number: int) -> int:
    """When drand signs a round, Unix time."""
    return GENESIS_S + (round_number - 1) * PERIOD_S


def compute_randomness(signature: bytes) -> bytes:
    """What drand publishes beside the signature (48 bytes) of a round: its SHA-256."""
    return sha256(signature).digest()


def mix(prevrandao: bytes, signature: bytes) -> bytes:
    """Randomness of a block where drand is mixed in."""
    return sha256(prevrandao + compute_randomness(signature)).digest()


def expand_point(signature: bytes) -> bytes:
    """A compressed point of G1 (48 bytes) as x and y, 64 bytes each (EIP-2537).

    Raises InvalidInput where the bytes are no point of the curve y^2 = x^3 + 4.
    """
    head = signature[0] if signature else 0
    x = int.from_bytes(bytes([head & 0x1F]) + signature[1:], "big")
    square = (pow(x, 3, _MODULUS) + 4) % _MODULUS
    y = pow(square, (_MODULUS + 1) // 4, _MODULUS)
    is_plain = len(signature) == SIGNATURE_BYTES and head & (_COMPRESSED | _INFINITY) == _COMPRESSED
    if not is_plain or x >= _MODULUS or y * y % _MODULUS != square:
        raise InvalidInput(
            what="this is no signature of drand's quicknet",
            expected=f"{SIGNATURE_BYTES} bytes, a compressed point of G1",
            actual=f"{len(signature)} bytes, {signature[:8].hex()}...",
            remedy="Ask another server of drand.",
        )
    if (y > _MODULUS // 2) != bool(head & _LARGER):
        y = _MODULUS - y
    return x.to_bytes(FIELD_BYTES, "big") + y.to_bytes(FIELD_BYTES, "big")
