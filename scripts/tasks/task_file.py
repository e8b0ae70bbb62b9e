"""Reads a task file (TOML) as the plan of a task: presets first, then what the file says.

Unknown keys are refused.

    dataset = "corpus"              # a folder of `touchstone data pack`, or a raw file of one byte a token
    preset = "local"                # windows for this block time: 12s, 2s or local
    rounds = 4
    solver_seats = 8                # how many solvers train in a round
    draws = 2                       # audits of each claim
    ...                             # every number of node.submit.RoundPlan
    [model]                         # and the tables model, schedule, optimizer, limits
    hidden_size = 128               # or `step` alone: `named_step.py`
    [windows]                       # single windows (blocks) may differ from the preset
    train_min = 90
    [amounts]
    solver_pay = "12.5"             # whole tokens; a number without quotes is wei
    [economics]                     # what the amounts are checked against; each has a default
    amounts = "derived"             # all amounts but solver_pay follow from these figures; it is never raised
    compute_cost = "3"              # tokens that the compute of one solver's round costs
    [limits]
    tau_m = 1e-4                    # real numbers; an integer is in the units of docs/spec.md, section 6

`touchstone task example` writes a complete file.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from touchstone.node.submit import RoundPlan
from touchstone.protocol.economics.amounts import derive_amounts
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.logged_terms import count_contest_levels
from touchstone.protocol.spec.game.presets import BOUNDS, BOUNDS_LOCAL, GAME_WINDOWS
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms, GameWindows
from touchstone.protocol.spec.params import (
    FORMAT_ALIASES,
    OFFERED_FORMATS,
    PRODUCT_BITS,
    TAU_FRACTION_BITS,
    UNIT_EXPONENT,
)
from touchstone.protocol.spec.task_spec import Limits
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.command_line.typed_amounts import parse_tokens
from touchstone.scripts.command_line.typed_input import expect_known, read_path
from touchstone.scripts.data.packed_dataset import PackedDataset, open_dataset
from touchstone.scripts.tasks.decoder_table import record_sizes
from touchstone.scripts.tasks.end_of_text import set_end_of_text
from touchstone.scripts.tasks.figures import read_figures
from touchstone.scripts.tasks.named_step import STEP_OWNS, NamedStep, take_step
from touchstone.scripts.tasks.plan_rules import refuse_bad_plan, refuse_other_tokens
from touchstone.scripts.tasks.terms_checks import refuse_bad_terms
from touchstone.scripts.tasks.toml_tables import MISSING_KEY, build_container, malformed, read_toml

GIVEN, DERIVED = "given", "derived"
TOP_KEYS = ("dataset", "preset", "economics")
"""The keys of a task file besides those of a plan."""
LIMITS_TABLE = 'the table of what counts as noise, or numeric_format = "exact", which needs none'
A_DATASET = "the path of a folder or a file, relative to this one"
LEAST_PAY_LOOKS = 24
"""The most tries to find the least pay. At the default cost, three tenths of the pay, each try is three times
as close as the last one."""


@dataclass(frozen=True)
class TaskFile:
    """The contents of a task file: the plan, the figures by which its amounts are judged, the file of the
    dataset's tokens and what is known of them, and the preset for the chain's block time. If no seed draws
    the first weights, also the recorded step that has them."""

    path: Path
    plan: RoundPlan
    dataset: Path
    figures: Figures
    packed: PackedDataset
    weights: NamedStep | None = None
    preset: str = "local"


def read_task_file(path: Path) -> TaskFile:
    """Reads a task file. Raises InvalidInput, naming the first key that is missing, unknown or of another
    type."""
    document = read_toml(path)
    known = {*TOP_KEYS, "model", *STEP_OWNS, *(one.name for one in fields(RoundPlan))}
    for name in document:
        if name not in known:
            raise malformed(path, name, expect_known(name, sorted(known)), "an unknown key")
    if "dataset" not in document:
        raise malformed(path, "dataset", A_DATASET, MISSING_KEY)
    packed, economics = _find_dataset(path, document.pop("dataset")), document.pop("economics", {})
    if not isinstance(economics, dict):
        raise malformed(path, "economics", "a table", repr(economics))
    wanted = economics.pop("amounts", GIVEN)
    if wanted not in (GIVEN, DERIVED):
        raise malformed(path, "economics.amounts", f"{GIVEN} or {DERIVED}", repr(wanted))
    preset, is_seeded = str(document.get("preset", "")), "initial_seed" in document
    named = take_step(document, path)
    _fill_format(document, path)
    if named is None:
        record_sizes(document, path, packed)
    document["step"] = set_end_of_text(document["step"], packed)
    _fill_from_note(document, packed)
    document["windows"] = _fill_windows(document, path)
    document["amounts"] = _fill_amounts(document.get("amounts", {}), wanted, path)
    plan = build_container(RoundPlan, document, path, to_units=_to_units)
    refuse_bad_plan(path, plan, packed)
    _refuse_short_windows(path, preset, plan.windows)
    refuse_other_tokens(path, packed, plan.vocabulary_size)
    terms = sketch_terms(plan)
    # Stop at impossible numbers. No deployment allows more than a local one.
    refuse_bad_terms(terms, BOUNDS_LOCAL, f"Correct it in {path}.")
    figures = read_figures(economics, terms, path)
    if wanted == DERIVED:
        plan = replace(plan, amounts=_derive_amounts(terms, figures, path, preset))
        _refuse_small_pay(terms, plan.amounts.solver_pay, economics, path, preset)
    return TaskFile(path, plan, packed.tokens, figures, packed, None if is_seeded else named, preset)


def _find_dataset(path: Path, named: Any) -> PackedDataset:
    """Returns the folder or file that the key `dataset` names. Raises InvalidInput if it does not exist."""
    actual, source = repr(named), path.parent / read_path(named) if isinstance(named, str) else None
    try:
        if source is not None and source.exists():
            return open_dataset(source)
    except OSError as error:
        actual = str(error.strerror)
    raise malformed(path, "dataset", A_DATASET, actual)


def _fill_format(document: dict[str, Any], path: Path) -> None:
    """Fills in the full name of the format, and no limits for an exact one. Raises InvalidInput for an
    unknown name first, then for missing limits."""
    stated, names = document.get("numeric_format", "float32"), (*OFFERED_FORMATS, *FORMAT_ALIASES)
    if stated not in names:
        raise malformed(path, "numeric_format", f"one of {', '.join(names)}", repr(stated))
    document["numeric_format"] = name = FORMAT_ALIASES.get(stated, stated)
    if name in PRODUCT_BITS:
        document.setdefault("limits", {one.name: 0 for one in fields(Limits)})
    elif "limits" not in document:
        raise malformed(path, "limits", LIMITS_TABLE, MISSING_KEY)


def _fill_from_note(document: dict[str, Any], packed: PackedDataset) -> None:
    """Fills in what a packed dataset says and the file leaves out."""
    if packed.note is not None:
        document.setdefault("heldout_tokens", packed.note.heldout_tokens)
        document.setdefault("tokenizer_sha256", packed.tokenizer_sha256)


def _derive_amounts(terms: GameTerms, figures: Figures, path: Path, preset: str) -> GameAmounts:
    """Derives amounts as `derive_amounts`, with the preset's least bond; an error names the table of the
    file."""
    try:
        return derive_amounts(terms, figures, least_bond_wei=BOUNDS[preset].least_bond_wei).amounts
    except InvalidInput as refusal:
        raise InvalidInput(
            what=refusal.what,
            expected=refusal.expected,
            actual=refusal.actual,
            where=f"{path}, economics",
            remedy="Change the figures there: a cheat that owns less, for instance (owned_percent).",
        ) from refusal


def _refuse_small_pay(
    terms: GameTerms, least_wei: int, economics: Mapping[str, Any], path: Path, preset: str
) -> None:
    """Raises InvalidInput if the submitter's pay is below its least; it is never raised automatically."""
    stated_wei = terms.amounts.solver_pay
    if least_wei <= stated_wei:
        return
    # If the table leaves out the cost, the cost grows with the pay, and the least pay with the cost.
    for _ in range(LEAST_PAY_LOOKS):
        terms = replace(terms, amounts=replace(terms.amounts, solver_pay=least_wei))
        derived = _derive_amounts(terms, read_figures(economics, terms, path), path, preset)
        least_wei = max(least_wei, derived.solver_pay)
    raise _small_pay(stated_wei, path, least_wei)


def _small_pay(stated_wei: int, path: Path, least_wei: int) -> InvalidInput:
    return InvalidInput(
        what="the pay of a solver's round is below what the task's figures ask for",
        expected=f"at least {format_tokens(least_wei)}",
        actual=format_tokens(stated_wei),
        where=f"{path}, amounts.solver_pay",
        remedy="Raise it there, or state smaller costs in [economics].",
    )


def _fill_windows(document: dict[str, Any], path: Path) -> Any:
    """Returns the preset's windows, replaced by those in the file."""
    preset, stated = str(document.pop("preset", "")), document.get("windows", {})
    if preset not in GAME_WINDOWS:
        raise malformed(path, "preset", " or ".join(GAME_WINDOWS), repr(preset))
    if not isinstance(stated, Mapping):
        raise malformed(path, "windows", "a table", repr(stated))
    return {**asdict(GAME_WINDOWS[preset]), **stated}


def _refuse_short_windows(path: Path, preset: str, windows: GameWindows) -> None:
    """Raises InvalidInput for the first window of the file that is below the preset's least."""
    for name, least in asdict(BOUNDS[preset].least).items():
        actual = getattr(windows, name)
        if actual < least:
            raise malformed(
                path, f"windows.{name}", f"{least} or more, the least of preset {preset}", str(actual)
            )


def _fill_amounts(stated: Any, wanted: str, path: Path) -> Any:
    """Fills in the amounts. If they are derived, the file may give only solver_pay; otherwise it gives
    all."""
    if not isinstance(stated, Mapping):
        return stated
    if wanted == GIVEN:
        _require_all_amounts(stated, path)
        return stated
    if "solver_pay" not in stated:
        raise malformed(path, "amounts.solver_pay", "the pay of a round", MISSING_KEY)
    more = set(stated) - {"solver_pay"}
    if more:
        key = f"amounts.{min(more)}"
        raise malformed(path, key, f"only solver_pay where economics.amounts is {DERIVED}", "a second amount")
    return {**{one.name: 1 for one in fields(GameAmounts)}, **stated}


def _require_all_amounts(stated: Mapping[str, Any], path: Path) -> None:
    missing = [one.name for one in fields(GameAmounts) if one.name not in stated]
    if missing:
        expected = f'all eleven amounts, or economics.amounts = "{DERIVED}"'
        raise malformed(path, f"amounts.{missing[0]}", expected, MISSING_KEY)


def sketch_terms(plan: RoundPlan) -> GameTerms:
    """Returns the terms of a plan with windows, amounts and numbers; its roots are not computed yet."""
    same = (
        "rounds", "draws", "late_chance", "solver_seats", "least_solvers", "least_verifiers",
        "least_whistleblowers", "windows", "amounts",
    )  # fmt: skip
    return GameTerms(
        submitter="",
        domain=b"",
        root=b"",
        segment_count=plan.inner_steps // max(1, plan.segment_steps),
        contest_levels=count_contest_levels(plan.count_parameters()),
        is_exact=plan.numeric_format in PRODUCT_BITS,
        **{name: getattr(plan, name) for name in same},
    )


def _to_units(kind: type, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Converts amounts in whole tokens to wei, and limits in real numbers to their units."""
    if kind is GameAmounts:
        return {name: _to_wei(value) for name, value in table.items()}
    if kind is Limits:
        return {name: _to_limit(name, value) for name, value in table.items()}
    return table


def _to_wei(value: Any) -> Any:
    return parse_tokens(value) if isinstance(value, str) else value


def _to_limit(name: str, value: Any) -> Any:
    if isinstance(value, int):
        return value
    if not isinstance(value, float) or not isfinite(value):
        raise InvalidInput(
            what="not a limit",
            expected="a number such as 1.9e-4, or an integer of its units",
            actual=repr(value),
            remedy="Correct it.",
        )
    bits = TAU_FRACTION_BITS if name.startswith("tau_") else -UNIT_EXPONENT
    return ceil(Fraction(value) * (1 << bits))
