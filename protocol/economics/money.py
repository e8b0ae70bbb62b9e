"""What the amounts of a task must be, so that a cheat loses and honest work pays. Exact, in wei.

    terms  --- Sampling ----> cheats: p, p1, hits of every false claim --+
    figures (C, V, s, gas, rounds) --------------------------------------+--> rules: amount, least, inequality

Symbols: B pay of a round, S and A stakes of solver and auditor, F and f fees of UNSERVED and DROPPED, and
those of `refusing.py`. A false claim is accepted with chance 1 - p1. With chance 1 - p no honest auditor sees
that it is false.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from touchstone.protocol.economics.odds import Cheat, list_cheats
from touchstone.protocol.economics.refusing import (
    Figures,
    compute_fee_stake,
    compute_least_fee,
    count_closing_rounds,
    read_sampling,
)
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.pending_draws import count_pending_draws, count_round_draws
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.game.unserved_votes import UNSERVED_DIVISOR
from touchstone.protocol.spec.params import LATE_RATE_ONE, SPOT_ASKS

SHARE_DIVISOR = 4
"""Of a slash the finder and the submitter get at most a quarter each, so at least half is burned."""
BOND_FACTOR = 4
"""A bond is at least so many times the gas of an answer; half of it goes to who answers."""


@dataclass(frozen=True)
class MoneyRule:
    """One rule of one amount. inequality: in words. greatest: None where there is none. is_advice: who breaks
    it has to know it, but may."""

    name: str
    amount: int
    least: int
    inequality: str
    greatest: int | None = None
    is_advice: bool = False

    @property
    def holds(self) -> bool:
        """Whether the amount lies where it must."""
        return self.least <= self.amount and (self.greatest is None or self.amount <= self.greatest)


# --- Slashes ------------------------------------------------------------------------------------------------
def compute_burned(stake: int, finder_cap: int) -> int:
    """What a slash of `stake` takes from a cheat that is finder and submitter itself."""
    quarter = stake // SHARE_DIVISOR
    return stake - min(quarter, finder_cap) - quarter


def compute_stake_burning(burned: int, finder_cap: int) -> int:
    """The least stake from which on a slash burns at least `burned`: half of it, or three quarters less the
    finder's cap, whichever is more."""
    return max(0, min(2 * burned, ceil(Fraction(4 * (burned + finder_cap), 3))))


# --- What a cheat gains -------------------------------------------------------------------------------------
def compute_paid_beyond(terms: GameTerms, figures: Figures, cheat: Cheat) -> Fraction:
    """What a false claim is paid that is not detected, beyond what honest work earns in the round."""
    pay = terms.amounts.solver_pay
    return (1 - cheat.voided) * cheat.paid * pay - (pay - figures.cost)


def compute_burden(terms: GameTerms, figures: Figures, cheat: Cheat) -> Fraction:
    """What a conviction must burn, for V = the figures': all that a false claim in each round gains until the
    seat is closed, its own compute subtracted. Or what a single false claim gains beyond honest work, where
    that is more: in its first round a seat has no other pay that a conviction burns, so none counts."""
    rounds = count_cheating_rounds(terms, figures, cheat)
    gain = (1 - cheat.voided) * figures.gain - cheat.computed * figures.cost
    single = (gain + compute_paid_beyond(terms, figures, cheat)) / cheat.caught
    beyond = gain - (terms.amounts.solver_pay - figures.cost)
    closing = count_closing_rounds(terms, figures)
    return max(rounds * gain, single + closing * max(beyond, Fraction(0)))


def count_cheating_rounds(terms: GameTerms, figures: Figures, cheat: Cheat) -> Fraction:
    """1/p + D: rounds until a false claim is detected, on average, and until its seat is closed."""
    if not cheat.caught:
        raise InvalidInput(
            what="no stake deters a cheat that is never caught",
            expected="a chance of detection",
            actual=cheat,
            remedy="Draw more segments, or audit late.",
        )
    return 1 / cheat.caught + count_closing_rounds(terms, figures)


def compute_drift_pay(terms: GameTerms, figures: Figures) -> Fraction:
    """The least B with which drift inside the limits of single steps does not pay: it voids a claim where
    auditors see it, and costs nothing else. Drift computes all that it claims."""
    if terms.is_exact or not figures.drift_gain:
        return Fraction(0)
    return max(_compute_drift_pay(figures, one) for one in list_cheats(read_sampling(terms, figures)))


def _compute_drift_pay(figures: Figures, cheat: Cheat) -> Fraction:
    """From (1 - p1) (B paid + V) - C paid <= B - C."""
    accepted = 1 - cheat.voided
    return (accepted * figures.drift_gain + figures.cost * (1 - cheat.paid)) / (1 - accepted * cheat.paid)


# --- The rules ----------------------------------------------------------------------------------------------
def check_money(terms: GameTerms, figures: Figures) -> list[MoneyRule]:
    """Every rule with its amount and least. A node that joins wants all of them to hold that are no
    advice."""
    kinds = (_list_pays, _list_stakes, _list_fees, _list_bonds)
    return [rule for kind in kinds for rule in kind(terms, figures)]


def _list_pays(terms: GameTerms, figures: Figures) -> Iterator[MoneyRule]:
    amounts, gas = terms.amounts, figures.gas
    pay = Fraction(figures.cost + gas.solver_round) / (1 - figures.voided_share)
    rule = "B (1 - share of honest claims voided) >= C + gas of a round"
    yield MoneyRule("solver_pay", amounts.solver_pay, ceil(pay), rule)
    drift = ceil(compute_drift_pay(terms, figures))
    yield MoneyRule(
        "solver_pay", amounts.solver_pay, drift, "B (1 - (1 - p1) l) >= (1 - p1) V of drift + C (1 - l)"
    )
    audit = ceil(Fraction(figures.cost, terms.segment_count)) + gas.vote
    yield MoneyRule("audit_pay", amounts.audit_pay, audit, "pay >= C / n + gas of a vote")
    late = audit if terms.late_chance else 0
    yield MoneyRule("late_pay", amounts.late_pay, late, "pay >= C / n + gas of a vote")


def _list_stakes(terms: GameTerms, figures: Figures) -> Iterator[MoneyRule]:
    amounts, cap = terms.amounts, terms.amounts.finder_cap
    burden = max(compute_burden(terms, figures, one) for one in list_cheats(read_sampling(terms, figures)))
    stake = compute_stake_burning(max(0, ceil(burden)), cap)
    rule = "burned(S) >= (1/p + D) ((1 - p1) V - C'), and one false claim gains less than honest work"
    yield MoneyRule("solver_stake", amounts.solver_stake, stake, rule)
    rule = "S out of which F takes more than refusing gains, in the R rounds before the first fees are taken"
    yield MoneyRule("solver_stake", amounts.solver_stake, compute_fee_stake(terms, figures), rule)
    lie = compute_least_auditor_burn(terms, figures)
    rule = "burned(A) >= (V/2 + C/n) (1 + a D)"
    yield MoneyRule("auditor_stake", amounts.auditor_stake, compute_stake_burning(lie, cap), rule)
    idle = compute_least_idler_burn(terms, figures)
    rule = f"burned(A) >= C/n ({SPOT_ASKS} / (1 - s) + audits of a seat in D rounds)"
    yield MoneyRule("auditor_stake", amounts.auditor_stake, compute_stake_burning(idle, cap), rule)
    conviction, rule = figures.gas.conviction, "a quarter of it >= proving a fault"
    yield MoneyRule("solver_stake", amounts.solver_stake, SHARE_DIVISOR * conviction, rule)
    yield MoneyRule("auditor_stake", amounts.auditor_stake, SHARE_DIVISOR * conviction, rule)
    yield MoneyRule("finder_cap", cap, conviction, "cap >= proving a fault")
    yield from _list_fall_rules(terms, figures)


def _list_fall_rules(terms: GameTerms, figures: Figures) -> Iterator[MoneyRule]:
    """Who leads a wrong root to its leaf is paid once for all signers: the least majority of all seats."""
    amounts, fall = terms.amounts, figures.gas.fall
    signers = terms.solver_seats // 2 + 1
    rule = "a quarter of its signers' stakes >= contesting a wrong root"
    yield MoneyRule("solver_stake", amounts.solver_stake, ceil(Fraction(SHARE_DIVISOR * fall, signers)), rule)
    yield MoneyRule("finder_cap", amounts.finder_cap, fall, "cap >= contesting a wrong root")


def compute_lies(terms: GameTerms, owned: Fraction) -> Fraction:
    """a: audits of a seat and round, on average, in which a lie counts, the worse of the two roles.

    A lie alone voids nothing: a draw fails by its primary and a reserve. Of the draws that have an own
    primary, a share of s (2 - s) or less has an own reserve too (for s up to a half). Each takes two lies."""
    pairs = owned * (2 - owned) if owned <= Fraction(1, 2) else Fraction(1)
    late = Fraction(terms.late_chance, LATE_RATE_ONE) / max(1, terms.least_whistleblowers)
    draws = max(Fraction(terms.draws, terms.least_verifiers), late)
    return 2 * draws * terms.solver_seats * pairs


def compute_least_auditor_burn(terms: GameTerms, figures: Figures) -> int:
    """What a lying auditor must lose: half of what voiding honest work is worth, because two of three must
    lie, and a replay, in all audits until its seat is closed."""
    lie = Fraction(figures.gain, 2) + Fraction(figures.cost, terms.segment_count)
    return ceil(lie * (1 + compute_lies(terms, figures.owned) * count_closing_rounds(terms, figures)))


def compute_least_idler_burn(terms: GameTerms, figures: Figures) -> int:
    """What an auditor must lose that seals noise, replays nothing and says ACCEPT: the replays that it saves
    until an honest node asks for a leaf of its end, and from then until its seat is closed. In exact tasks
    its own opening convicts it."""
    late = Fraction(terms.late_chance, LATE_RATE_ONE) / max(1, terms.least_whistleblowers)
    audits = terms.solver_seats * max(Fraction(terms.draws, terms.least_verifiers), late)
    unasked = Fraction(0) if terms.is_exact else SPOT_ASKS / (1 - figures.owned)
    saved = Fraction(figures.cost, terms.segment_count)
    return ceil(saved * (unasked + audits * count_closing_rounds(terms, figures)))


def _list_fees(terms: GameTerms, figures: Figures) -> Iterator[MoneyRule]:
    amounts, fee = terms.amounts, terms.amounts.unserved_fee
    rule = "F x (draws that own auditors do not decide) > what refusing to serve gains, for every claim"
    yield MoneyRule("unserved_fee", fee, compute_least_fee(terms, figures), rule)
    for role in (SeatRole.VERIFIER, SeatRole.WHISTLEBLOWER):
        least = UNSERVED_DIVISOR * fee * count_round_draws(terms, role)
        rule = (
            f"half of A >= F x draws of a {role.name.lower()} in a round: it can say UNSERVED in all of them"
        )
        yield MoneyRule("auditor_stake", amounts.auditor_stake, least, rule)
        draws = count_pending_draws(terms, role, figures.round_blocks)
        rule = (
            f"A > F x draws of a {role.name.lower()} before fees are taken: it never has to ABSTAIN for money"
        )
        yield MoneyRule("auditor_stake", amounts.auditor_stake, fee * draws + 1, rule, is_advice=True)
    rule = "f between C and 2 C"
    yield MoneyRule("dropped_fee", amounts.dropped_fee, figures.cost, rule, greatest=2 * figures.cost)


def _list_bonds(terms: GameTerms, figures: Figures) -> Iterator[MoneyRule]:
    amounts, gas = terms.amounts, figures.gas
    bonds = {
        "ask_bond": (amounts.ask_bond, gas.answer),
        "dispute_bond": (amounts.dispute_bond, gas.defence),
        "contest_bond": (amounts.contest_bond, gas.contest),
    }
    for name, (bond, answers) in bonds.items():
        rule = f"bond >= {BOND_FACTOR} x gas of the answers that it can cause"
        yield MoneyRule(name, bond, BOND_FACTOR * answers, rule)
    dearest = max(bond for bond, _ in bonds.values())
    for name in ("solver_stake", "auditor_stake"):
        rule = "a seat costs at least every bond: who could take one can challenge"
        yield MoneyRule(name, getattr(amounts, name), dearest, rule)
