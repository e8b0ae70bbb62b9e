"""Shows the amounts of a task as a table: each with its bounds, and the rule that fixed it."""

from collections.abc import Sequence

from touchstone.protocol.economics.money_rules import MoneyRule
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.fitting_table import FittingTable

SHOWN_WEI = TOKEN_WEI // 10**6
"""Least amounts are shown rounded up to this."""
LETTERS = (
    "B: solver_pay. C: what it costs to compute a round. n: segments of a claim. S: solver_stake. "
    "A: auditor_stake. F: unserved_fee. f: dropped_fee. R: rounds whose fees a seat owes at once. "
    "Section 14 of docs/spec.md has the other letters, and each rule in full."
)
"""The letters in rules of amounts, with their meanings."""


def show_money(rules: Sequence[MoneyRule], console: Console) -> None:
    """Shows a table: each amount, its least (and most) value, and the inequality that fixed it."""
    table = FittingTable("", ("amount", "is", "at least", "because"))
    for rule in rules:
        found = format_tokens(rule.amount) + ("" if rule.holds else " (wrong)")
        most = "" if rule.greatest is None else f", at most {format_tokens(rule.greatest)}"
        least = -(-rule.least // SHOWN_WEI) * SHOWN_WEI
        table.add_row(rule.name, found, format_tokens(least) + most, rule.inequality)
    console.rich.print(table)
    console.rich.print(LETTERS, markup=False, highlight=False)
