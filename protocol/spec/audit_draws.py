"""Draws the audited segments of a claim, and their auditors in the pool (docs/spec.md, section 4).

Twin: `AuditDraw.sol`. Each node and the contract draw the same from the seed of a round (`round_seeds.py`).

    segments of a claim       no two are neighbours, and each segment of the claim is drawn equally often
    permutation of a pool     once for each seed: it mixes the frozen seats, and auditors are places in it
    late draw of a claim      with chance c one more segment, and three whistleblowers
"""

from collections.abc import Sequence
from dataclasses import dataclass

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import LATE_RATE_ONE
from touchstone.protocol.spec.round_seeds import compute_slot_seed
from touchstone.protocol.spec.uniform_draw import draw_distinct, draw_uniform

TAG_LATE_SLOT = "touchstone.late-slot"
VERIFIER_POOL = "touchstone.verifiers"
"""The role tag of the permutation for primaries and reserves."""
WHISTLEBLOWER_POOL = "touchstone.whistleblowers"
"""The role tag of the permutation for late auditors."""
RANKS = 3
"""The auditors of one draw: the primary (rank 0) and two reserves (1, 2)."""

Places = tuple[int, int, int]
"""Places in a permutation, by rank. The seat is `pool[permutation[place]]`."""


@dataclass(frozen=True)
class LateDraw:
    """A late audit of one claim: its segment, and the places of its three whistleblowers by rank."""

    segment: int
    places: Places


def _require(condition: bool, what: str, expected: str, actual: object) -> None:
    if not condition:
        raise InvalidInput(
            what=what, expected=expected, actual=actual, remedy="Check the task's terms and the frozen pool."
        )


def count_draws(draws: int, segment_count: int) -> int:
    """Returns how many segments of a claim are audited: the task's `draws`, fewer if the claim is short.

    A drawn segment rules out at most three: itself and its two neighbours. So as long as three times the
    drawn segments are fewer than all, one is left to draw: (n + 2) // 3 draws always find one."""
    _require(draws >= 1, "a claim needs an audit", "at least 1 draw", draws)
    _require(segment_count >= 1, "a claim without segments", "at least 1 segment", segment_count)
    return max(1, min(draws, (segment_count + 2) // 3))


def draw_circle_segments(seed: bytes, slot: int, draws: int, segment_count: int) -> tuple[int, ...]:
    """Returns the `count_draws` audited segments of the claim of `slot`, in the order drawn.

    The first is uniform among all n, each further one among those that touch none drawn before. The segments
    lie on a circle, so n - 1 and 0 touch too. Neighbours would show the end of one as the start of the other,
    before the replay is sealed.

    At each place of the result each segment has chance exactly 1/n. The first is uniform. A further one has a
    distance from the first that does not depend on where the first lies, and a uniform number plus an
    independent one is uniform modulo n. (On a line the two ends would be drawn more often, because they have
    only one neighbour.)"""
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


def count_places(pool_size: int, draws: int) -> int:
    """Returns how many places of a pool's permutation a round's `draws` draws use: three for each, at most
    all."""
    return min(RANKS * draws, pool_size)


def compute_permutation(seed: bytes, role_tag: str, pool_size: int, count: int) -> tuple[int, ...]:
    """Returns the first `count` places of a random permutation of the positions 0 .. pool_size - 1 of a
    frozen pool (Fisher-Yates, cut short).

    `role_tag` is VERIFIER_POOL or WHISTLEBLOWER_POOL. Each place costs a hash, on chain 700 gas, so a large
    pool is permuted only as far as a round's draws reach (`count_places`)."""
    return tuple(draw_distinct(hash_words(role_tag, seed), 0, count, pool_size))


def get_auditor_places(pool_size: int, slot: int, draw: int, draws_per_claim: int, slots: int) -> Places:
    """Returns the places of a draw's primary and of its two reserves. The task has q = `draws_per_claim`, the
    round `slots` solver seats.

    The round has T = q * slots draws. Draw t = q * slot + draw has place t, cyclically, so that all seats get
    equally many draws, give or take one. The reserves are T places further each, or a third of the pool if
    that is less. With 3 q places or more, no auditor audits one claim twice."""
    _require(0 <= slot < slots, "no such slot", f"0 <= slot < {slots}", slot)
    _require(0 <= draw < draws_per_claim, "no such draw of a claim", f"0 <= draw < {draws_per_claim}", draw)
    least = RANKS * draws_per_claim
    _require(pool_size >= least, "too few auditors in the pool", f"at least {least}", pool_size)
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
    """Returns the late audit of the claim of `slot`, or None. With chance `chance` / 65536 it is one of the
    segments not drawn before, each equally likely, and three whistleblowers of a pool of `pool_size` (3 or
    more).

    `drawn_segments` is the result of `draw_circle_segments` for the claim. The late segment may touch one of
    them, because the first audits published only ends of drawn segments. Only the auditors of the segment
    after it have seen its end. They could give it away, but so could the solver itself. So a rule against
    neighbours would hide nothing, and would leave short claims without late audits."""
    _require(0 <= chance <= LATE_RATE_ONE, "no such chance", f"0 to {LATE_RATE_ONE}", chance)
    slot_seed = hash_words(TAG_LATE_SLOT, seed, slot)
    if draw_uniform(slot_seed, 0, LATE_RATE_ONE) >= chance:
        return None
    undrawn = sorted(set(range(segment_count)) - set(drawn_segments))
    if not undrawn:
        return None
    segment = undrawn[draw_uniform(slot_seed, 1, len(undrawn))]
    return LateDraw(segment, get_auditor_places(pool_size, slot, 0, 1, slots))
