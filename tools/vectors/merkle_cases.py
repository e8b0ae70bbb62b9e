"""Makes the cases of tests/vectors/merkle.json."""

from collections.abc import Callable
from itertools import combinations

from tools.vectors.fixed_values import word
from tools.vectors.table import Table
from touchstone.protocol.spec import data_trees, merkle, merkle_ranges, merkle_sets


def merkle_tables() -> dict[str, Table]:
    """Returns trees of every awkward size, with honest and forged proofs."""
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
        root = data_trees.compute_zero_tensor_root(count)
        zeros.add(
            f"{count} zeros", parameterCount=count, leafCount=data_trees.count_tensor_leaves(count), root=root
        )
    return {
        "leaves": leaves,
        "trees": trees,
        "proofs": _proofs(),
        "ranges": _ranges(),
        "sets": _sets(),
        "zeroTensors": zeros,
    }


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


RANGE_LEAF_BYTES = 64


def _ranges() -> Table:
    table = Table()

    def add(name: str, root: bytes, data: bytes, first: int, total: int, path: list[bytes]) -> None:
        pieces = [data[i : i + RANGE_LEAF_BYTES] for i in range(0, len(data), RANGE_LEAF_BYTES)]
        valid = merkle_ranges.is_valid_range(root, list(map(merkle.hash_leaf, pieces)), first, total, path)
        cells = {"root": root, "data": data, "leafBytes": RANGE_LEAF_BYTES, "first": first}
        table.add(name, **cells, count=len(pieces), total=total, path=path, valid=valid)

    for total in (1, 2, 5, 8, 9):
        leaves, levels = _make_range_tree(total)
        for first in range(total):
            for last in range(first, total):
                name = f"leaves {first} to {last} of {total}"
                data, path = (
                    b"".join(leaves[first : last + 1]),
                    merkle_ranges.compute_range_path(levels, first, last),
                )
                add(name, levels[-1][0], data, first, total, path)
    _forged_ranges(add)
    return table


def _make_range_tree(total: int) -> tuple[list[bytes], merkle.Levels]:
    leaves = [word(f"range/{total}/{i}") * 2 for i in range(total)]
    return leaves, merkle.compute_levels(list(map(merkle.hash_leaf, leaves)))


def _forged_ranges(add: Callable[[str, bytes, bytes, int, int, list[bytes]], None]) -> None:
    leaves, levels = _make_range_tree(9)
    root, path = levels[-1][0], merkle_ranges.compute_range_path(levels, 3, 5)
    data = b"".join(leaves[3:6])
    add("a sibling too many", root, data, 3, 9, [*path, bytes(32)])
    add("a sibling too few", root, data, 3, 9, path[:-1])
    add("no siblings", root, data, 3, 9, [])
    add("siblings swapped", root, data, 3, 9, [path[1], path[0], *path[2:]])
    add("another first leaf", root, data, 2, 9, path)
    add("a tree of the same depth", root, data, 3, 16, path)
    add("a tree of another depth", root, data, 3, 8, path)
    add("a run that ends behind the tree", root, data, 3, 5, path)
    add("a leaf less", root, data[:-RANGE_LEAF_BYTES], 3, 9, path)
    add("two leaves swapped", root, leaves[4] + leaves[3] + leaves[5], 3, 9, path)
    add("no leaves", root, b"", 3, 9, path)
    add("another root", word("other"), data, 3, 9, path)


MAX_SET = 5
"""The MAX_SET of PositionalMerkle."""


def _sets() -> Table:
    table = Table()

    def add(name: str, root: bytes, leaves: dict[int, bytes], count: int, path: list[bytes]) -> None:
        valid = merkle_sets.is_valid_set(root, leaves, count, path)
        cells = {"root": root, "index": list(leaves), "leaf": list(leaves.values())}
        table.add(name, **cells, count=count, path=path, valid=valid)

    for count in (1, 2, 5, 8, 9):
        levels = merkle.compute_levels([word(f"set/{count}/{i}") for i in range(count)])
        for size in range(1, min(count, MAX_SET) + 1):
            for indices in list(combinations(range(count), size))[::size]:
                leaves = {index: levels[0][index] for index in indices}
                path = merkle_sets.compute_set_path(levels, indices)
                add(f"leaves {indices} of {count}", levels[-1][0], leaves, count, path)
    _forged_sets(add)
    return table


def _forged_sets(add: Callable[[str, bytes, dict[int, bytes], int, list[bytes]], None]) -> None:
    levels = merkle.compute_levels([word(f"forged set/{i}") for i in range(9)])
    root, indices = levels[-1][0], (2, 3, 7)
    path, leaves = merkle_sets.compute_set_path(levels, indices), {i: levels[0][i] for i in indices}
    two, three, seven = leaves.values()
    add("a sibling too many", root, leaves, 9, [*path, bytes(32)])
    add("a sibling too few", root, leaves, 9, path[:-1])
    add("no siblings", root, leaves, 9, [])
    add("siblings swapped", root, leaves, 9, [path[1], path[0], *path[2:]])
    add("leaves swapped", root, {2: three, 3: two, 7: seven}, 9, path)
    add("another leaf", root, {2: two, 3: word("other"), 7: seven}, 9, path)
    add("another place", root, {2: two, 3: three, 6: seven}, 9, path)
    add("a leaf less", root, {2: two, 7: seven}, 9, path)
    add("a leaf more", root, {**leaves, 8: levels[0][8]}, 9, path)
    add("a tree of the same depth", root, leaves, 16, path)
    add("a tree of another depth", root, leaves, 8, path)
    add("a leaf behind the tree", root, leaves, 7, path)
    padded = merkle_sets.compute_set_path(merkle.compute_levels([*levels[0], root]), (2, 9))
    add("padding as a leaf", root, {2: two, 9: bytes(32)}, 10, padded)
    add("another root", word("other"), leaves, 9, path)
