"""Says what the amounts of a task must be, so that cheats lose and honest work pays. Exact, in wei.

    terms --- Sampling ----> cheats: p, p1, hits of every false claim --+
    figures (C, V, s, gas, rounds) --------------------------------------+--> rules: amount, least, inequality

Symbols: B pay of a round, S and A stakes of solver and auditor, F and f fees of UNSERVED and DROPPED, and
those of `assumptions.py`. A false claim is accepted with chance 1 - p1. With chance 1 - p no honest auditor
sees that it is false.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from touchstone.protocol.economics.assumptions import Figures, read_sampling
from touchstone.protocol.economics.cheating_gains import (
    compute_burden,
    compute_drift_pay,
    compute_least_auditor_burn,
    compute_least_idler_burn,
)
from touchstone.protocol.economics.false_claims import list_cheats
from touchstone.protocol.economics.slashes import SHARE_DIVISOR, compute_stake_burning
from touchstone.protocol.economics.withholding import compute_fee_stake, compute_least_fee
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.pending_draws import count_pending_draws, count_round_draws
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.game.unserved_votes import UNSERVED_DIVISOR
from touchstone.protocol.spec.params import SPOT_QUERIES

BOND_FACTOR = 4
"""A bond is at least this many times the gas of an answer, because half of the bond goes to the account that
answers."""


@dataclass(frozen=True)
class MoneyRule:
    """One rule for one amount. `inequality` is the rule in words. `greatest` is None if there is no upper
    bound. `is_advice` says that a task may break the rule, but its submitter must know."""

    name: str
    amount: int
    least: int
    inequality: str
    greatest: int | None = None
    is_advice: bool = False

    @property
    def holds(self) -> bool:
        """Whether the amount is within its bounds."""
        return self.least <= self.amount and (self.greatest is None or self.amount <= self.greatest)


def check_money(terms: GameTerms, figures: Figures) -> list[MoneyRule]:
    """Returns every rule with its amount and least value. A node joins only if all rules hold except mere
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
    rule = "S covers all fees that a solver can owe before the first are collected (R rounds)"
    yield MoneyRule("solver_stake", amounts.solver_stake, compute_fee_stake(terms, figures), rule)
    lie = compute_least_auditor_burn(terms, figures)
    rule = "burned(A) >= (V/2 + C/n) (1 + a D)"
    yield MoneyRule("auditor_stake", amounts.auditor_stake, compute_stake_burning(lie, cap), rule)
    idle = compute_least_idler_burn(terms, figures)
    rule = f"burned(A) >= C/n ({SPOT_QUERIES} / (1 - s) + audits of a seat in D rounds)"
    yield MoneyRule("auditor_stake", amounts.auditor_stake, compute_stake_burning(idle, cap), rule)
    conviction, rule = figures.gas.conviction, "a quarter of it >= cost of proving a fault"
    yield MoneyRule("solver_stake", amounts.solver_stake, SHARE_DIVISOR * conviction, rule)
    yield MoneyRule("auditor_stake", amounts.auditor_stake, SHARE_DIVISOR * conviction, rule)
    yield MoneyRule("finder_cap", cap, conviction, "cap >= cost of proving a fault")
    yield from _list_fall_rules(terms, figures)


def _list_fall_rules(terms: GameTerms, figures: Figures) -> Iterator[MoneyRule]:
    """Returns the rules for a fallen root. Its contester is paid once for all signers, who are at least a
    majority of all seats."""
    amounts, fall = terms.amounts, figures.gas.fall
    signers = terms.solver_seats // 2 + 1
    rule = "a quarter of the signers' stakes >= cost of contesting a wrong root"
    yield MoneyRule("solver_stake", amounts.solver_stake, ceil(Fraction(SHARE_DIVISOR * fall, signers)), rule)
    yield MoneyRule("finder_cap", amounts.finder_cap, fall, "cap >= cost of contesting a wrong root")


def _list_fees(terms: GameTerms, figures: Figures) -> Iterator[MoneyRule]:
    amounts, fee = terms.amounts, terms.amounts.unserved_fee
    rule = "F x (draws that the cheat's auditors do not decide) > gain of withholding data, for every claim"
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
        "query_bond": (amounts.query_bond, gas.answer),
        "dispute_bond": (amounts.dispute_bond, gas.defence),
        "contest_bond": (amounts.contest_bond, gas.contest),
    }
    for name, (bond, answers) in bonds.items():
        rule = f"bond >= {BOND_FACTOR} x gas of the answers that it can cause"
        yield MoneyRule(name, bond, BOND_FACTOR * answers, rule)
    dearest = max(bond for bond, _ in bonds.values())
    for name in ("solver_stake", "auditor_stake"):
        rule = "a seat costs at least every bond: an account that could take a seat can challenge"
        yield MoneyRule(name, getattr(amounts, name), dearest, rule)
