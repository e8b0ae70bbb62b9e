"""What a cheat gains: a solver by false claims or by drift, an auditor that lies or saves its replays.

Symbols are those of `money_rules.py`.
"""

from fractions import Fraction
from math import ceil

from touchstone.protocol.economics.assumptions import Figures, count_closing_rounds, read_sampling
from touchstone.protocol.economics.false_claims import Cheat, list_cheats
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.params import LATE_RATE_ONE, SPOT_ASKS


def compute_paid_beyond(terms: GameTerms, figures: Figures, cheat: Cheat) -> Fraction:
    """Returns what an undetected false claim earns, beyond what honest work earns in the round."""
    pay = terms.amounts.solver_pay
    return (1 - cheat.voided) * cheat.paid * pay - (pay - figures.cost)


def compute_burden(terms: GameTerms, figures: Figures, cheat: Cheat) -> Fraction:
    """Returns what a conviction must burn, for V = the figures': all that a false claim in each round gains
    until the seat is closed, its own compute subtracted. Or what a single false claim gains beyond honest
    work, if that is more: in its first round a seat has no other pay that a conviction burns, so none
    counts."""
    rounds = count_cheating_rounds(terms, figures, cheat)
    gain = (1 - cheat.voided) * figures.gain - cheat.computed * figures.cost
    single = (gain + compute_paid_beyond(terms, figures, cheat)) / cheat.caught
    beyond = gain - (terms.amounts.solver_pay - figures.cost)
    closing = count_closing_rounds(terms, figures)
    return max(rounds * gain, single + closing * max(beyond, Fraction(0)))


def count_cheating_rounds(terms: GameTerms, figures: Figures, cheat: Cheat) -> Fraction:
    """Returns 1/p + D: the average number of rounds until a false claim is detected, and until its seat is
    closed."""
    if not cheat.caught:
        raise InvalidInput(
            what="no stake deters a cheat that is never caught",
            expected="a chance of detection",
            actual=cheat,
            remedy="Draw more segments, or audit late.",
        )
    return 1 / cheat.caught + count_closing_rounds(terms, figures)


def compute_drift_pay(terms: GameTerms, figures: Figures) -> Fraction:
    """Returns the least B with which drift inside the limits of single steps does not pay. Drift voids a
    claim if auditors see it, and costs nothing else. Drift computes all that it claims."""
    if terms.is_exact or not figures.drift_gain:
        return Fraction(0)
    return max(_compute_drift_pay(figures, one) for one in list_cheats(read_sampling(terms, figures)))


def _compute_drift_pay(figures: Figures, cheat: Cheat) -> Fraction:
    """From (1 - p1) (B paid + V) - C paid <= B - C."""
    accepted = 1 - cheat.voided
    return (accepted * figures.drift_gain + figures.cost * (1 - cheat.paid)) / (1 - accepted * cheat.paid)


def compute_lies(terms: GameTerms, owned: Fraction) -> Fraction:
    """a: audits of a seat and round, on average, in which a lie counts, the worse of the two roles.

    A lie alone voids nothing: a draw fails by its primary and a reserve. Of the draws that have an own
    primary, a share of s (2 - s) or less has an own reserve too (for s up to a half). Each takes two lies."""
    pairs = owned * (2 - owned) if owned <= Fraction(1, 2) else Fraction(1)
    late = Fraction(terms.late_chance, LATE_RATE_ONE) / max(1, terms.least_whistleblowers)
    draws = max(Fraction(terms.draws, terms.least_verifiers), late)
    return 2 * draws * terms.solver_seats * pairs


def compute_least_auditor_burn(terms: GameTerms, figures: Figures) -> int:
    """Returns what a lying auditor must lose: half of what voiding honest work is worth, because two of three
    must lie, and a replay, in all audits until its seat is closed."""
    lie = Fraction(figures.gain, 2) + Fraction(figures.cost, terms.segment_count)
    return ceil(lie * (1 + compute_lies(terms, figures.owned) * count_closing_rounds(terms, figures)))


def compute_least_idler_burn(terms: GameTerms, figures: Figures) -> int:
    """Returns what an auditor must lose that seals noise, replays nothing and votes ACCEPT. It is the replays
    that it saves until an honest node asks for a leaf of its end, and from then until its seat is closed. In
    exact tasks its own opening convicts it."""
    late = Fraction(terms.late_chance, LATE_RATE_ONE) / max(1, terms.least_whistleblowers)
    audits = terms.solver_seats * max(Fraction(terms.draws, terms.least_verifiers), late)
    unasked = Fraction(0) if terms.is_exact else SPOT_ASKS / (1 - figures.owned)
    saved = Fraction(figures.cost, terms.segment_count)
    return ceil(saved * (unasked + audits * count_closing_rounds(terms, figures)))
