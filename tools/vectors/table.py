"""Holds cases as columns, which forge reads without a struct, and leaves made from labels."""

from typing import Any

from tools.vectors.fixed_values import bits, number
from touchstone.protocol.spec import float32

SAFE_INTEGER = 1 << 53
"""JSON readers keep integers below this exactly."""


class Table:
    """Cases as columns, which forge's parseJson reads without a struct."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, **cells: Any) -> None:
        """Adds one case; a list becomes a slice of a flat column."""
        self.rows.append({"name": name, **cells})

    def columns(self) -> dict[str, list[Any]]:
        """Returns every column as JSON values."""
        columns: dict[str, list[Any]] = {}
        for key in self.rows[0]:
            cells = [row[key] for row in self.rows]
            if isinstance(cells[0], list):
                columns[key + "Start"] = [sum(map(len, cells[:i])) for i in range(len(cells) + 1)]
                cells = [entry for cell in cells for entry in cell]
            columns[key] = _json_column(cells)
        return columns


def _json_column(cells: list[Any]) -> list[Any]:
    if any(type(cell) is int and abs(cell) >= SAFE_INTEGER for cell in cells):
        return [str(cell) for cell in cells]
    return ["0x" + cell.hex() if isinstance(cell, bytes) else cell for cell in cells]


def make_leaf(label: str, scale: float) -> bytes:
    """Returns a state leaf of 256 float32 within 1000 * scale of zero, from a label."""
    values = [(number(f"{label}/{i}", 2001) - 1000) * scale for i in range(256)]
    return float32.pack_bits([bits(value) for value in values])
