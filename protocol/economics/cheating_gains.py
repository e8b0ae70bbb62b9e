"""Computes what a cheat gains: a solver by false claims or drift, an auditor by lies or saved replays.

Symbols: see `money_rules.py`.
"""

from fractions import Fraction
from math import ceil

from touchstone.protocol.economics.assumptions import Figures, count_closing_rounds, read_sampling
from touchstone.protocol.economics.false_claims import Cheat, list_cheats
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.params import LATE_RATE_ONE, SPOT_QUERIES


def compute_paid_beyond(terms: GameTerms, figures: Figures, cheat: Cheat) -> Fraction:
    """Returns how much more an undetected false claim earns than honest work in the same round."""
    pay = terms.amounts.solver_pay
    return (1 - cheat.voided) * cheat.paid * pay - (pay - figures.cost)


def compute_burden(terms: GameTerms, figures: Figures, cheat: Cheat) -> Fraction:
    """Returns what a conviction must burn. That is all that false claims in every round gain until the seat
    is closed, less their compute, for the V of the figures. Or it is what a single false claim gains beyond
    honest work, if that is more: in its first round a seat has no pay that a conviction could burn."""
    rounds = count_cheating_rounds(terms, figures, cheat)
    gain = (1 - cheat.voided) * figures.gain - cheat.computed * figures.cost
    single = (gain + compute_paid_beyond(terms, figures, cheat)) / cheat.caught
    beyond = gain - (terms.amounts.solver_pay - figures.cost)
    closing = count_closing_rounds(terms, figures)
    return max(rounds * gain, single + closing * max(beyond, Fraction(0)))


def count_cheating_rounds(terms: GameTerms, figures: Figures, cheat: Cheat) -> Fraction:
    """Returns 1/p + D: the average number of rounds until a false claim is detected, and then until its seat
    is closed."""
    if not cheat.caught:
        raise InvalidInput(
            what="no stake deters a cheat that is never caught",
            expected="a chance of detection",
            actual=cheat,
            remedy="Draw more segments, or audit late.",
        )
    return 1 / cheat.caught + count_closing_rounds(terms, figures)


def compute_drift_pay(terms: GameTerms, figures: Figures) -> Fraction:
    """Returns the least B at which drift within the limits of single steps does not pay. A solver that drifts
    loses the claim if auditors see it, and nothing else. It computes all steps that it claims."""
    if terms.is_exact or not figures.drift_gain:
        return Fraction(0)
    return max(_compute_drift_pay(figures, one) for one in list_cheats(read_sampling(terms, figures)))


def _compute_drift_pay(figures: Figures, cheat: Cheat) -> Fraction:
    """Solves (1 - p1) (B paid + V) - C paid <= B - C for B."""
    accepted = 1 - cheat.voided
    return (accepted * figures.drift_gain + figures.cost * (1 - cheat.paid)) / (1 - accepted * cheat.paid)


def compute_lies(terms: GameTerms, owned: Fraction) -> Fraction:
    """Returns a: the average number of a seat's audits in a round in which a lie counts, for the worse of the
    two roles.

    A lie alone voids nothing, because a draw fails by its primary and a reserve. Of the draws whose primary
    is the cheat's, a share of at most s (2 - s) also has a reserve of the cheat's (for s up to a half).
    Voiding such a draw takes two lies."""
    pairs = owned * (2 - owned) if owned <= Fraction(1, 2) else Fraction(1)
    late = Fraction(terms.late_chance, LATE_RATE_ONE) / max(1, terms.least_whistleblowers)
    draws = max(Fraction(terms.draws, terms.least_verifiers), late)
    return 2 * draws * terms.solver_seats * pairs


def compute_least_auditor_burn(terms: GameTerms, figures: Figures) -> int:
    """Returns what a lying auditor must lose. For each audit until its seat is closed, that is half of the
    value of voiding honest work, because two of three auditors must lie, plus the cost of a replay."""
    lie = Fraction(figures.gain, 2) + Fraction(figures.cost, terms.segment_count)
    return ceil(lie * (1 + compute_lies(terms, figures.owned) * count_closing_rounds(terms, figures)))


def compute_least_idler_burn(terms: GameTerms, figures: Figures) -> int:
    """Returns what an idle auditor must lose, which seals noise, replays nothing and votes ACCEPT. That is
    the cost of the replays that it saves until an honest node queries a leaf of its end, and from then until
    its seat is closed. In exact tasks its own opening convicts it."""
    late = Fraction(terms.late_chance, LATE_RATE_ONE) / max(1, terms.least_whistleblowers)
    audits = terms.solver_seats * max(Fraction(terms.draws, terms.least_verifiers), late)
    unasked = Fraction(0) if terms.is_exact else SPOT_QUERIES / (1 - figures.owned)
    saved = Fraction(figures.cost, terms.segment_count)
    return ceil(saved * (unasked + audits * count_closing_rounds(terms, figures)))
