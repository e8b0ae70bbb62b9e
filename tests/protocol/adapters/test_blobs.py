import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.adapters.blobs import (
    CHUNK_LEAVES,
    BlobKey,
    BlobKind,
    BlobRef,
    BlobVerifier,
    fold_chunks,
    refer_bytes,
    refer_delta,
    refer_state,
    refer_tensor,
)
from protocol.spec import merkle
from protocol.spec.containers import StateHeader
from protocol.spec.errors import InvalidInput, ProtocolFault
from protocol.spec.params import DELTA_LEAF_BYTES
from tests.protocol.adapters.parties import CHUNK_ELEMENTS, make_tensor


def feed(verifier: BlobVerifier, data: bytes, piece_bytes: int = 100_000) -> None:
    for start in range(0, len(data), piece_bytes):
        verifier.update(data[start : start + piece_bytes])
    verifier.finish()


@pytest.mark.parametrize(
    "elements",
    [1, 255, 256, 257, CHUNK_ELEMENTS, CHUNK_ELEMENTS + 1, 3 * CHUNK_ELEMENTS - 257, 5 * CHUNK_ELEMENTS],
)
def test_stream_gives_the_root_of_the_whole_tree(elements: int) -> None:
    data, ref = make_tensor(elements)
    verifier = BlobVerifier(ref)
    feed(verifier, data)
    assert fold_chunks(verifier.chunk_roots) == ref.key.root
    assert len(verifier.chunk_roots) == ref.chunk_count


@given(st.binary(min_size=1, max_size=5000), st.integers(1, 3000))
def test_pieces_of_any_length_are_taken(data: bytes, piece_bytes: int) -> None:
    ref = BlobRef(BlobKey(BlobKind.DATASET, merkle.compute_data_root(data)), len(data))
    feed(BlobVerifier(ref), data, piece_bytes)
    feed(BlobVerifier(refer_bytes(data)), data, piece_bytes)


def test_delta_leaves_have_260_bytes() -> None:
    data = bytes(range(256)) * 65
    leaves = [data[start : start + DELTA_LEAF_BYTES] for start in range(0, len(data), DELTA_LEAF_BYTES)]
    root = merkle.compute_root([merkle.hash_leaf(leaf) for leaf in leaves])
    ref = refer_delta(root, 64 * 256)
    assert ref.size_bytes == len(data)
    feed(BlobVerifier(ref), data)


@pytest.mark.parametrize("position", [0, CHUNK_ELEMENTS * 4, CHUNK_ELEMENTS * 8 + 17])
def test_any_wrong_byte_is_found(position: int) -> None:
    data, ref = make_tensor(2 * CHUNK_ELEMENTS + 100)
    wrong = bytearray(data)
    wrong[position] ^= 1
    with pytest.raises(ProtocolFault, match="do not match their root"):
        feed(BlobVerifier(ref), bytes(wrong))


def test_known_chunks_stop_a_wrong_stream_in_its_first_chunk() -> None:
    data, ref = make_tensor(3 * CHUNK_ELEMENTS)
    honest = BlobVerifier(ref)
    feed(honest, data)
    verifier = BlobVerifier(ref, source="0xbad", chunk_roots=honest.chunk_roots)
    wrong = bytearray(data)
    wrong[5] ^= 1
    with pytest.raises(ProtocolFault, match="0xbad: a chunk does not match"):
        feed(verifier, bytes(wrong), 64 * 1024)
    assert verifier.received_bytes == CHUNK_LEAVES * 1024


@pytest.mark.parametrize("change", ["drop", "swap", "forge"])
def test_false_chunk_hashes_are_found_before_the_first_byte(change: str) -> None:
    data, ref = make_tensor(3 * CHUNK_ELEMENTS)
    honest = BlobVerifier(ref)
    feed(honest, data)
    first, second, third = honest.chunk_roots
    roots = {"drop": [first, second], "swap": [second, first, third], "forge": [first, second, first]}[change]
    with pytest.raises(ProtocolFault, match="chunk hashes"):
        BlobVerifier(ref, chunk_roots=roots)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_told_with_its_place(value: float) -> None:
    vector = np.zeros(CHUNK_ELEMENTS + 10, dtype="<f4")
    vector[CHUNK_ELEMENTS + 3] = value
    data = vector.tobytes()
    ref = refer_tensor(merkle.compute_data_root(data), vector.size)
    with pytest.raises(ProtocolFault, match=f"0xpeer: .* not finite .* at element {CHUNK_ELEMENTS + 3}"):
        feed(BlobVerifier(ref, source="0xpeer"), data)


def test_too_long_is_refused_before_the_end() -> None:
    data, ref = make_tensor(100)
    verifier = BlobVerifier(ref)
    verifier.update(data)
    with pytest.raises(ProtocolFault, match="too long"):
        verifier.update(b"\0")


def test_zero_padding_does_not_pass_as_data() -> None:
    data, ref = make_tensor(100)
    padded = data + bytes(1024 - len(data))
    assert merkle.compute_data_root(padded) == ref.key.root
    with pytest.raises(ProtocolFault, match="too long"):
        feed(BlobVerifier(ref), padded)


def test_too_short_is_refused() -> None:
    data, ref = make_tensor(100)
    with pytest.raises(ProtocolFault, match="too short.*expected 400 bytes, got 396 bytes"):
        feed(BlobVerifier(ref), data[:-4])


@pytest.mark.parametrize(
    ("kind", "size"), [(BlobKind.TENSOR, 6), (BlobKind.TENSOR, 0), (BlobKind.DELTA, 261)]
)
def test_misshapen_length_is_refused(kind: BlobKind, size: int) -> None:
    with pytest.raises(InvalidInput, match="cannot have this length"):
        BlobRef(BlobKey(kind, bytes(32)), size)


@pytest.mark.parametrize("root", [b"", bytes(31), bytes(33), "../../etc/passwd", "00" * 16])
def test_a_root_is_32_bytes(root: bytes) -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        BlobKey(BlobKind.BYTES, root)


def test_a_state_is_three_tensors_in_order() -> None:
    header = StateHeader(b"w" * 32, b"m" * 32, b"v" * 32, 1, 2)
    refs = refer_state(header, 10)
    assert [ref.key.root for ref in refs] == [b"w" * 32, b"m" * 32, b"v" * 32]
    assert {ref.size_bytes for ref in refs} == {40}


def test_empty_bytes_have_an_address() -> None:
    ref = refer_bytes(b"")
    assert ref.key.root == hashlib.sha256(b"").digest()
    BlobVerifier(ref).finish()
