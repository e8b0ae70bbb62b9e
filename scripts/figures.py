"""An operator's own figures, amounts by them, limits that it measured, and checks before money moves.

A value that is missing, unknown or misshapen is refused by its key.

The amounts of a task are judged by the table [economics]. A submitter writes it into the task file, a node
that joins a task into its `config.toml`. What the table leaves out follows from the task.

Before money moves, and beside what every node checks, terms must keep the operator's limits of a deployment,
and amounts its figures. An error names the task file's key.

By `touchstone policy` what operators measured becomes the limits of a task.
"""

import argparse
import tomllib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from touchstone.protocol.adapters.files.durable_files import replace_file
from touchstone.protocol.adapters.signed_profiles import read_profile
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.economics.gas_costs import price_gas
from touchstone.protocol.economics.money_rules import MoneyRule, check_money
from touchstone.protocol.spec.calibration_profile import Profile
from touchstone.protocol.spec.calibration_rules import MARGIN, compute_maxima, merge_profiles
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.game.presets import LIMITS
from touchstone.protocol.spec.game.terms import DeploymentLimits, GameAmounts, GameTerms, GameWindows
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.params import CHEAT_VERIFIER_SHARE_PERCENT, TAU_FRACTION_BITS, UNIT_EXPONENT
from touchstone.protocol.spec.task_spec import Limits
from touchstone.scripts.command_form import expect_known
from touchstone.scripts.console import Console, Document, parse_tokens, show_money
from touchstone.scripts.home import CONFIG_FILE

Container = TypeVar("Container")
ToUnits = Callable[[type, Mapping[str, Any]], Mapping[str, Any]]
"""(kind, table): the values of a table in the units of its dataclass."""


MAX_CHARACTERS = 4096
"""Of a text in a file: the longest path that Linux takes."""
MAX_BITS = 256
"""Of an integer in a file: what a contract holds."""
MAX_DEPTH = 4
MISSING_KEY = "the key is missing"
REMEDY = "Correct it there; `touchstone task example` writes a whole file."


def keep_units(kind: type, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values as they stand there."""
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """A whole file. Raises InvalidInput."""
    if not path.is_file():
        raise malformed(path, "", "a TOML file", "a folder" if path.is_dir() else "no such file")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise malformed(path, "", "a TOML file", f"{type(error).__name__}: {error}") from error
    refuse_long(path, document)
    return document


def refuse_long(path: Path, table: Mapping[str, Any], where: str = "") -> None:
    """Raises InvalidInput for the first value that is longer or deeper than any key takes: an error about it
    could not even show it. where: the keys above, each with a dot behind it."""
    waiting = deque((where + name, value, 1) for name, value in table.items())
    while waiting:
        key, value, depth = waiting.popleft()
        if isinstance(value, str) and len(value) > MAX_CHARACTERS:
            raise malformed(path, key, f"at most {MAX_CHARACTERS} characters", f"{len(value)} characters")
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise malformed(path, key, f"a number of at most {MAX_BITS} bits", f"{value.bit_length()} bits")
        if isinstance(value, Mapping | list) and depth == MAX_DEPTH:
            raise malformed(path, key, f"tables in tables, {MAX_DEPTH} at most", "more")
        if isinstance(value, Mapping):
            waiting.extend((f"{key}.{name}", one, depth + 1) for name, one in value.items())
        elif isinstance(value, list):
            waiting.extend((key, one, depth + 1) for one in value)


def build_container(
    kind: type[Container],
    values: Any,
    path: Path,
    where: str = "",
    to_units: ToUnits = keep_units,
) -> Container:
    """A dataclass from a table, nested tables included; floats become the nearest float32. where: the keys
    above, each with a dot behind it.

    Raises InvalidInput naming the key.
    """
    if not isinstance(values, Mapping):
        raise malformed(path, where.rstrip("."), "a table", repr(values))
    assert is_dataclass(kind)
    known, types = {field.name: field for field in fields(kind)}, get_type_hints(kind)
    for name in values:
        if name not in known:
            raise malformed(path, where + name, expect_known(name, known), "an unknown key")
    table, arguments = _convert_units(kind, values, path, where, to_units), {}
    for name, field in known.items():
        if name in table:
            arguments[name] = _convert(types[name], table[name], path, where + name, to_units)
        elif not _has_default(field):
            raise malformed(path, where + name, _describe(types[name]), MISSING_KEY)
    return kind(**arguments)


def _convert_units(
    kind: type, values: Mapping[str, Any], path: Path, where: str, to_units: ToUnits
) -> dict[str, Any]:
    """As `to_units`, one key at a time. Raises InvalidInput naming the key."""
    found = dict[str, Any]()
    for name, value in values.items():
        try:
            found |= to_units(kind, {name: value})
        except InvalidInput as refusal:
            raise malformed(path, where + name, str(refusal.expected), str(refusal.actual)) from refusal
    return found


def _describe(kind: type) -> str:
    """A type in words."""
    if is_dataclass(kind):
        return f"a table with {', '.join(field.name for field in fields(kind))}"
    return {bool: "true or false", int: "an integer", float: "a number", str: "text in quotes"}.get(
        kind, kind.__name__
    )


def malformed(path: Path, key: str, expected: str, actual: str) -> InvalidInput:
    """The error of one key; of the whole file where there is none."""
    return InvalidInput(
        what="the file is malformed",
        expected=expected,
        actual=actual,
        where=f"{path}, {key}" if key else str(path),
        remedy="Correct it there." if path.name == CONFIG_FILE else REMEDY,
    )


def _convert(kind: Any, value: Any, path: Path, where: str, to_units: ToUnits) -> Any:
    if kind is bool and isinstance(value, bool):
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        if isinstance(value, kind):
            # No file has such a value: it was made from what the file says.
            return value
        return build_container(kind, value, path, where + ".", to_units)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _to_float32(value, path, where)
    # bool is an int in Python, and no number of a file.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise malformed(path, where, _describe(kind), repr(value))
    return value


def _to_float32(value: float, path: Path, where: str) -> float:
    try:
        return nearest(float(value))
    except (ValueError, OverflowError, InvalidInput) as error:
        raise malformed(path, where, "a number that float32 holds", repr(value)) from error


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


COST_SHARE = Fraction(3, 10)
"""Of a solver's pay: the compute of its round, where nothing is stated."""
REFUSAL_SHARE = Fraction(1, 10)
"""Of the gain outside: what is to be borne against refusal to serve, where nothing is stated."""
GAS_PRICE_WEI = 10**11
"""wei of the task's token for one gas: a million gas is a tenth of a token."""
MONEY = ("compute_cost", "outside_gain", "refused_gain", "drift_gain", "proof_cost")
"""Keys that may be in whole tokens, in quotes. 0 is no amount of tokens: without quotes it is wei."""

BOUNDS: Mapping[str, tuple[int, int | None]] = {
    "owned_percent": (0, 99),
    "detected_percent": (1, 100),
    "voided_percent": (0, 99),
    "round_blocks": (1, None),
}
"""Least and greatest value of a key; of all others the least is 0."""


@dataclass(frozen=True)
class Stated:
    """The table [economics]; money in wei. Symbols and meanings: `protocol/economics/assumptions.py`.
    proof_cost: the replay and the trace that it takes to prove a fault."""

    compute_cost: int
    outside_gain: int
    refused_gain: int
    drift_gain: int
    proof_cost: int
    gas_price: int
    owned_percent: int
    detected_percent: int
    voided_percent: int
    round_blocks: int


def assume(terms: GameTerms) -> Stated:
    """What is assumed of a task where nothing is stated."""
    pay = terms.amounts.solver_pay
    return Stated(
        compute_cost=int(pay * COST_SHARE),
        outside_gain=pay,
        refused_gain=int(pay * REFUSAL_SHARE),
        drift_gain=0,
        proof_cost=0,
        gas_price=GAS_PRICE_WEI,
        owned_percent=CHEAT_VERIFIER_SHARE_PERCENT,
        detected_percent=100,
        voided_percent=0,
        round_blocks=terms.windows.train_min,
    )


def read_figures(table: Any, terms: GameTerms, path: Path) -> Figures:
    """The figures for a task from a table [economics], perhaps empty, of the file at `path`. Raises
    InvalidInput naming the key."""
    if not isinstance(table, Mapping):
        raise malformed(path, "economics", "a table", repr(table))
    refuse_long(path, table, "economics.")
    whole = {**asdict(assume(terms)), **table}
    stated = build_container(Stated, whole, path, "economics.", _to_wei)
    for name, value in asdict(stated).items():
        least, most = BOUNDS.get(name, (0, None))
        if value < least or (most is not None and value > most):
            bounds = f"{least} or more" if most is None else f"{least} to {most}"
            raise malformed(path, f"economics.{name}", bounds, str(value))
    try:
        return _make_figures(stated, terms)
    except InvalidInput as refusal:
        raise malformed(path, "economics", str(refusal.expected), repr(dict(table))) from refusal


def _to_wei(kind: type, table: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        name: parse_tokens(value) if name in MONEY and isinstance(value, str) else value
        for name, value in table.items()
    }


def _make_figures(stated: Stated, terms: GameTerms) -> Figures:
    sizes = (terms.solver_seats, terms.draws, terms.least_solvers)
    return Figures(
        cost=stated.compute_cost,
        gain=stated.outside_gain,
        round_blocks=stated.round_blocks,
        gas=price_gas(stated.gas_price, terms.contest_levels, stated.proof_cost, *sizes),
        refused_gain=stated.refused_gain,
        drift_gain=stated.drift_gain,
        voided_share=Fraction(stated.voided_percent, 100),
        owned=Fraction(stated.owned_percent, 100),
        detection=Fraction(stated.detected_percent, 100),
    )


def find_strictest(terms: GameTerms, figures: Figures) -> list[MoneyRule]:
    """Of every amount the rule that asks most of it, advice left out, and every other that is broken."""
    binding = [rule for rule in check_money(terms, figures) if not rule.is_advice]
    strictest = {rule.name: rule for rule in sorted(binding, key=lambda rule: rule.least)}
    return [rule for rule in binding if rule is strictest[rule.name] or not rule.holds]


SEALS = ("seal_blocks", "proof_seal_blocks", "seal_margin")
"""How long something can be proven. Less of it than an operator expects, and honest work comes too late."""


def name_key(name: str) -> str:
    """The key of the task file that sets a window, an amount or a number."""
    for table, kind in (("windows", GameWindows), ("amounts", GameAmounts)):
        if name in kind.__dataclass_fields__:
            return f"{table}.{name}"
    return {"segment_count": "inner_steps", "contest_levels": "model"}.get(name, name)


def refuse_bad_terms(terms: GameTerms, limits: DeploymentLimits, remedy: str) -> None:
    """Raises InvalidInput for the first rule of a deployment with these limits that the terms break."""
    refusal = check_terms(terms, limits)
    if refusal is None:
        return
    raise InvalidInput(
        what=f"the task breaks a limit of deployments of preset {limits.name}",
        expected=refusal.expected,
        actual=refusal.actual,
        where=name_key(str(refusal.expected).split()[0]),
        remedy=remedy,
    )


def refuse_other_limits(actual: DeploymentLimits, own: DeploymentLimits) -> None:
    """Raises InvalidInput where a deployment forgets sooner than its preset, so that honest proofs fail."""
    for name in SEALS:
        if getattr(actual, name) < getattr(own, name):
            raise InvalidInput(
                what="the contracts were deployed with other limits than this home expects",
                expected=f"{name} >= {getattr(own, name)} (preset {own.name})",
                actual=getattr(actual, name),
                where="limits in config.toml",
                remedy="Do not stake on this chain; or set `limits` to the preset for its time of a block.",
            )


def tell_other_limits(actual: DeploymentLimits, own: str) -> str:
    """Returns how the preset of a home, own, is another than the deployment's, and what to do; empty where it
    is not."""
    if actual.name == own:
        return ""
    if actual.name not in LIMITS:
        return f"the deployment has limits of its own, this home judges tasks by {own}"
    return (
        f'the deployment has the limits {actual.name}, this home has {own}: set limits = "'
        f'{actual.name}" in config.toml, or its commands refuse the chain or judge tasks by other windows'
    )


def refuse_bad_money(
    terms: GameTerms, figures: Figures, console: Console, remedy: str
) -> Sequence[MoneyRule]:
    """Show why each amount is what it is; returns that. Raises InvalidInput where under these cheating would
    pay, or honest work would not."""
    rules = find_strictest(terms, figures)
    show_money(rules, console)
    broken = [rule for rule in rules if not rule.holds]
    if broken:
        raise InvalidInput(
            what="under these amounts cheating pays, or honest work does not",
            expected="; ".join(f"{_tell_bounds(rule)} ({rule.inequality})" for rule in broken),
            actual="; ".join(f"{rule.name} {rule.amount} wei" for rule in broken),
            where=", ".join(sorted({name_key(rule.name) for rule in broken})),
            remedy=remedy,
        )
    return rules


def describe_money(rules: Sequence[MoneyRule]) -> list[Document]:
    """The same as JSON has it: each amount, its bounds (an empty text: no upper one), and why."""
    return [
        {
            "name": rule.name,
            "amount_wei": str(rule.amount),
            "least_wei": str(rule.least),
            "greatest_wei": "" if rule.greatest is None else str(rule.greatest),
            "because": rule.inequality,
        }
        for rule in rules
    ]


def _tell_bounds(rule: MoneyRule) -> str:
    most = "" if rule.greatest is None else f" and <= {rule.greatest} wei"
    return f"{rule.name} >= {rule.least} wei{most}"


def run_policy(options: argparse.Namespace) -> Document:
    """Merge signed profiles into limits, in the form of a task file."""
    profiles = [read_profile(path) for path in options.profiles]
    limits = merge_profiles(profiles)
    text = render_policy(profiles, limits)
    if options.out:
        replace_file(options.out, text.encode())
    print(text, end="")
    operators = [profile.operator for profile in profiles]
    return {"operators": operators, "limits": {name: str(value) for name, value in vars(limits).items()}}


def render_policy(profiles: list[Profile], limits: Limits) -> str:
    """The table `[limits]`, and above it what it rests on."""
    subject, lines = profiles[0].subject, []
    lines.append(f"# {MARGIN} times the largest honest distance of these profiles")
    lines.append(f"# training {subject.training}, {subject.numeric_format}, k = {subject.segment_steps}")
    for profile in profiles:
        maxima = ", ".join(f"{float(value):.3g}" for value in compute_maxima(profile))
        counts = f"{profile.segments} segments, {len(profile.configurations)} configurations"
        lines.append(f"# {profile.operator}: {counts}, maxima {maxima} ({profile.machine})")
    lines += ["", "[limits]", *_render_limits(limits)]
    return "\n".join(lines) + "\n"


def _render_limits(limits: Limits) -> list[str]:
    """As integers in the units of docs/spec.md, section 6, where nothing is rounded; a comment says how much
    that is. TOML's integers have 64 bits with the sign, Python's reader takes them of any size."""
    return [
        f"{name} = {value}  # {value * 2.0 ** _get_unit(name):.3g}" for name, value in vars(limits).items()
    ]


def _get_unit(name: str) -> int:
    return -TAU_FRACTION_BITS if name.startswith("tau_") else UNIT_EXPONENT
