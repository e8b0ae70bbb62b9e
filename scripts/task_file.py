"""A task file (TOML) becomes the plan of a task: presets first, then what the file says; anything unknown is
refused.

    dataset = "corpus.bin"          # raw tokens, one byte each; relative to this file
    preset = "devnet"               # windows and amounts: mainnet or devnet
    rounds = 4
    ...                             # every number of node.submit.TaskPlan
    [model]                         # and the tables model, schedule, optimizer, accept, reject
    hidden_size = 128
    [windows]                       # single windows (blocks) or amounts may differ from the preset
    train = 90
    [amounts]
    solver_pay = "12.5"             # whole tokens; a number without quotes is wei
    [economics]                     # what the amounts are checked against; each has a default
    compute_cost = "3"              # tokens that the compute of one solver's round costs
    [accept]
    tau_m = 1e-4                    # as real numbers; an integer is in the units of docs/spec.md, section 6

docs/task.toml is a whole one.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from fractions import Fraction
from math import ceil, isfinite
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from node.submit import TaskPlan
from protocol.spec.containers import Amounts, Limits, TaskTerms
from protocol.spec.deterrence import Figures
from protocol.spec.economics import assume_figures, derive_amounts, read_sampling
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest
from protocol.spec.params import CHEAT_VERIFIER_SHARE_PERCENT, PRESETS, TAU_FRACTION_BITS, UNIT_EXPONENT
from scripts.console import parse_tokens

Container = TypeVar("Container")

_PRESET_TABLES = ("windows", "amounts")
BYTES_PER_STATE_ELEMENT = 12
"""W, m and v in float32."""
BYTES_PER_MODEL_ELEMENT = 10
"""The global weights and the outer momentum in float32; a pseudo-gradient is 65 bytes for 64 elements."""


@dataclass(frozen=True)
class TaskFile:
    """What a task file says: the plan, the figures that its amounts are checked against, the dataset."""

    plan: TaskPlan
    dataset: Path
    figures: Figures


@dataclass(frozen=True)
class StatedFigures:
    """The table [economics]: money in wei (in quotes: whole tokens), meanings in
    `protocol/spec/deterrence.py`. amounts: `given` by preset and file, or `derived` from solver_pay."""

    compute_cost: int
    outside_gain: int
    gas_price: int
    owned_percent: int
    grinding_choices: int
    amounts: str


def read_task_file(path: Path) -> TaskFile:
    """Read and check a task file. Raises InvalidInput naming the first key that is missing, unknown or
    misshapen."""
    document = _read_toml(path)
    dataset, stated = document.pop("dataset", None), document.pop("economics", {})
    if not isinstance(dataset, str) or not (path.parent / dataset).is_file():
        raise _malformed(path, "dataset", "the path of a file", repr(dataset))
    preset = PRESETS.get(str(document.pop("preset", "")))
    if preset is None:
        raise _malformed(path, "preset", " or ".join(PRESETS), "no such preset")
    for table in _PRESET_TABLES:
        defaults = {
            field.name: getattr(getattr(preset, table), field.name)
            for field in fields(getattr(preset, table))
        }
        document[table] = {**defaults, **document.get(table, {})}
    plan = build_container(TaskPlan, document, path)
    wanted, figures = _read_figures(stated, plan, path)
    if wanted == "derived":
        plan = replace(plan, amounts=derive_amounts(plan.amounts.solver_pay, read_sampling(plan), figures))
    return TaskFile(plan, path.parent / dataset, figures)


def _read_figures(table: Any, plan: TaskPlan, path: Path) -> tuple[str, Figures]:
    """Where the amounts come from, and the figures; what the table does not state is assumed."""
    usual = assume_figures(plan.amounts.solver_pay)
    defaults = {
        "compute_cost": usual.cost_wei,
        "outside_gain": usual.gain_wei,
        "gas_price": usual.gas_price_wei,
        "owned_percent": CHEAT_VERIFIER_SHARE_PERCENT,
        "grinding_choices": usual.choices,
        "amounts": "given",
    }
    if not isinstance(table, Mapping):
        raise _malformed(path, "economics", "a table", repr(table))
    stated = build_container(
        StatedFigures, _to_units(StatedFigures, {**defaults, **table}), path, "economics."
    )
    if stated.amounts not in ("given", "derived"):
        raise _malformed(path, "economics.amounts", "given or derived", repr(stated.amounts))
    return stated.amounts, Figures(
        cost_wei=stated.compute_cost,
        gain_wei=stated.outside_gain,
        gas_price_wei=stated.gas_price,
        owned=Fraction(stated.owned_percent, 100),
        choices=stated.grinding_choices,
    )


def build_container(
    kind: type[Container], values: Mapping[str, Any], path: Path, where: str = ""
) -> Container:
    """A dataclass from a TOML table, nested tables included; floats become the nearest float32.

    Raises InvalidInput naming the key.
    """
    if not isinstance(values, Mapping):
        raise _malformed(path, where, "a table", repr(values))
    assert is_dataclass(kind)
    known = {field.name: field for field in fields(kind)}
    types = get_type_hints(kind)
    for name in values:
        if name not in known:
            raise _malformed(path, where + name, f"one of {', '.join(known)}", "an unknown key")
    arguments = {}
    for name, field in known.items():
        if name in values:
            arguments[name] = _convert(types[name], values[name], path, where + name)
        elif not _has_default(field):
            raise _malformed(path, where + name, types[name].__name__, "nothing")
    return kind(**arguments)


def compute_disk_bytes(terms: TaskTerms, dataset_bytes: int) -> int:
    """The most that a solver keeps of a whole task: every boundary state and model of every round, and the
    data."""
    states = (terms.segment_count + 1) * BYTES_PER_STATE_ELEMENT
    return dataset_bytes + terms.rounds * terms.parameter_count * (states + BYTES_PER_MODEL_ELEMENT)


def _convert(kind: Any, value: Any, path: Path, where: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return build_container(kind, _to_units(kind, value), path, where + ".")
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return nearest(float(value))
    # bool is an int in Python, never in a task file.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _malformed(path, where, kind.__name__, repr(value))
    return value


def _to_units(kind: type, table: Any) -> Any:
    """Amounts written as whole tokens become wei, limits written as real numbers their units."""
    if not isinstance(table, Mapping):
        return table
    if kind is Amounts:
        return {
            name: parse_tokens(value) if isinstance(value, str) else value for name, value in table.items()
        }
    if kind is StatedFigures:
        money = ("compute_cost", "outside_gain")
        return {
            name: parse_tokens(value) if name in money and isinstance(value, str) else value
            for name, value in table.items()
        }
    if kind is Limits:
        return {name: _to_limit(name, value) for name, value in table.items()}
    return table


def _to_limit(name: str, value: Any) -> Any:
    if not isinstance(value, float) or not isfinite(value):
        return value
    bits = TAU_FRACTION_BITS if name.startswith("tau_") else -UNIT_EXPONENT
    return ceil(Fraction(value) * (1 << bits))


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _malformed(path, "", "a TOML file", f"{type(error).__name__}: {error}") from error


def _malformed(path: Path, key: str, expected: str, actual: str) -> InvalidInput:
    return InvalidInput(
        what="the task file is malformed",
        expected=expected,
        actual=actual,
        where=f"{path}, {key}" if key else str(path),
        remedy="Correct the file; docs/task.toml is a whole one.",
    )
