"""Derives amounts from figures: the least amounts that satisfy every rule of `economics/money_rules.py`."""

from dataclasses import fields, replace
from fractions import Fraction
from math import ceil

from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.economics.money_rules import MoneyRule, check_money
from touchstone.protocol.economics.withholding import compute_least_fee
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms
from touchstone.protocol.spec.params import TOKEN_WEI

FEE_MARGIN = Fraction(2)
"""The fee F is set to this many times its least value. Just above the least value, the stake that pays the
fees would be unlimited. From twice the least value on the stake is smallest: a little more than withholding
data gains in R rounds."""


def derive_amounts(
    terms: GameTerms,
    figures: Figures,
    unit: int = TOKEN_WEI // 1000,
    fee_margin: Fraction = FEE_MARGIN,
    least_bond_wei: int = 1,
) -> GameTerms:
    """Returns the terms with the least amounts that satisfy every binding rule, rounded up to whole `unit`s.
    The pay B is the terms' own, or the least if that is more, so a caller that stated a pay must compare.
    `least_bond_wei` is the deployment's minimum for every bond and stake. Raises InvalidInput if no amounts
    satisfy the rules.

    Pays and bonds follow from figures alone, F from the pays, both stakes from F and the rest."""
    kept = ("solver_pay", "dropped_fee")
    names = [field.name for field in fields(GameAmounts) if field.name not in kept]
    least = {name: least_bond_wei if name.endswith(("_bond", "_stake")) else 1 for name in names}
    gas = figures.gas
    least |= {"finder_cap": max(gas.conviction, gas.fall)}
    flat = ("solver_pay", "audit_pay", "late_pay", "query_bond", "dispute_bond", "contest_bond")
    # It lies between C and 2 C, so rounding to a unit above C would exceed it.
    fine = _set(terms, min(unit, max(1, figures.cost)), dropped_fee=figures.cost)
    found = _raise_to_least(_set(fine, unit, **least), figures, unit, flat)
    fee = ceil(compute_least_fee(found, figures) * fee_margin)
    found = _set(found, unit, unserved_fee=fee)
    found = _raise_to_least(found, figures, unit, ("solver_stake", "auditor_stake"))
    refuse_bad_money(found, figures)
    return found


def _raise_to_least(terms: GameTerms, figures: Figures, unit: int, names: tuple[str, ...]) -> GameTerms:
    """Returns the terms with each amount that breaks a rule raised to its least. Other amounts stay as they
    are, even between two units."""
    leasts: dict[str, int] = {}
    for rule in list_binding(check_money(terms, figures)):
        if rule.name in names and not rule.holds:
            leasts[rule.name] = max(leasts.get(rule.name, rule.amount), rule.least)
    return _set(terms, unit, **leasts)


def _set(terms: GameTerms, unit: int, **amounts: int) -> GameTerms:
    rounded = {name: -(-wei // unit) * unit for name, wei in amounts.items()}
    return replace(terms, amounts=replace(terms.amounts, **rounded))


def list_binding(rules: list[MoneyRule]) -> list[MoneyRule]:
    """Returns the rules that are not merely advice."""
    return [rule for rule in rules if not rule.is_advice]


def refuse_bad_money(terms: GameTerms, figures: Figures) -> None:
    """Raises InvalidInput with every broken rule that is not merely advice."""
    broken = [rule for rule in list_binding(check_money(terms, figures)) if not rule.holds]
    if broken:
        raise InvalidInput(
            what="under these amounts cheating pays, or honest work does not",
            expected="; ".join(f"{rule.name} >= {rule.least} ({rule.inequality})" for rule in broken),
            actual="; ".join(f"{rule.name} {rule.amount}" for rule in broken),
            where=", ".join(sorted({rule.name for rule in broken})),
            remedy="Raise these amounts, state a smaller V for withholding, or let the amounts be derived.",
        )
