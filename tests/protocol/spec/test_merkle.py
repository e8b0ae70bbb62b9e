"""Trees: a proof holds for its leaf, index, depth and count, and for nothing else."""

from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.protocol.spec import data_trees, merkle, merkle_ranges, merkle_sets
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.params import LEAF_BYTES


def make_leaves(count: int) -> list[bytes]:
    return [sha256(i.to_bytes(4, "big")).digest() for i in range(count)]


def naive_root(leaves: list[bytes]) -> bytes:
    """Pads to a power of two and folds: the definition, without any shortcut."""
    nodes = leaves + [bytes(32)] * ((1 << merkle.compute_depth(len(leaves))) - len(leaves))
    while len(nodes) > 1:
        nodes = [sha256(b"\1" + nodes[i] + nodes[i + 1]).digest() for i in range(0, len(nodes), 2)]
    return nodes[0]


@given(st.integers(1, 70), st.data())
def test_every_path_verifies_and_the_root_is_the_definition(count: int, data: st.DataObject) -> None:
    leaves = make_leaves(count)
    levels = merkle.compute_levels(leaves)
    index = data.draw(st.integers(0, count - 1))
    path = merkle.compute_path(levels, index)
    assert levels[-1] == [naive_root(leaves)]
    assert len(path) == merkle.compute_depth(count) == len(levels) - 1
    merkle.verify_path(levels[-1][0], leaves[index], index, count, path)


@given(st.integers(2, 40), st.data())
def test_no_other_index_count_depth_or_leaf_verifies(count: int, data: st.DataObject) -> None:
    leaves = make_leaves(count)
    levels = merkle.compute_levels(leaves)
    root, index = levels[-1][0], data.draw(st.integers(0, count - 1))
    leaf, path = leaves[index], merkle.compute_path(levels, index)
    other = data.draw(st.integers(-2, 4 * count).filter(lambda i: i != index))
    assert not merkle.is_valid_path(root, leaf, other, count, path)
    assert not merkle.is_valid_path(root, leaf, index, 1 << len(path) + 1, path)
    assert not merkle.is_valid_path(root, leaf, index, index, path)
    assert not merkle.is_valid_path(root, leaf, index, count, path[:-1])
    assert not merkle.is_valid_path(root, leaf, index, count, [*path, bytes(32)])
    assert not merkle.is_valid_path(root, sha256(leaf).digest(), index, count, path)


def test_a_node_is_no_leaf() -> None:
    levels = merkle.compute_levels(make_leaves(4))
    short = merkle.compute_path(levels, 0)[1:]
    assert merkle.fold_path(levels[1][0], 0, short) == levels[-1][0]
    assert not merkle.is_valid_path(levels[-1][0], levels[1][0], 0, 4, short)


def test_padding_is_no_leaf() -> None:
    levels = merkle.compute_levels(make_leaves(3))
    path = [levels[0][2], levels[1][0]]
    assert merkle.fold_path(bytes(32), 3, path) == levels[-1][0]
    assert not merkle.is_valid_path(levels[-1][0], bytes(32), 3, 4, path)


def test_verify_reports_the_figures() -> None:
    with pytest.raises(ProtocolFault, match="2 siblings and an index below 3") as caught:
        merkle.verify_path(b"\1" * 32, b"\2" * 32, 5, 3, [])
    assert "0 siblings, index 5" in str(caught.value)


@pytest.mark.parametrize("leaf", [bytes(32), b"short", b"\1" * 33])
def test_what_is_no_leaf_hash_is_refused(leaf: bytes) -> None:
    with pytest.raises(InvalidInput, match="leaf 1"):
        merkle.compute_levels([b"\1" * 32, leaf])


def test_an_empty_tree_and_a_foreign_index_are_refused() -> None:
    with pytest.raises(InvalidInput):
        merkle.compute_root([])
    with pytest.raises(InvalidInput, match="index below 2"):
        merkle.compute_path(merkle.compute_levels(make_leaves(2)), 2)


@given(st.binary(min_size=1, max_size=3 * LEAF_BYTES + 1))
def test_data_leaves_cover_the_data_and_pad_with_zeros(data: bytes) -> None:
    pieces = data_trees.split_leaves(data)
    joined = b"".join(pieces)
    assert {len(piece) for piece in pieces} == {LEAF_BYTES}
    assert joined[: len(data)] == data
    assert not any(joined[len(data) :])
    assert data_trees.compute_data_root(data) == merkle.compute_root(
        [merkle.hash_leaf(piece) for piece in pieces]
    )


@pytest.mark.parametrize("count", [1, 255, 256, 257, 512, 513, 1_281, 70_000])
def test_zero_tensor_root_is_the_root_of_zeros(count: int) -> None:
    data = bytes(4 * count)
    assert data_trees.compute_zero_tensor_root(count) == data_trees.compute_data_root(data)
    assert data_trees.count_tensor_leaves(count) == len(data_trees.split_leaves(data))


# Runs of leaves
def draw_run(data: st.DataObject, count: int) -> tuple[int, int]:
    first = data.draw(st.integers(0, count - 1))
    return first, data.draw(st.integers(first, count - 1))


@given(st.integers(1, 70), st.data())
def test_every_run_verifies(count: int, data: st.DataObject) -> None:
    leaves = make_leaves(count)
    levels = merkle.compute_levels(leaves)
    first, last = draw_run(data, count)
    path = merkle_ranges.compute_range_path(levels, first, last)
    assert len(path) <= 2 * merkle.compute_depth(count)
    assert merkle_ranges.is_valid_range(levels[-1][0], leaves[first : last + 1], first, count, path)


@given(st.integers(1, 70), st.data())
def test_a_run_of_one_leaf_has_that_leaf_s_path(count: int, data: st.DataObject) -> None:
    levels = merkle.compute_levels(make_leaves(count))
    index = data.draw(st.integers(0, count - 1))
    assert merkle_ranges.compute_range_path(levels, index, index) == merkle.compute_path(levels, index)


def test_siblings_come_level_by_level_the_left_one_first() -> None:
    """Leaves 1 and 2 of 5: both neighbours; then their parents are a whole subtree, whose sibling holds leaf
    4 and padding."""
    levels = merkle.compute_levels(make_leaves(5))
    assert merkle_ranges.compute_range_path(levels, 1, 2) == [levels[0][0], levels[0][3], levels[2][1]]
    whole = merkle_ranges.compute_range_path(levels, 0, 4)
    padding = merkle.hash_node(bytes(32), bytes(32))
    assert whole == [bytes(32), padding]


@given(st.integers(2, 40), st.data())
def test_no_other_run_verifies(count: int, data: st.DataObject) -> None:
    leaves = make_leaves(count)
    levels = merkle.compute_levels(leaves)
    root, (first, last) = levels[-1][0], draw_run(data, count)
    run, path = leaves[first : last + 1], merkle_ranges.compute_range_path(levels, first, last)
    other = data.draw(st.integers(-2, 4 * count).filter(lambda i: i != first))
    place = data.draw(st.integers(0, len(run) - 1))
    changed = [sha256(x).digest() if n == place else x for n, x in enumerate(run)]
    for leaves_shown, start, total, siblings in (
        (run, other, count, path), (changed, first, count, path), (run[:-1], first, count, path),
        ([*run, run[-1]], first, count, path), ([], first, count, path), (run, first, last, path),
        (run, first, 2 * (1 << merkle.compute_depth(count)), path), (run, first, count, [*path, bytes(32)]),
        (run, first, count, path[:-1] if path else [bytes(32)]),
    ):  # fmt: skip
        assert not merkle_ranges.is_valid_range(root, leaves_shown, start, total, siblings)


def test_padding_is_no_leaf_of_a_run() -> None:
    leaves = make_leaves(3)
    root = merkle.compute_root(leaves)
    assert merkle_ranges.fold_range([*leaves, bytes(32)], 0, 2, []) == root
    assert not merkle_ranges.is_valid_range(root, [*leaves, bytes(32)], 0, 4, [])


@pytest.mark.parametrize("first, last", [(-1, 0), (0, 3), (2, 1)])
def test_a_foreign_run_is_refused(first: int, last: int) -> None:
    with pytest.raises(InvalidInput, match="no such run"):
        merkle_ranges.compute_range_path(merkle.compute_levels(make_leaves(3)), first, last)


# Sets of leaves
def draw_set(data: st.DataObject, count: int) -> list[int]:
    return sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=6)))


@given(st.integers(1, 70), st.data())
def test_every_set_verifies(count: int, data: st.DataObject) -> None:
    leaves = make_leaves(count)
    levels = merkle.compute_levels(leaves)
    indices = draw_set(data, count)
    path = merkle_sets.compute_set_path(levels, indices)
    forks = [(a ^ b).bit_length() - 1 for a, b in pairwise(indices)]
    # Each leaf brings what lies below the place where it joins the one before, and is a sibling less there.
    assert len(path) == merkle.compute_depth(count) + sum(fork - 1 for fork in forks)
    assert merkle_sets.is_valid_set(levels[-1][0], {i: leaves[i] for i in indices}, count, path)


@given(st.integers(1, 70), st.data())
def test_a_set_of_neighbours_has_the_siblings_of_their_run(count: int, data: st.DataObject) -> None:
    levels = merkle.compute_levels(make_leaves(count))
    first, last = draw_run(data, count)
    path = merkle_sets.compute_set_path(levels, range(first, last + 1))
    assert sorted(path) == sorted(merkle_ranges.compute_range_path(levels, first, last))


def test_siblings_of_a_set_come_half_by_half() -> None:
    """Leaves 1, 4 and 7 of 8: 4 and 7 meet in the right half, that half and leaf 1 at the root."""
    levels = merkle.compute_levels(make_leaves(8))
    path = merkle_sets.compute_set_path(levels, (1, 4, 7))
    assert path == [levels[0][0], levels[1][1], levels[0][5], levels[0][6]]


@given(st.integers(2, 40), st.data())
def test_no_other_set_verifies(count: int, data: st.DataObject) -> None:
    leaves = make_leaves(count)
    levels = merkle.compute_levels(leaves)
    root, indices = levels[-1][0], draw_set(data, count)
    shown, path = {i: leaves[i] for i in indices}, merkle_sets.compute_set_path(levels, indices)
    one = data.draw(st.sampled_from(indices))
    other = data.draw(st.integers(-2, 4 * count).filter(lambda i: i not in indices))
    rest = {i: leaf for i, leaf in shown.items() if i != one}
    for leaves_shown, total, siblings in (
        ({**rest, other: leaves[one]}, count, path), ({**shown, one: bytes([1] * 32)}, count, path),
        (rest, count, path), ({**shown, other: leaves[one]}, count, path), ({}, count, path),
        (shown, max(indices), path), (shown, 2 * (1 << merkle.compute_depth(count)), path),
        (shown, count, [*path, bytes(32)]), (shown, count, path[:-1] if path else [bytes(32)]),
    ):  # fmt: skip
        assert not merkle_sets.is_valid_set(root, leaves_shown, total, siblings)


def test_padding_is_no_leaf_of_a_set() -> None:
    leaves = make_leaves(3)
    root = merkle.compute_root(leaves)
    path = [merkle.hash_node(leaves[0], leaves[1])]
    assert merkle_sets.fold_set({2: leaves[2], 3: bytes(32)}, 2, path) == root
    assert not merkle_sets.is_valid_set(root, {2: leaves[2], 3: bytes(32)}, 4, path)


@pytest.mark.parametrize("indices", [(), (1, 0), (1, 1), (-1, 0), (0, 3)])
def test_a_foreign_set_is_refused(indices: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="the indices of the leaves|no such leaf"):
        merkle_sets.compute_set_path(merkle.compute_levels(make_leaves(3)), indices)


@given(st.integers(1, 300))
def test_a_growing_root_is_that_of_all_leaves(count: int) -> None:
    leaves, growing = make_leaves(count), merkle.GrowingRoot()
    for leaf in leaves:
        growing.add(leaf)
    assert growing.finish() == merkle.compute_root(leaves)


def test_a_growing_root_needs_a_leaf() -> None:
    with pytest.raises(InvalidInput, match="needs a leaf"):
        merkle.GrowingRoot().finish()


@given(st.integers(1, 40), st.data())
def test_the_path_of_a_run_gives_each_leaf_its_own(count: int, data: st.DataObject) -> None:
    levels = merkle.compute_levels(make_leaves(count))
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first, count - 1))
    path = merkle_ranges.compute_range_path(levels, first, last)
    spread = merkle_ranges.spread_range(levels[0][first : last + 1], first, merkle.compute_depth(count), path)
    assert spread == [tuple(merkle.compute_path(levels, index)) for index in range(first, last + 1)]
