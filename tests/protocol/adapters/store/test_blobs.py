import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.adapters.parties import CHUNK_ELEMENTS, make_roots, make_tensor, make_trace_tensor
from touchstone.protocol.adapters.store.blob_verifier import BlobVerifier, require_finite
from touchstone.protocol.adapters.store.blobs import (
    TRACE_KINDS,
    BlobKey,
    BlobKind,
    BlobRef,
    get_trace_kind,
    refer_delta,
    refer_roots,
    refer_state,
    refer_tensor,
    refer_trace_tensor,
)
from touchstone.protocol.adapters.store.chunk_trees import fold_chunks
from touchstone.protocol.spec import data_trees, merkle
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES
from touchstone.protocol.spec.state_headers import StateHeader


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
    assert fold_chunks(verifier.chunk_roots, ref.key.kind) == ref.key.root
    assert len(verifier.chunk_roots) == ref.chunk_count


@given(st.binary(min_size=1, max_size=5000), st.integers(1, 3000))
def test_pieces_of_any_length_are_taken(data: bytes, piece_bytes: int) -> None:
    ref = BlobRef(BlobKey(BlobKind.DATASET, data_trees.compute_data_root(data)), len(data))
    feed(BlobVerifier(ref), data, piece_bytes)


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
    assert verifier.received_bytes == ref.chunk_bytes


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
    ref = refer_tensor(data_trees.compute_data_root(data), vector.size)
    with pytest.raises(ProtocolFault, match=f"0xpeer: .* not finite .* at element {CHUNK_ELEMENTS + 3}"):
        feed(BlobVerifier(ref, source="0xpeer"), data)


PATTERNS = st.one_of(
    st.sampled_from([0x80000000, 1, 0x80000001, 0x007FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000]),
    st.sampled_from([0x7F800001, 0x7FC00000, 0xFFC00000, 0xFFFFFFFF, 0xFF800001]),
    st.integers(0, 0xFFFFFFFF),
)
"""Of float32: -0, the least and largest finite numbers, infinities, NaN that signal and such that do not."""


@pytest.mark.filterwarnings("error")
@given(st.dictionaries(st.integers(0, CHUNK_ELEMENTS + 9), PATTERNS, max_size=4))
@settings(max_examples=60, deadline=None)
def test_the_first_number_that_is_not_finite_is_found_wherever_it_stands(patterns: dict[int, int]) -> None:
    vector = np.zeros(CHUNK_ELEMENTS + 10, dtype="<u4")
    for place, pattern in patterns.items():
        vector[place] = pattern
    wrong = [place for place, pattern in sorted(patterns.items()) if pattern >> 23 & 0xFF == 0xFF]
    ref = refer_tensor(bytes(32), vector.size)
    if wrong:
        with pytest.raises(ProtocolFault, match=f"at element {wrong[0] + CHUNK_ELEMENTS}\\."):
            require_finite(ref, vector.tobytes(), first_chunk=1)
    else:
        require_finite(ref, vector.tobytes(), first_chunk=1)


def test_too_long_is_refused_before_the_end() -> None:
    data, ref = make_tensor(100)
    verifier = BlobVerifier(ref)
    verifier.update(data)
    with pytest.raises(ProtocolFault, match="too long"):
        verifier.update(b"\0")


def test_zero_padding_does_not_pass_as_data() -> None:
    data, ref = make_tensor(100)
    padded = data + bytes(1024 - len(data))
    assert data_trees.compute_data_root(padded) == ref.key.root
    with pytest.raises(ProtocolFault, match="too long"):
        feed(BlobVerifier(ref), padded)


def test_too_short_is_refused() -> None:
    data, ref = make_tensor(100)
    with pytest.raises(ProtocolFault, match="too short.*expected 400 bytes, got 396 bytes"):
        feed(BlobVerifier(ref), data[:-4])


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (BlobKind.TENSOR, 6),
        (BlobKind.TENSOR, 0),
        (BlobKind.DELTA, 261),
        (BlobKind.TRACE_512, 0),
        (BlobKind.TRACE_4096, 0),
        (BlobKind.ROOTS, 33),
        (BlobKind.ROOTS, 0),
    ],
)
def test_misshapen_length_is_refused(kind: BlobKind, size: int) -> None:
    with pytest.raises(InvalidInput, match="cannot have this length"):
        BlobRef(BlobKey(kind, bytes(32)), size)


@pytest.mark.parametrize("root", [b"", bytes(31), bytes(33), "../../etc/passwd", "00" * 16])
def test_a_root_is_32_bytes(root: bytes) -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        BlobKey(BlobKind.DATASET, root)


def test_a_state_is_three_tensors_in_order() -> None:
    header = StateHeader(b"w" * 32, b"m" * 32, b"v" * 32, 1, 2)
    refs = refer_state(header, 10)
    assert [ref.key.root for ref in refs] == [b"w" * 32, b"m" * 32, b"v" * 32]
    assert {ref.size_bytes for ref in refs} == {40}


# Traces
@pytest.mark.parametrize("leaf_bytes", [512, 1024, 2048, 4096])
@pytest.mark.parametrize("leaves", [0.01, 1, 1.5, 1024, 1024.5, 3000.25])
def test_a_tensor_of_a_trace_has_leaves_of_its_own_size(leaf_bytes: int, leaves: float) -> None:
    data, ref, _ = make_trace_tensor(round(leaves * leaf_bytes / 4), leaf_bytes)
    verifier = BlobVerifier(ref)
    feed(verifier, data)
    assert ref.key.kind.leaf_bytes == leaf_bytes
    assert (
        len(verifier.chunk_roots)
        == ref.chunk_count
        == -(-len(data) // (ref.key.kind.chunk_leaves * leaf_bytes))
    )


@pytest.mark.parametrize("kind", [kind for kind in BlobKind if kind in TRACE_KINDS])
def test_a_trace_may_hold_what_is_not_finite(kind: BlobKind) -> None:
    bits = np.array([0x7F800000, 0xFF800000, 0x7FC00001, 0x7F800001, 5], dtype="<u4")
    root = merkle.hash_leaf(bits.tobytes().ljust(kind.leaf_bytes, b"\0"))
    feed(BlobVerifier(refer_trace_tensor(root, 20, kind.leaf_bytes)), bits.tobytes())


@pytest.mark.parametrize("leaf_bytes", [512, 2048, 4096])
def test_a_wrong_byte_of_a_trace_names_its_source(leaf_bytes: int) -> None:
    data, ref, _ = make_trace_tensor(300 * leaf_bytes, leaf_bytes)
    wrong = bytearray(data)
    wrong[-1] ^= 1
    with pytest.raises(ProtocolFault, match="do not match their root") as caught:
        feed(BlobVerifier(ref, source="0xbad"), bytes(wrong))
    assert caught.value.culprit == "0xbad"


def test_the_bytes_of_one_leaf_size_have_no_root_in_another() -> None:
    data, ref, _ = make_trace_tensor(5000, 2048)
    with pytest.raises(ProtocolFault, match="do not match their root"):
        feed(BlobVerifier(refer_trace_tensor(ref.key.root, 20000, 4096)), data)


@pytest.mark.parametrize("leaf_bytes", [0, 256, 260, 8192])
def test_no_tensor_of_a_trace_has_other_leaves(leaf_bytes: int) -> None:
    with pytest.raises(InvalidInput, match="leaves of this size"):
        get_trace_kind(leaf_bytes)


@pytest.mark.parametrize("count", [1, 2, 700, 1024, 1025, 3000])
def test_the_address_of_roots_is_the_trace_root(count: int) -> None:
    roots = make_roots(count)
    verifier = BlobVerifier(refer_roots(merkle.compute_root(roots), count))
    feed(verifier, b"".join(roots), 1000)
    assert len(verifier.chunk_roots) == -(-count // BlobKind.ROOTS.chunk_leaves)


@pytest.mark.parametrize("change", ["swap", "drop", "more"])
def test_other_roots_are_found(change: str) -> None:
    first, second, *rest = roots = make_roots(1500)
    ref = refer_roots(merkle.compute_root(roots), 1500)
    wrong = {"swap": [second, first, *rest], "drop": roots[:-1], "more": [*roots, first]}[change]
    with pytest.raises(ProtocolFault, match=r"0xpeer.*(too short|too long|do not match)"):
        feed(BlobVerifier(ref, source="0xpeer"), b"".join(wrong))


def test_a_zero_word_is_no_root_though_the_tree_would_be_the_same() -> None:
    roots = make_roots(1030)
    ref = refer_roots(merkle.compute_root(roots), 1031)
    with pytest.raises(ProtocolFault, match="0xpeer.*zero word.*as root 1030"):
        feed(BlobVerifier(ref, source="0xpeer"), b"".join([*roots, bytes(32)]))


# Chunks
@pytest.mark.parametrize("chunks", [range(0), range(2, 4), range(-1, 1), range(0, 3, 2), range(2, 1)])
def test_there_are_no_other_chunks(chunks: range) -> None:
    _, ref, _ = make_trace_tensor(3 * 128 * 32, 512)
    with pytest.raises(InvalidInput, match="no chunks with these numbers"):
        ref.locate_chunks(chunks)
