"""contracts/game/GameTables.sol: the enumerations and numbers of the rules, made of the specification's.

python -m tools.tables            write the file
python -m tools.tables --check    compare only; exit 1 if the file differs
"""

import argparse
import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from enum import IntEnum
from types import ModuleType

from touchstone.protocol.spec import audit_draws, contest_tree, params
from touchstone.protocol.spec.game import enums, terms
from touchstone.scripts.toolchain import ROOT

FILE = ROOT / "contracts" / "game" / "GameTables.sol"
COLUMNS = 160
HEAD = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title Enumerations and numbers of the rules.
/// @dev Written by `python -m tools.tables` from `protocol/spec`: change them there.
"""
ENUMS: dict[str, type[IntEnum]] = {
    "SeatRole": enums.SeatRole,
    "SeatStatus": enums.SeatStatus,
    "Phase": enums.RoundPhase,
    "Proof": enums.ProofKind,
}
"""The enumerations by their names in the contracts. Zero is NONE: what was never written."""
NUMBERS: dict[str, tuple[ModuleType, str]] = {
    "RANKS": (audit_draws, "RANKS"),
    "EPOCH_ROUNDS": (terms, "EPOCH_ROUNDS"),
    "RING_ROUNDS": (terms, "RING_ROUNDS"),
    "SILENCES_LEAST": (terms, "SILENCES_LEAST"),
    "SOLVER_SEATS_MAX": (terms, "SOLVER_SEATS_MAX"),
    "AUDITOR_SEATS_MAX": (terms, "AUDITOR_SEATS_MAX"),
    "NUMBER_MAX": (terms, "NUMBER_MAX"),
    "ROUNDS_UNDER_WAY": (terms, "ROUNDS_UNDER_WAY"),
    "FANOUT_LEVELS": (contest_tree, "FANOUT_LEVELS"),
    "SEGMENT_STEPS_MAX": (params, "MAX_SEGMENT_STEPS"),
    "DRAWS_MAX": (params, "MAX_SEGMENT_DRAWS"),
}
"""The numbers by their names in the contracts."""


def render() -> str:
    """Returns the text of the file."""
    made = (_render_enum(name, kind) for name, kind in ENUMS.items())
    numbers = (_render_number(name, *where) for name, where in NUMBERS.items())
    return "\n".join((HEAD, *made, *numbers))


def _render_enum(name: str, kind: type[IntEnum]) -> str:
    members = ["NONE", *(one.name for one in sorted(kind))]
    assert [int(one) for one in sorted(kind)] == list(range(1, len(members))), name
    body = ",\n".join(f"    {member}" for member in members)
    return f"{_comment('@notice', inspect.getdoc(kind) or '')}enum {name} {{\n{body}\n}}\n"


def _render_number(name: str, module: ModuleType, source: str) -> str:
    value = getattr(module, source)
    return f"{_comment('@dev', _find_comment(module, source))}uint256 constant {name} = {value};\n"


def _find_comment(module: ModuleType, name: str) -> str:
    """Returns the text below an assignment; nothing if there is none."""
    body = ast.parse(inspect.getsource(module)).body
    for made, text in zip(body, body[1:], strict=False):
        names = [one.id for one in getattr(made, "targets", ()) if isinstance(one, ast.Name)]
        if name in names and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            return str(text.value.value)
    return ""


def _comment(tag: str, text: str) -> str:
    lines: Iterator[str] = iter(textwrap.wrap(f"{tag} {' '.join(text.split())}", COLUMNS - 4))
    return "".join(f"/// {line}\n" for line in lines) if text else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or compares the file; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.tables", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if the file differs")
    options = parser.parse_args(arguments)
    text = render()
    if not options.check:
        FILE.write_text(text)
    elif not FILE.is_file() or FILE.read_text() != text:
        print(f"{FILE.relative_to(ROOT)} differs: run python -m tools.tables", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
