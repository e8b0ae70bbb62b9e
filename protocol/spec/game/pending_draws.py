"""Counts how many draws a seat can have before the fees of the first are taken.

Fees are taken at settlement, long after the vote, for sixteen rounds at once. Until then the stake does not
show them.
"""

from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.terms import (
    ANSWERS_MAX,
    EPOCH_ROUNDS,
    RING_ROUNDS,
    GameTerms,
    compute_duty_blocks,
)

ROUNDS_AHEAD = 2
"""How many rounds have their pools frozen before a settlement can take a seat out of them."""


def count_round_draws(terms: GameTerms, role: SeatRole) -> int:
    """Returns the most draws of a round in which one seat is primary or reserve, in any pool that can play.
    Draws use the places cyclically, each rank by itself."""
    if role == SeatRole.SOLVER or (role == SeatRole.WHISTLEBLOWER and not terms.late_chance):
        return 0
    if role == SeatRole.VERIFIER:
        return RANKS * -(-terms.draws * terms.solver_seats // terms.least_verifiers)
    return RANKS * -(-terms.solver_seats // terms.least_whistleblowers)


def compute_settling_blocks(terms: GameTerms, round_blocks: int) -> int:
    """Returns the most blocks from the close of a round until a seat can settle it. That is `get_duty_until`
    with late audits a round later, and then a dispute that is opened in its last block, perhaps by the seat's
    owner."""
    duty = round_blocks + compute_duty_blocks(terms.windows)
    return duty + 2 * ANSWERS_MAX * terms.windows.respond


def count_pending_rounds(terms: GameTerms, round_blocks: int) -> int:
    """Returns the most rounds whose fees a seat can owe at once. They are an epoch, which it settles as a
    whole, the rounds that close before the last of it settles, and those whose pools are frozen by then. This
    assumes that no contest is open and rounds take `round_blocks`. It never exceeds the places in the
    ring."""
    later = compute_settling_blocks(terms, round_blocks) // round_blocks
    return min(RING_ROUNDS, EPOCH_ROUNDS + later + ROUNDS_AHEAD)


def count_pending_draws(terms: GameTerms, role: SeatRole, round_blocks: int) -> int:
    """Returns the most draws of one seat before the fees of the first are taken."""
    return count_round_draws(terms, role) * count_pending_rounds(terms, round_blocks)
