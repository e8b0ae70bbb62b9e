import ctypes
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch

from touchstone.protocol.compute import digest, tree_hashing
from touchstone.protocol.compute.digest import (
    build_byte_tree,
    build_delta_tree,
    build_state_trees,
    build_tensor_tree,
    outer_header,
    state_header,
    tensor_bytes,
    tensor_root,
    zero_root,
)
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec import data_trees, merkle, merkle_ranges
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000, 256 * 8, 3001])
def test_tensor_root_is_the_tree_of_the_spec(count: int) -> None:
    flat = torch.randn(count, generator=torch.Generator().manual_seed(count))
    assert tensor_root(flat) == data_trees.compute_data_root(tensor_bytes(flat))


@pytest.mark.parametrize("count", [1, 257, 5000])
def test_zero_root_is_the_root_of_zeros(count: int) -> None:
    assert zero_root(count) == tensor_root(torch.zeros(count))


def test_every_leaf_opens() -> None:
    tree = build_tensor_tree(torch.arange(700, dtype=torch.float32))
    assert tree.leaf_count == 3
    for index in range(3):
        leaf, path = tree.open_leaf(index)
        assert len(leaf) == 1024
        merkle.verify_path(tree.root, merkle.hash_leaf(leaf), index, 3, path)
    assert leaf.endswith(bytes(1024 - 4 * 188)) and not leaf[: 4 * 188].endswith(bytes(4))
    with pytest.raises(InvalidInput):
        tree.open_leaf(3)


def test_delta_tree_has_leaves_of_four_blocks() -> None:
    data = bytes(i % 256 for i in range(3 * 260))
    tree = build_delta_tree(data)
    expected = merkle.compute_root([merkle.hash_leaf(data[i : i + 260]) for i in (0, 260, 520)])
    assert tree.root == expected and tree.open_leaf(1)[0] == data[260:520]


def test_state_header_covers_all_five(state: TrainingState) -> None:
    header = state_header(state)
    assert header == build_state_trees(state).header
    assert header.weights_root == tensor_root(state.weights)
    assert header.first_moment_root == header.second_moment_root == zero_root(state.weights.numel())
    touched = torch.zeros_like(state.weights)
    touched[-1] = 1e-30
    changes: list[dict[str, Any]] = [
        {"first_moment": touched},
        {"second_moment": touched},
        {"local_step": 3},
        {"global_step": 3},
    ]
    assert len({header, *(state_header(replace(state, **change)) for change in changes)}) == 5


def test_outer_header_names_both_trees() -> None:
    weights, momentum = torch.ones(300), torch.zeros(300)
    header = outer_header(weights, momentum)
    assert (header.weights_root, header.momentum_root) == (tensor_root(weights), zero_root(300))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_elements_are_refused_by_place(bad: float) -> None:
    flat = torch.zeros(600)
    flat[421] = bad
    with pytest.raises(ProtocolFault, match="element 421"):
        tensor_root(flat)


@pytest.mark.parametrize("flat", [torch.zeros(2, 2), torch.zeros(4, dtype=torch.float64), torch.zeros(0)])
def test_only_flat_float32_vectors_have_a_tree(flat: torch.Tensor) -> None:
    with pytest.raises(InvalidInput):
        build_tensor_tree(flat)


def test_nothing_has_no_tree() -> None:
    with pytest.raises(InvalidInput):
        build_byte_tree(b"")


@pytest.mark.parametrize("size", [1, 511, 512, 513, 512 * 63, 512 * 64, 512 * 64 + 1, 512 * 129 + 7])
@pytest.mark.parametrize("is_readonly", [True, False])
def test_leaves_of_any_size_are_hashed_as_the_spec_says(size: int, is_readonly: bool) -> None:
    """Blocks are full, short, or none; what was in a block before must not stay in it."""
    data = (bytes if is_readonly else bytearray)(range(1, 252)) * (size // 251 + 1)
    pieces = [bytes(data[i : min(i + 512, size)]).ljust(512, b"\0") for i in range(0, size, 512)]
    tree = build_byte_tree(memoryview(data)[:size], 512)
    assert tree.levels[0] == [merkle.hash_leaf(piece) for piece in pieces]
    assert tree.open_leaf(len(pieces) - 1)[0] == pieces[-1]


def test_every_run_of_leaves_opens() -> None:
    tree = build_tensor_tree(torch.arange(700, dtype=torch.float32))
    for first in range(3):
        for last in range(first, 3):
            leaves, path = tree.open_run(first, last)
            assert leaves == b"".join(tree.open_leaf(i)[0] for i in range(first, last + 1))
            hashes = [merkle.hash_leaf(leaves[i : i + 1024]) for i in range(0, len(leaves), 1024)]
            assert merkle_ranges.is_valid_range(tree.root, hashes, first, 3, path)
    with pytest.raises(InvalidInput):
        tree.open_run(1, 3)


def test_non_finite_elements_are_found_in_later_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "PART_ELEMENTS", 100)
    flat = torch.zeros(600)
    flat[[421, 555]] = float("inf")
    with pytest.raises(ProtocolFault, match="element 421"):
        tensor_root(flat)


@pytest.fixture(params=["as this machine has it", "without OpenSSL"])
def _hashing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "without OpenSSL":
        monkeypatch.setattr(tree_hashing, "_find_openssl", lambda: None)
    monkeypatch.setattr(tree_hashing, "COMPILED_LEAVES", 3)
    tree_hashing._compile_hash_rows.cache_clear()
    yield
    tree_hashing._compile_hash_rows.cache_clear()


@pytest.mark.usefixtures("_hashing")
@pytest.mark.parametrize("leaf_bytes", [1024, 260, 512])
@pytest.mark.parametrize("leaves", [3, 4, 5, 7, 8, 17, 100])
@pytest.mark.parametrize("lacking", [0, 1, 259])
def test_a_large_tree_has_the_levels_of_the_spec(leaf_bytes: int, leaves: int, lacking: int) -> None:
    data = bytes(i * i % 251 for i in range(leaves * leaf_bytes - lacking))
    pieces = [data[start : start + leaf_bytes] for start in range(0, len(data), leaf_bytes)]
    expected = merkle.compute_levels([merkle.hash_leaf(one.ljust(leaf_bytes, b"\0")) for one in pieces])
    tree = build_byte_tree(data, leaf_bytes)
    assert tree.levels == expected
    assert build_byte_tree(memoryview(bytearray(data)), leaf_bytes).levels == expected
    leaf, path = tree.open_leaf(leaves - 1)
    merkle.verify_path(tree.root, merkle.hash_leaf(leaf), leaves - 1, leaves, path)


@pytest.mark.usefixtures("_hashing")
def test_several_threads_hash_at_once() -> None:
    vectors = [torch.full((256 * 3000,), float(number)) for number in range(8)]
    expected = [data_trees.compute_data_root(tensor_bytes(vector)) for vector in vectors]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tensor_root, vectors)) == expected


@pytest.mark.usefixtures("_hashing")
def test_a_library_that_does_not_hash_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses returns 0 and writes nothing; the memory may hold anything."""
    pointer = ctypes.c_void_p
    kinds = [(pointer,), (pointer, pointer, ctypes.c_size_t), (pointer, pointer)]
    refusing = tuple(ctypes.CFUNCTYPE(ctypes.c_int, *kind)(lambda *_: 0) for kind in kinds)
    monkeypatch.setattr(tree_hashing, "_find_openssl", lambda: refusing)
    data = bytes(range(256)) * 40
    assert build_byte_tree(data).root == data_trees.compute_data_root(data)
