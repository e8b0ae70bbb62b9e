"""Computes what a cheat gains by withholding data from auditors, and the fee and stake that deter it, in wei.

Symbols: B pay of a round, S stake of a solver, F fee of UNSERVED, and those of `assumptions.py`.

A solver that withholds data is not convicted. It pays F for each draw in which two honest auditors say so,
the primary and a reserve. So F limits the V that a task can withstand, or the task states a smaller V for
withholding.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from touchstone.protocol.economics.assumptions import Figures, read_sampling
from touchstone.protocol.economics.false_claims import list_cheats
from touchstone.protocol.economics.owned_auditors import (
    compute_deciding_chance,
    compute_fee_chance,
    compute_paid_votes,
)
from touchstone.protocol.spec.audit_draws import count_draws
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.pending_draws import count_pending_rounds
from touchstone.protocol.spec.game.terms import GameTerms


@dataclass(frozen=True)
class Withholding:
    """A way of withholding data from auditors. `accepted` is the chance that the claim is accepted anyway.
    `fees` is how many draws cost F on average, `most_fees` the most. `earned` is the pay if accepted.
    `spared` is subtracted from the gain: compute that the cheat spends and the honest round that it gives up,
    less the pay of its auditors."""

    accepted: Fraction
    fees: Fraction
    most_fees: int
    earned: Fraction
    spared: Fraction

    def compute_gain(self, gain: int) -> Fraction:
        """Returns what a round of this withholding gains before fees, for V = `gain`."""
        return self.accepted * (self.earned + gain) - self.spared


def list_withholdings(terms: GameTerms, figures: Figures) -> Iterator[Withholding]:
    """Yields the ways of withholding data from auditors. The first is a coalition that computes nothing and
    serves only its own auditors, compared with doing nothing; the longest claim is paid most. The others are
    false claims of every size, compared with honest work; their solvers serve only their own auditors if a
    false segment was drawn."""
    amounts, fee = terms.amounts, compute_fee_chance(figures.owned, terms.least_verifiers)
    votes = compute_paid_votes(figures.owned, terms.least_verifiers) * amounts.audit_pay
    audits = count_draws(terms.draws, terms.segment_count)
    accepted = compute_deciding_chance(figures.owned, terms.least_verifiers, audits)
    yield Withholding(accepted, audits * fee, audits, Fraction(amounts.solver_pay), -audits * votes)
    honest = amounts.solver_pay - figures.cost
    for cheat in list_cheats(read_sampling(terms, figures)):
        spared = cheat.computed * figures.cost + honest
        earned = cheat.paid * amounts.solver_pay
        yield Withholding(cheat.accepted, cheat.hits * fee, cheat.audits, earned, spared)


def compute_least_fee(terms: GameTerms, figures: Figures) -> int:
    """Returns the least F that exceeds the gain of any withholding, for the V that the task states for
    withholding."""
    gains = (
        (one.compute_gain(figures.assumed_withholding_gain), one.fees)
        for one in list_withholdings(terms, figures)
    )
    bounds = [_divide(gain, fees) for gain, fees in gains if gain > 0]
    return floor(max(bounds, default=Fraction(-1))) + 1


def _divide(gain: Fraction, fees: Fraction) -> Fraction:
    if not fees:
        raise InvalidInput(
            what="no fee deters a solver from withholding its data",
            expected="draws that the cheat's own auditors do not decide",
            actual="none",
            remedy="Wait for more verifiers, or assume that a cheat owns fewer.",
        )
    return gain / fees


def compute_taken_fees(terms: GameTerms, figures: Figures, withholding: Withholding) -> Fraction:
    """Returns a lower bound of the fees that a withholding seat pays in a round on average. In all rounds
    before the first fees are taken, the seat cannot pay more than its stake.

    X is the fees of these R rounds: min(S, X) >= min(S, l X) >= l X - (l X)^2 / (4 S) for every l up to 1,
    and E X^2 <= R x (m F + R x), where x is the average fees of a round, m F at most. The best l is 1, or 2 S
    / (m F + R x) if that is less."""
    stake, fees = terms.amounts.solver_stake, terms.amounts.unserved_fee * withholding.fees
    spread = _compute_spread(terms, figures, withholding)
    return fees * stake / spread if spread > 2 * stake else fees * (1 - spread / (4 * stake))


def _compute_spread(terms: GameTerms, figures: Figures, withholding: Withholding) -> Fraction:
    """Returns m F + R x, the measure of how far fees add up before the first are taken, in wei."""
    rounds = count_pending_rounds(terms, figures.round_blocks)
    return terms.amounts.unserved_fee * (withholding.most_fees + rounds * withholding.fees)


def compute_fee_stake(terms: GameTerms, figures: Figures) -> int:
    """Returns the least stake S that can pay fees which exceed the gain of any withholding. Withholding that
    F itself does not deter is left out, because another rule names it."""
    least = Fraction(0)
    for one in list_withholdings(terms, figures):
        gain, fees = one.compute_gain(figures.assumed_withholding_gain), terms.amounts.unserved_fee * one.fees
        if 0 < gain < fees:
            share = gain / fees if 2 * gain <= fees else fees / (4 * (fees - gain))
            least = max(least, share * _compute_spread(terms, figures, one))
    return ceil(least)
