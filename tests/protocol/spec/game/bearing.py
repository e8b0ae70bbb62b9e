"""What a false claim may be worth outside, at most, so that a task's amounts still deter it: the money rules
read backwards, against which they are tested."""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from touchstone.protocol.economics.assumptions import Figures, count_closing_rounds, read_sampling
from touchstone.protocol.economics.cheating_gains import (
    compute_lies,
    compute_paid_beyond,
    count_cheating_rounds,
)
from touchstone.protocol.economics.false_claims import list_cheats
from touchstone.protocol.economics.slashes import compute_burned
from touchstone.protocol.economics.withholding import compute_taken_fees, list_withholdings
from touchstone.protocol.spec.game.terms import GameTerms

UNBOUNDED = Fraction(1 << 128)
"""wei. Stands for any V: the cheat never gets through. More than any amount that a deployment allows."""


@dataclass(frozen=True)
class BorneGains:
    """The largest V in wei, by what deters: the solver's stake (a false claim that is served), the auditors'
    stake (voiding honest work), the fee (a false claim that is not served where that would show it), and the
    solver's pay (drift inside the limits of single steps). Zero where it deters nothing,
    UNBOUNDED where V does not matter."""

    false_claim: int
    lying_auditors: int
    refusal: int
    drift: int

    @property
    def least(self) -> int:
        """The V that the task bears whatever a cheat does, drift left out."""
        return min(self.false_claim, self.lying_auditors, self.refusal)


def compute_borne_gains(terms: GameTerms, figures: Figures) -> BorneGains:
    """V by what deters it. The V in the figures plays no part."""
    gains = {
        "false_claim": _bear_false_claims(terms, figures),
        "lying_auditors": _bear_lies(terms, figures),
        "refusal": _bear_refusals(terms, figures),
        "drift": _bear_drift(terms, figures),
    }
    return BorneGains(**{name: max(0, floor(gain)) for name, gain in gains.items()})


def _bear_false_claims(terms: GameTerms, figures: Figures) -> Fraction:
    burned = compute_burned(terms.amounts.solver_stake, terms.amounts.finder_cap)
    forgone = count_closing_rounds(terms, figures) * (terms.amounts.solver_pay - figures.cost)
    gains = [UNBOUNDED]
    for one in list_cheats(read_sampling(terms, figures)):
        rounds, computed = count_cheating_rounds(terms, figures, one), one.computed * figures.cost
        paid = compute_paid_beyond(terms, figures, one)
        single = min(one.caught * burned - paid, (burned - paid / one.caught + forgone) / rounds)
        if one.voided < 1:
            gains.append((min(burned / rounds, single) + computed) / (1 - one.voided))
    return min(gains)


def _bear_lies(terms: GameTerms, figures: Figures) -> Fraction:
    burned = compute_burned(terms.amounts.auditor_stake, terms.amounts.finder_cap)
    lies = 1 + compute_lies(terms, figures.owned) * count_closing_rounds(terms, figures)
    return 2 * (burned / lies - Fraction(figures.cost, terms.segment_count))


def _bear_refusals(terms: GameTerms, figures: Figures) -> Fraction:
    gains = [UNBOUNDED]
    for one in list_withholdings(terms, figures):
        if one.accepted:
            taken = compute_taken_fees(terms, figures, one)
            gains.append((taken + one.spared) / one.accepted - one.earned)
    return min(gains)


def _bear_drift(terms: GameTerms, figures: Figures) -> Fraction:
    if terms.is_exact:
        return UNBOUNDED
    pay, gains = terms.amounts.solver_pay, [UNBOUNDED]
    for one in list_cheats(read_sampling(terms, figures)):
        if one.voided < 1:
            gains.append((pay - figures.cost * (1 - one.paid)) / (1 - one.voided) - pay * one.paid)
    return min(gains)
