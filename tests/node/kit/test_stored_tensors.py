"""Vectors of the store: the same numbers whole and in pieces, and none that is not what its name says."""

import os
from pathlib import Path

import pytest
import torch

from touchstone.node.kit.stored_tensors import keep_tree, load_tensor, open_tensor
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blob_verifier import BlobVerifier
from touchstone.protocol.adapters.store.blobs import BlobKind, BlobRef, refer_delta, refer_tensor
from touchstone.protocol.compute.digest import build_byte_tree, build_delta_tree, tensor_bytes
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput

ELEMENTS = 300_001


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "store", is_durable=False)


@pytest.fixture
def vector() -> torch.Tensor:
    return torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(1))


def put(store: BlobStore, vector: torch.Tensor) -> BlobRef:
    return keep_tree(store, BlobKind.TENSOR, build_byte_tree(tensor_bytes(vector)))


def test_load_tensor_has_the_bits_that_were_kept(store: BlobStore, vector: torch.Tensor) -> None:
    assert torch.equal(load_tensor(store, put(store, vector)), vector)


def test_hashed_bytes_are_kept_with_the_roots_of_their_chunks(
    store: BlobStore, vector: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are hashed no second time, and have the address that all others know them by."""
    delta = bytes(range(256)) * 1300
    with monkeypatch.context() as patch:
        patch.setattr(BlobVerifier, "update", None)
        refs = put(store, vector), keep_tree(store, BlobKind.DELTA, build_delta_tree(delta))
    roots = build_byte_tree(tensor_bytes(vector)).root, build_delta_tree(delta).root
    assert refs == (refer_tensor(roots[0], ELEMENTS), refer_delta(roots[1], 256 * 1280))
    assert [store.get(ref) for ref in refs] == [tensor_bytes(vector), delta]
    for ref in refs:
        verifier = BlobVerifier(ref)
        verifier.update(store.get(ref))
        verifier.finish()
        assert store.get_chunk_roots(ref.key) == b"".join(verifier.chunk_roots)


def test_open_tensor_cuts_copies_as_slices_are_cut(store: BlobStore, vector: torch.Tensor) -> None:
    stored = open_tensor(store, put(store, vector))
    assert stored.elements == ELEMENTS
    for start, stop in ((0, 1), (1023, 1025), (5, 200_000), (ELEMENTS - 2, ELEMENTS + 9), (0, ELEMENTS)):
        piece = stored.cut(start, stop)
        assert torch.equal(piece, vector[start:stop])
        piece.zero_()
        assert torch.equal(stored.cut(start, stop), vector[start:stop]), "writing to a piece changes nothing"


def test_open_tensor_outlives_the_blob(store: BlobStore, vector: torch.Tensor) -> None:
    ref = put(store, vector)
    stored = open_tensor(store, ref)
    store.delete(ref.key)
    assert torch.equal(stored.cut(0, ELEMENTS), vector), "an audit goes on while old blobs are removed"


def test_a_damaged_vector_is_refused(store: BlobStore, vector: torch.Tensor) -> None:
    for take in (load_tensor, open_tensor):
        ref = put(store, vector)
        with store.get_path(ref.key).open("r+b") as file:
            file.seek(4 * 200_000)
            file.write(b"\1")
        os.utime(store.get_path(ref.key), (1000, 1000))
        with pytest.raises(EnvironmentFault, match="damaged"):
            take(store, ref)
        with pytest.raises(InvalidInput, match="not in the store"):
            take(store, ref)


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_a_vector_that_is_not_finite_is_refused(store: BlobStore, vector: torch.Tensor, bad: float) -> None:
    ref = put(store, vector)
    for start in (0, 250_000):
        vector[start] = bad
        with pytest.raises(InvalidInput, match=f"not finite.*at element {start}"):
            put(store, vector)
        vector[start] = 0
    vector[250_000] = bad
    raw = bytes(tensor_bytes(vector))
    store.get_path(ref.key).write_bytes(raw)
    os.utime(store.get_path(ref.key), (1000, 1000))
    for take in (load_tensor, open_tensor):
        with pytest.raises(EnvironmentFault, match="not finite"):
            take(store, ref)
        store.get_path(ref.key).write_bytes(raw)
