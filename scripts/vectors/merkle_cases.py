"""Cases of tests/vectors/merkle.json."""

from collections.abc import Callable

from protocol.spec import merkle
from scripts.vectors.table import Table, word


def merkle_tables() -> dict[str, Table]:
    """Trees of every awkward size, honest proofs and forged ones."""
    leaves, trees, zeros = Table(), Table(), Table()
    for name, data in [
        ("empty", b""),
        ("one byte", b"\0"),
        ("a state leaf", bytes(1024)),
        ("a node", b"\1" * 65),
    ]:
        leaves.add(name, data=data, hash=merkle.hash_leaf(data))
    for count in (1, 2, 3, 4, 5, 7, 8, 9, 16, 17):
        leaf = [word(f"merkle/{count}/{i}") for i in range(count)]
        trees.add(
            f"{count} leaves", leaf=leaf, depth=merkle.compute_depth(count), root=merkle.compute_root(leaf)
        )
    for count in (1, 255, 256, 257, 1_000, 123_457):
        root = merkle.compute_zero_tensor_root(count)
        zeros.add(
            f"{count} zeros", parameterCount=count, leafCount=merkle.count_tensor_leaves(count), root=root
        )
    return {"leaves": leaves, "trees": trees, "proofs": _proofs(), "zeroTensors": zeros}


def _proofs() -> Table:
    table = Table()

    def add(name: str, root: bytes, leaf: bytes, index: int, count: int, path: list[bytes]) -> None:
        valid = merkle.is_valid_path(root, leaf, index, count, path)
        table.add(name, root=root, leaf=leaf, index=index, count=count, path=path, valid=valid)

    for count in (1, 2, 5, 8, 9):
        levels = merkle.compute_levels([word(f"proof/{count}/{i}") for i in range(count)])
        for index in range(count):
            path = merkle.compute_path(levels, index)
            add(f"leaf {index} of {count}", levels[-1][0], levels[0][index], index, count, path)
    _forged_proofs(add)
    return table


def _forged_proofs(add: Callable[[str, bytes, bytes, int, int, list[bytes]], None]) -> None:
    levels = merkle.compute_levels([word(f"forged/{i}") for i in range(5)])
    root, leaf, path = levels[-1][0], levels[0][4], merkle.compute_path(levels, 4)
    zero = bytes(32)
    add("one sibling too many", root, leaf, 4, 5, [*path, zero])
    add("one sibling too few", root, leaf, 4, 5, path[:-1])
    add("no siblings", root, leaf, 4, 5, [])
    add("an inner node shown as a leaf", root, levels[1][0], 0, 5, merkle.compute_path(levels, 0)[1:])
    add(
        "an inner node as a leaf of a smaller tree",
        root,
        levels[1][0],
        0,
        3,
        merkle.compute_path(levels, 0)[1:],
    )
    add("the root as its own leaf", root, root, 0, 5, [])
    add("the wrong index", root, leaf, 3, 5, path)
    add("the sibling's index", root, levels[0][0], 1, 5, merkle.compute_path(levels, 0))
    add("index beyond the depth's bits", root, leaf, 4 + 8, 5, path)
    add("index equal to the count", root, zero, 5, 5, [levels[0][4], *path[1:]])
    add("a padding leaf inside the depth", root, zero, 5, 6, [levels[0][4], *path[1:]])
    add("count of another depth", root, leaf, 4, 9, path)
    add("count of the same depth", root, leaf, 4, 8, path)
    add("no leaves at all", root, leaf, 0, 0, [])
    add("another leaf", root, word("other"), 4, 5, path)
    add("another root", word("other"), leaf, 4, 5, path)
    add("siblings swapped", root, leaf, 4, 5, [path[1], path[0], path[2]])
