"""Amounts derived from figures: the least that satisfy every rule of `protocol/spec/game/money.py`."""

from dataclasses import fields, replace
from fractions import Fraction
from math import ceil

from protocol.spec.errors import InvalidInput
from protocol.spec.game.figures import Figures, GasCosts
from protocol.spec.game.money import MoneyRule, check_money
from protocol.spec.game.refusing import compute_least_fee
from protocol.spec.game.terms import SOLVER_SEATS_MAX, GameAmounts, GameTerms
from protocol.spec.params import TOKEN_WEI

FEE_MARGIN = Fraction(2)
"""F is so many times its least. Close to the least, the stake that fees are taken out of grows without end.
From twice the least on it is smallest: what a refusal gains in R rounds, and a little more."""

# --- Gas, until the contracts of the new round are measured (docs/decisions/0013, 0019, 0027) ---------------
SOLVER_ROUND_GAS = 200_000
VOTE_GAS = 110_000
"""A vote that its auditor hands in alone; in a full page it is 19,000."""
ANSWER_GAS = 200_000
DEFENCE_GAS = 500_000
CONTEST_LEVEL_GAS = 150_000
CONTEST_LEAF_GAS = 190_000
"""For each claim: to compute a leaf of 64 takes 11.95 million (docs/decisions/0029)."""
CONVICTION_GAS = 1_300_000


def price_gas(
    gas_price: int, contest_levels: int, look: int, solver_seats: int = SOLVER_SEATS_MAX
) -> GasCosts:
    """Gas costs at `gas_price` wei of the task's token for one gas. look: replay and trace that it takes to
    prove a fault, in wei. A contest of a right root goes down to a leaf, and somebody honest computes it."""
    contest = (contest_levels + 1) * CONTEST_LEVEL_GAS + solver_seats * CONTEST_LEAF_GAS
    return GasCosts(
        solver_round=SOLVER_ROUND_GAS * gas_price,
        vote=VOTE_GAS * gas_price,
        answer=ANSWER_GAS * gas_price,
        defence=DEFENCE_GAS * gas_price,
        contest=contest * gas_price,
        conviction=CONVICTION_GAS * gas_price + look,
    )


def derive_amounts(
    terms: GameTerms, figures: Figures, unit: int = TOKEN_WEI // 1000, fee_margin: Fraction = FEE_MARGIN
) -> GameTerms:
    """The terms with the least amounts that satisfy every rule which is no advice, rounded up to whole
    `unit`s. The pay B is the terms' own, or the least where that is more. Raises InvalidInput where none do.

    Pays and bonds follow from figures alone, F from the pays, both stakes from F and the rest."""
    least = {field.name: 1 for field in fields(GameAmounts) if field.name != "solver_pay"}
    least |= {"dropped_fee": figures.cost, "finder_cap": figures.gas.conviction}
    flat = ("solver_pay", "audit_pay", "late_pay", "ask_bond", "dispute_bond", "contest_bond")
    found = _raise_to_least(_set(terms, unit, **least), figures, unit, flat)
    fee = ceil(compute_least_fee(found, figures) * fee_margin)
    found = _set(found, unit, unserved_fee=fee)
    found = _raise_to_least(found, figures, unit, ("solver_stake", "auditor_stake"))
    refuse_bad_money(found, figures)
    return found


def _raise_to_least(terms: GameTerms, figures: Figures, unit: int, names: tuple[str, ...]) -> GameTerms:
    leasts: dict[str, int] = {}
    for rule in list_binding(check_money(terms, figures)):
        if rule.name in names:
            leasts[rule.name] = max(leasts.get(rule.name, rule.amount), rule.least)
    return _set(terms, unit, **leasts)


def _set(terms: GameTerms, unit: int, **amounts: int) -> GameTerms:
    rounded = {name: -(-wei // unit) * unit for name, wei in amounts.items()}
    return replace(terms, amounts=replace(terms.amounts, **rounded))


def list_binding(rules: list[MoneyRule]) -> list[MoneyRule]:
    """Those that are no advice."""
    return [rule for rule in rules if not rule.is_advice]


def refuse_bad_money(terms: GameTerms, figures: Figures) -> None:
    """Raises InvalidInput that names every broken rule which is no advice."""
    broken = [rule for rule in list_binding(check_money(terms, figures)) if not rule.holds]
    if broken:
        raise InvalidInput(
            what="under these amounts cheating pays, or honest work does not",
            expected="; ".join(f"{rule.name} >= {rule.least} ({rule.inequality})" for rule in broken),
            actual="; ".join(f"{rule.name} {rule.amount}" for rule in broken),
            where=", ".join(sorted({rule.name for rule in broken})),
            remedy="Raise them, state a smaller V against refusal, or let them be derived.",
        )
