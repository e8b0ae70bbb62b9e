"""Reads and writes the fields of a `config.json` that say how positions rotate a model's heads.

transformers 4 reads `rope_scaling` and `rope_theta`, transformers 5 reads `rope_parameters`, and each ignores
what it does not read. So both are written. A config with both is read if they say the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from touchstone.node.exports.config_fields import refuse_config, show_value
from touchstone.protocol.spec.errors import InvalidInput

SCALING, PARAMETERS = "rope_scaling", "rope_parameters"
BASE, PART, NEOX_BASE, NEOX_PART = "rope_theta", "partial_rotary_factor", "rotary_emb_base", "rotary_pct"
NEOX = "gpt_neox"
WHOLE = ("llama", "qwen2", "qwen3", "gemma", "gemma2", "mistral", "olmo2", "smollm3")
"""Model types that rotate whole heads."""
ROTARY_FIELDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(WHOLE, frozenset({SCALING, PARAMETERS, BASE})),
    **dict.fromkeys(("phi", "phi3"), frozenset({SCALING, PARAMETERS, BASE, PART})),
    NEOX: frozenset({SCALING, PARAMETERS, BASE, PART, NEOX_BASE, NEOX_PART}),
}
"""The fields of each model type that has rotary positions."""
DEFAULT, LINEAR, LLAMA3, YARN = "default", "linear", "llama3", "yarn"
FACTOR, ORIGINAL, LONGEST = "factor", "original_max_position_embeddings", "max_position_embeddings"
TRUNCATE = "truncate"
NEEDED: dict[str, frozenset[str]] = {
    DEFAULT: frozenset(),
    LINEAR: frozenset({FACTOR}),
    LLAMA3: frozenset({FACTOR, "low_freq_factor", "high_freq_factor"}),
    YARN: frozenset({FACTOR}),
}
"""The keys that each kind of rotation must have."""
OPTIONAL: dict[str, frozenset[str]] = {
    DEFAULT: frozenset(),
    LINEAR: frozenset(),
    LLAMA3: frozenset({ORIGINAL}),
    YARN: frozenset({
        ORIGINAL, "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", TRUNCATE,
    }),
}  # fmt: skip
"""The keys that each kind may have. transformers ignores all others."""
TYPE_KEYS = ("rope_type", "type")
MOST = 1e30
"""The largest number of a rotation."""


@dataclass(frozen=True)
class Rotation:
    """How positions rotate heads. `base` and `part`, the rotated part of each head, are None if the config
    leaves them to the class. `numbers` are the keys of the kind."""

    kind: str = DEFAULT
    base: float | None = None
    part: float | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


def find_rotary_fields(fields: Mapping[str, Any]) -> frozenset[str]:
    """Returns the fields about rotary positions that a config of this model type may have."""
    named = fields.get("model_type")
    return ROTARY_FIELDS.get(named, frozenset()) if isinstance(named, str) else frozenset()


def read_rotation(fields: Mapping[str, Any], where: str) -> Rotation | None:
    """Returns what a config says of rotary positions; None if its model type has none. Raises InvalidInput if
    a field is malformed, has a key that transformers ignores, or contradicts another one."""
    own = find_rotary_fields(fields)
    if not own:
        return None
    tables = {name: _read_table(fields, name, where) for name in (SCALING, PARAMETERS)}
    places = {where: fields, **{f"{where}, {name}": one for name, one in tables.items() if one is not None}}
    base = _agree(places, own & {BASE, NEOX_BASE}, lambda one: 1 <= one <= MOST, "1 or more")
    part = _agree(places, own & {PART, NEOX_PART}, lambda one: 0 < one <= 1, "above 0, at most 1")
    said = [
        _read_kind(table, own, fields.get(LONGEST), f"{where}, {name}")
        for name, table in tables.items()
        if table is not None
    ]
    if len(said) > 1 and said[0] != said[1]:
        actual = " and ".join(show_value(fields[name]) for name in tables)
        raise refuse_config(where, f"the same in {SCALING} and {PARAMETERS}, or one of them alone", actual)
    kind, numbers = said[0] if said else (DEFAULT, {})
    return Rotation(kind, base, part, numbers)


def _read_table(fields: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any] | None:
    """Returns the table of a field; None if it says nothing. To transformers 4 a null `rope_scaling` says
    that nothing is scaled; an empty one stands beside what transformers 4 cannot compute (`_write_older`)."""
    table = fields.get(name)
    if table is None:
        return {} if name == SCALING and name in fields else None
    if not isinstance(table, dict):
        raise refuse_config(f"{where}, {name}", "a table", show_value(table))
    return None if name == SCALING and not table else table


def _agree(
    places: Mapping[str, Mapping[str, Any]],
    names: frozenset[str],
    is_allowed: Callable[[float], bool],
    expected: str,
) -> float | None:
    """Returns the number that all places give under one of the names; None if none does."""
    found: float | None = None
    for place, table in places.items():
        for name in sorted(names & set(table)):
            value = table[name]
            if not _is_number(value) or not is_allowed(value):
                raise refuse_config(f"{place}, {name}", f"a number, {expected}", show_value(value))
            if found not in (None, value):
                raise refuse_config(f"{place}, {name}", f"{found}, as another field says", show_value(value))
            found = value
    return found


def _read_kind(
    table: Mapping[str, Any], own: frozenset[str], longest: Any, where: str
) -> tuple[str, dict[str, float]]:
    """Returns the kind of a rotation and the numbers that it has. `longest` is the number of positions."""
    kinds = [table[key] for key in TYPE_KEYS if table.get(key) is not None] or [DEFAULT]
    kind = kinds[0]
    if not isinstance(kind, str) or kind not in NEEDED or kinds.count(kind) != len(kinds):
        raise refuse_config(f"{where}, rope_type", " or ".join(NEEDED), show_value(kinds))
    keys = NEEDED[kind] | OPTIONAL[kind]
    for key, value in table.items():
        if key not in keys and key not in (*TYPE_KEYS, BASE) and key not in own & {PART}:
            raise refuse_config(f"{where}, {show_value(key)}", f"a key of the kind {kind}", show_value(value))
    numbers = dict[str, float]()
    for key in sorted(keys):
        number = table.get(key)
        is_right = isinstance(number, bool) if key == TRUNCATE else _is_number(number)
        if is_right and number is not None:
            numbers[key] = number if key in (TRUNCATE, ORIGINAL) else float(number)
        elif number is not None or key in NEEDED[kind]:
            expected = "true or false" if key == TRUNCATE else "a number"
            raise refuse_config(f"{where}, {key}", expected, show_value(number))
    if ORIGINAL in keys and _is_number(longest):
        numbers.setdefault(ORIGINAL, longest)
    return kind, numbers


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST <= value <= MOST


def write_rotation(fields: Mapping[str, Any], rotation: Rotation) -> dict[str, Any]:
    """Returns a config with its rotary positions in the places of transformers 4 and of transformers 5."""
    own, is_neox = find_rotary_fields(fields), fields["model_type"] == NEOX
    base, part = (
        {name: value for name, value in pair.items() if value is not None}
        for pair in ({BASE: rotation.base}, {PART: rotation.part})
    )
    names = {BASE: NEOX_BASE, PART: NEOX_PART} if is_neox else {}
    older = {names.get(name, name): value for name, value in (base | part).items()}
    newer = {"rope_type": rotation.kind, **base, **part, **rotation.numbers}
    others = {name: value for name, value in fields.items() if name not in own}
    return {**others, **older, SCALING: _write_older(fields, rotation), PARAMETERS: newer}


def _write_older(fields: Mapping[str, Any], rotation: Rotation) -> dict[str, Any] | None:
    """Returns `rope_scaling` for transformers 4: null for the default kind. An empty table makes it refuse
    the model, because it would compute other numbers; transformers 5 passes over an empty one."""
    kind, numbers, named = rotation.kind, dict(rotation.numbers), fields["model_type"]
    if kind == DEFAULT:
        return None
    if named == "phi3" or (named == "olmo2" and kind != LINEAR):
        return {}
    if named == "olmo2":
        return {"type": kind, **numbers}
    if kind == YARN:
        # Transformers 4.53 divides the longest by the original length in place of reading the factor, and
        # reads the factor if there is no original length.
        longest: Any = fields.get(LONGEST)
        original = numbers.get(ORIGINAL)
        implied = longest / original if original and _is_number(longest) else None
        if longest == original:
            numbers.pop(ORIGINAL, None)
        elif implied != numbers[FACTOR]:
            return {}
        if not numbers.pop(TRUNCATE, True):
            return {}
    return {"rope_type": kind, **numbers}


def write_both_places(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a config as `write_rotation` does; unchanged if it has no rotary positions, or malformed ones,
    as a stranger's may."""
    try:
        rotation = read_rotation(fields, "config.json")
    except InvalidInput:
        return fields
    return fields if rotation is None else write_rotation(fields, rotation)
