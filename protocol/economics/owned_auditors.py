"""Computes the chances of a cheat that owns seats among the auditors of its claims.

A draw's primary and reserves are three places of one permutation of the pool, and no two draws of a claim
share a place. So the cheat's seats fall on them without replacement (hypergeometric). A draw is accepted by
its primary, or by both reserves.
"""

from fractions import Fraction
from functools import lru_cache
from math import comb

from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.errors import InvalidInput

POOLS_TRIED = 64
"""How many pool sizes, from the least on, are computed exactly; a bound holds for all larger ones."""
DECIDING = (0, 1, 3, 1)
"""In how many ways 0, 1, 2 or 3 of the cheat's seats among a draw's three can accept it. A single one must be
the primary; any two suffice, because they are the primary and a reserve, or both reserves."""


def count_owned(share: Fraction, pool: int) -> int:
    """Returns the most seats of a pool that a cheat has with at most `share` of them."""
    return int(share * pool)


@lru_cache(maxsize=256)
def _count_deciding(audits: int) -> tuple[int, ...]:
    """Returns, for each i, in how many ways i seats of the cheat, among the 3 places of each of `audits`
    draws, accept all draws."""
    ways = [1]
    for _ in range(audits):
        longer = [0] * (len(ways) + RANKS)
        for i, count in enumerate(ways):
            for own, more in enumerate(DECIDING):
                longer[i + own] += count * more
        ways = longer
    return tuple(ways)


def compute_deciding_exact(owned: int, pool: int, audits: int) -> Fraction:
    """Returns the chance that `owned` of `pool` seats accept `audits` draws of one claim, whatever the others
    vote."""
    rest = pool - RANKS * audits
    if not 0 <= owned <= pool or rest < 0:
        raise InvalidInput(
            what="no such pool",
            expected=f"0 to {pool} own seats, at least {RANKS * audits} in all",
            actual=f"{owned} of {pool}",
            remedy="Draw from at least three seats for each draw of a claim.",
        )
    ways = _count_deciding(audits)
    hits = sum(count * comb(rest, owned - i) for i, count in enumerate(ways) if i <= owned)
    return Fraction(hits, comb(pool, owned))


@lru_cache(maxsize=1024)
def compute_deciding_chance(share: Fraction, least_pool: int, audits: int) -> Fraction:
    """Returns the chance that a cheat with at most `share` of a pool of at least `least_pool` seats accepts
    `audits` draws of one claim, at the worst size.

    Beyond the sizes that are tried: if the first of an honest primary's two reserves is own, the second is so
    less often. So both are own with chance at most (K / (V - 1))^2 <= (s V / (V - 1))^2, which falls with V.
    Draws of one claim share no seat, and an own seat in one draw is missing in the others. So all draws are
    decided at most as often as if they were independent."""
    last = least_pool + POOLS_TRIED
    tried = (compute_deciding_exact(count_owned(share, v), v, audits) for v in range(least_pool, last))
    both = min(share * last / (last - 1), Fraction(1)) ** 2
    return max(*tried, (share + (1 - share) * both) ** audits)


def compute_blind_chance(share: Fraction, audits: int) -> Fraction:
    """Returns the chance that no honest seat looks at any of `audits` draws of a claim, because all primaries
    are the cheat's. Seats are drawn without replacement, so the real chance is less in any pool."""
    return share**audits


def compute_fee_chance(share: Fraction, least_pool: int) -> Fraction:
    """Returns the least chance that a draw costs the cheat the UNSERVED fee if it serves only its own
    auditors. The draw does unless the cheat's auditors accept it.

    A primary of the cheat accepts at once, and then no other vote counts. Two reserves of the cheat leave one
    honest UNSERVED. In all other cases the primary and a reserve are honest, and both votes count, whatever
    the other reserve votes first: in a draw that has failed, an UNSERVED counts until its time is over."""
    return 1 - compute_deciding_chance(share, least_pool, 1)


def compute_paid_votes(share: Fraction, least_pool: int) -> Fraction:
    """Returns how many votes of a draw are the cheat's and paid, at most on average: the primary's alone if
    it accepts, else the votes of the cheat's reserves."""
    reserve = min(share * least_pool / (least_pool - 1), Fraction(1))
    return share + (1 - share) * 2 * reserve
