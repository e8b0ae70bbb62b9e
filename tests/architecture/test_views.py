"""Nothing takes a whole node: what looks takes a view, what acts names what it acts with."""

import ast
from pathlib import Path

from tests.architecture.sources import ROLES, find_in_files, list_sources, walk

WHOLE = frozenset({"Tools", "Rooms"})
"""Types that have all that a node has. `Node` and the roles lie above all rooms: import-linter holds that."""
COMPOSING = {
    Path(path)
    for path in (
        "node/loop/node.py",
        "node/loop/joined.py",
        "node/loop/rooms.py",
        "whistleblower/challenge_rooms.py",
    )
}
"""They put rooms together, and do nothing else."""
OWN_TOOLS = {Path("node/kit/duty.py")}
"""Where `Tools` is what one room acts with, whichever that is."""


def list_takers(tree: ast.AST) -> list[str]:
    """Parameters and fields that hold a whole node."""
    found = []
    for one in walk(tree):
        if isinstance(one, ast.arg):
            name, kind = one.arg, one.annotation
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            name, kind = one.target.id, one.annotation
        else:
            continue
        leaves = ast.walk(kind) if kind is not None else ()
        words = {leaf.id for leaf in leaves if isinstance(leaf, ast.Name)}
        if name == "party" or words & WHOLE:
            found.append(f"line {one.lineno}: {name}")
    return found


def test_no_part_of_a_role_takes_a_whole_node() -> None:
    """Give it a View to look at, or the store, peers, chain or signer that it acts with."""
    parts = [path for path in list_sources(*ROLES) if path not in COMPOSING | OWN_TOOLS]
    assert not find_in_files(list_takers, parts)


def test_a_whole_node_is_found() -> None:
    text = "def act(party, block): ...\nclass Room:\n    own: 'int'\n    tools: Tools | None\n"
    assert list_takers(ast.parse(text)) == ["line 4: tools", "line 1: party"]
