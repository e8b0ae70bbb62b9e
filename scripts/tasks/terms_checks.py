"""Checks a task's terms before money moves.

Terms must keep the rules of every node and the operator's bounds of a deployment; amounts must fit the
operator's figures. An error names the task file's key.
"""

from collections.abc import Sequence

from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.economics.money_rules import MoneyRule, check_money
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS
from touchstone.protocol.spec.game.terms import DeploymentBounds, GameAmounts, GameTerms, GameWindows
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.scripts.command_line.amount_table import show_money
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.posting_documents import AmountDocument


def find_strictest(terms: GameTerms, figures: Figures) -> list[MoneyRule]:
    """Returns, for every amount, the rule with the highest bound (without advice), and every other broken
    rule."""
    binding = [rule for rule in check_money(terms, figures) if not rule.is_advice]
    strictest = {rule.name: rule for rule in sorted(binding, key=lambda rule: rule.least)}
    return [rule for rule in binding if rule is strictest[rule.name] or not rule.holds]


SEALS = ("header_blocks", "proof_commit_blocks", "draw_margin")
"""Windows within which something can be proven. If they are shorter than an operator expects, an honest proof
comes too late."""


def name_key(name: str) -> str:
    """Returns the key of the task file that sets a window, an amount or a number."""
    for table, kind in (("windows", GameWindows), ("amounts", GameAmounts)):
        if name in kind.__dataclass_fields__:
            return f"{table}.{name}"
    return {"segment_count": "inner_steps", "contest_levels": "model"}.get(name, name)


def refuse_bad_terms(terms: GameTerms, bounds: DeploymentBounds, remedy: str) -> None:
    """Raises InvalidInput for the first rule of a deployment with these bounds that the terms break."""
    refusal = check_terms(terms, bounds)
    if refusal is None:
        return
    raise InvalidInput(
        what=f"the task breaks a limit of deployments of preset {bounds.name}",
        expected=refusal.expected,
        actual=refusal.actual,
        where=name_key(str(refusal.expected).split()[0]),
        remedy=remedy,
    )


def refuse_other_bounds(actual: DeploymentBounds, own: DeploymentBounds) -> None:
    """Raises InvalidInput if a deployment forgets sooner than its preset, so that honest proofs would
    fail."""
    for name in SEALS:
        if getattr(actual, name) < getattr(own, name):
            raise InvalidInput(
                what="the contracts were deployed with other bounds than this home expects",
                expected=f"{name} >= {getattr(own, name)} (preset {own.name})",
                actual=getattr(actual, name),
                where="preset in config.toml",
                remedy="Do not stake on this chain; or set `preset` to the one for its block time.",
            )


def describe_other_bounds(actual: DeploymentBounds, own: str) -> str:
    """Describes how the preset of a home differs from the deployment's bounds, and what to do; empty if it
    does not."""
    if actual.name == own:
        return ""
    if actual.name not in BOUNDS:
        return f"the deployment has bounds of its own, this home judges tasks by {own}"
    return (
        f'the deployment has the bounds {actual.name}, this home has {own}: set preset = "'
        f'{actual.name}" in config.toml, or its commands refuse the chain or judge tasks by other windows'
    )


def refuse_bad_money(
    terms: GameTerms, figures: Figures, console: Console | None, remedy: str
) -> Sequence[MoneyRule]:
    """Returns why each amount is what it is, and shows it on a console if there is one. Raises InvalidInput
    if cheating would pay under these amounts, or honest work would not."""
    rules = find_strictest(terms, figures)
    if console is not None:
        show_money(rules, console)
    broken = [rule for rule in rules if not rule.holds]
    if broken:
        raise InvalidInput(
            what="under these amounts cheating pays, or honest work does not pay",
            expected="; ".join(f"{_format_bounds(rule)} ({rule.inequality})" for rule in broken),
            actual="; ".join(f"{rule.name} {rule.amount} wei" for rule in broken),
            where=", ".join(sorted({name_key(rule.name) for rule in broken})),
            remedy=remedy,
        )
    return rules


def describe_amounts(rules: Sequence[MoneyRule]) -> list[AmountDocument]:
    """Returns the amounts for a JSON document: each with its bounds (an empty text means no upper one), and
    the reason."""
    return [
        AmountDocument(
            name=rule.name,
            amount_wei=str(rule.amount),
            least_wei=str(rule.least),
            greatest_wei="" if rule.greatest is None else str(rule.greatest),
            because=rule.inequality,
        )
        for rule in rules
    ]


def _format_bounds(rule: MoneyRule) -> str:
    most = "" if rule.greatest is None else f" and <= {rule.greatest} wei"
    return f"{rule.name} >= {rule.least} wei{most}"
