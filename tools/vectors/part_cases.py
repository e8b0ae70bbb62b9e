"""Makes the table of tests/vectors/parts.json: which part of Game has which functions."""

from tools.vectors.table import Table
from touchstone.protocol.adapters.chain.creation import list_selectors
from touchstone.protocol.adapters.chain.deployment import PARTS


def part_tables() -> dict[str, Table]:
    """Returns the selectors of each part, as a deployment tells them to Game."""
    table = Table()
    for part in PARTS:
        table.add(part, selector=[int.from_bytes(one) for one in list_selectors(part)])
    return {"parts": table}
