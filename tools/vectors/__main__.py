"""Writes tests/vectors/*.json: cases on which Python and Solidity must agree, the hostile ones included.

Deterministic: all "random" input is SHA-256 of a label. Layout: tests/vectors/README.md.

    python -m tools.vectors            write the files
    python -m tools.vectors --check    compare only; exit 1 and name the files that differ
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.vectors.audit_draw_cases import audit_draw_tables
from tools.vectors.codec_cases import codec_tables
from tools.vectors.exact_cases import exact_tables
from tools.vectors.float32_cases import float32_tables
from tools.vectors.merkle_cases import merkle_tables
from tools.vectors.node_cases import node_tables
from tools.vectors.outer_cases import outer_tables
from tools.vectors.part_cases import part_tables
from tools.vectors.randomness_cases import randomness_tables
from tools.vectors.referee_cases import referee_tables
from tools.vectors.sampling_cases import draw_tables
from tools.vectors.statement_cases import statement_tables
from tools.vectors.table import Table
from tools.vectors.tolerance_cases import tolerance_tables

VECTORS_DIR = Path(__file__).resolve().parents[2] / "tests" / "vectors"

FILES: dict[str, Callable[[], dict[str, Table]]] = {
    "merkle.json": merkle_tables,
    "draw.json": draw_tables,
    "codec.json": codec_tables,
    "float32.json": float32_tables,
    "outer.json": outer_tables,
    "tolerance.json": tolerance_tables,
    "referee.json": referee_tables,
    "exact.json": exact_tables,
    "node.json": node_tables,
    "randomness.json": randomness_tables,
    "audit_draw.json": audit_draw_tables,
    "statements.json": statement_tables,
    "parts.json": part_tables,
}


def render(tables: dict[str, Table]) -> str:
    """Returns the file's text, one line for each column, so that a changed case shows in a diff."""
    parts = []
    for name, table in tables.items():
        columns = [f'    "{key}": {json.dumps(cells)}' for key, cells in table.columns().items()]
        parts.append(f'  "{name}": {{\n' + ",\n".join(columns) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or compares all files; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.vectors", description="Shared test vectors.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 where a file differs")
    options = parser.parse_args(arguments)
    stale = []
    for name, tables in FILES.items():
        path, text = VECTORS_DIR / name, render(tables())
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not options.check:
            path.write_text(text)
    print(f"{'differ' if options.check else 'written'}: {', '.join(stale) or 'none'}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
