"""Makes the cases of tests/vectors/float32.json."""

from collections.abc import Iterable

from tools.vectors.fixed_values import bits, number
from tools.vectors.table import Table
from touchstone.protocol.spec import float32, tolerance

MAX_FINITE = 0x7F7FFFFF
SPECIAL = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x00000003, 0x007FFFFF, 0x00800000, 0x00800001,
    0x3F800000, 0x3F800001, 0xBF800000, 0x33800000, 0x33800001, 0x3F000000, 0x3F333333, 0x40400000,
    0x4B800000, 0x4B800001, 0x1A000000, 0x73000000, 0x7F000000, MAX_FINITE, 0xFF7FFFFF,
]  # fmt: skip


def _pairs() -> Iterable[tuple[str, int, int]]:
    for i, a in enumerate(SPECIAL):
        yield from ((f"special {i} {j}", a, b) for j, b in enumerate(SPECIAL))
    for i in range(64):
        a = number(f"float/a/{i}", 0x7F800000) | (number(f"sign/a/{i}", 2) << 31)
        near = a ^ number(f"near/{i}", 1 << 24) ^ (1 << 31)  # Nearly cancels.
        b = near if i % 2 and float32.is_finite(near) else number(f"float/b/{i}", 0x7F800000)
        yield f"random {i}", a, b


def float32_tables() -> dict[str, Table]:
    """Returns the four operations on special and random operands, and values in units of 2^-149."""
    tables = {name: Table() for name in ("add", "subtract", "multiply", "divide")}
    for name, a, b in _pairs():
        for operation, table in tables.items():
            if operation == "divide" and b & 0x7FFFFFFF == 0:
                continue
            table.add(name, a=a, b=b, result=getattr(float32, operation)(a, b))
    return {**tables, "units": _units()}


def _units() -> Table:
    table = Table()
    edge = bits(2.0**64)
    for pattern in (*SPECIAL, edge - 1, edge, edge + 1, edge | 1 << 31, edge + 1 | 1 << 31):
        units = tolerance.to_cut_units(pattern)
        table.add(f"{pattern:#010x}", bits=pattern, negative=units < 0, magnitude=abs(units))
    return table
