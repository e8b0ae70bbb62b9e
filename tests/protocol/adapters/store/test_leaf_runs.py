"""Runs of leaves: what is asked for, what is sent, and that nothing false passes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.adapters.store.chunk_leaves import RootList, cut_chunk
from touchstone.protocol.adapters.store.chunk_trees import stack_chunk
from touchstone.protocol.adapters.store.leaf_answers import decode_answer, encode_answer
from touchstone.protocol.adapters.store.leaf_runs import (
    MAX_LEAVES,
    MAX_RUNS,
    LeafRun,
    count_leaves,
    count_siblings,
    format_runs,
    list_runs,
    measure_most,
    parse_runs,
    split_requests,
)
from touchstone.protocol.spec import data_trees
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.openings import LeafProof

CHUNK = 32 * 1024


def make_blob(size: int) -> tuple[bytes, BlobRef, list[bytes]]:
    data = bytes((i * i + i // 1000) % 251 for i in range(size))
    ref = BlobRef(BlobKey(BlobKind.DATASET, data_trees.compute_data_root(data)), size)
    chunks = [data[start : start + CHUNK] for start in range(0, size, CHUNK)]
    return data, ref, [stack_chunk(chunk, ref)[-1][0] for chunk in chunks]


def cut_all(data: bytes, ref: BlobRef) -> dict[int, LeafProof]:
    found: dict[int, LeafProof] = {}
    for number in range(ref.chunk_count):
        leaves = range(number * 32, min(number * 32 + 32, count_leaves(ref)))
        found |= cut_chunk(ref, number, data[number * CHUNK : (number + 1) * CHUNK], leaves)
    return found


BLOBS = {size: make_blob(size) for size in (100, 5_000, CHUNK, 3 * CHUNK + 2_500)}


@given(st.sampled_from(sorted(BLOBS)), st.data())
def test_what_is_sent_arrives_and_is_proven(size: int, data: st.DataObject) -> None:
    raw, ref, roots = BLOBS[size]
    leaves = data.draw(st.sets(st.integers(0, count_leaves(ref) - 1), min_size=1))
    runs = parse_runs(format_runs(list_runs(ref, leaves)), ref)
    answer = encode_answer(ref, runs, cut_all(raw, ref))
    assert len(answer) == measure_most(ref, runs)
    found = decode_answer(ref, runs, roots, answer, "peer")
    assert found == {leaf: proof for leaf, proof in cut_all(raw, ref).items() if leaf in leaves}
    for leaf, proof in found.items():
        assert proof.data == raw[leaf * 1024 : (leaf + 1) * 1024].ljust(1024, b"\0")


def test_runs_end_at_the_border_of_a_chunk() -> None:
    ref = BLOBS[3 * CHUNK + 2_500][1]
    assert list_runs(ref, [33, 30, 31, 32, 40]) == [LeafRun(30, 31), LeafRun(32, 33), LeafRun(40, 40)]


def test_a_run_that_is_not_known_whole_is_left_out() -> None:
    raw, ref, roots = BLOBS[CHUNK]
    runs = [LeafRun(0, 1), LeafRun(4, 4)]
    known = {leaf: proof for leaf, proof in cut_all(raw, ref).items() if leaf != 1}
    assert set(decode_answer(ref, runs, roots, encode_answer(ref, runs, known), "peer")) == {4}


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_passes(place: int, change: int) -> None:
    raw, ref, roots = BLOBS[3 * CHUNK + 2_500]
    runs = [LeafRun(3, 5), LeafRun(40, 40), LeafRun(96, 98)]
    answer = bytearray(encode_answer(ref, runs, cut_all(raw, ref)))
    honest = decode_answer(ref, runs, roots, bytes(answer), "peer")
    answer[place % len(answer)] ^= change
    try:
        found = decode_answer(ref, runs, roots, bytes(answer), "liar")
    except ProtocolFault as fault:
        assert fault.culprit == "liar"
    else:
        pytest.fail(f"{sorted(found)} passed, {sorted(honest)} are right")


@pytest.mark.parametrize("cut", [slice(None, -1), slice(None, 0), slice(None, 1), slice(1, None)])
def test_another_length_is_refused(cut: slice) -> None:
    raw, ref, roots = BLOBS[CHUNK]
    runs = [LeafRun(0, 1)]
    answer = encode_answer(ref, runs, cut_all(raw, ref))
    with pytest.raises(ProtocolFault, match="not the blob's"):
        decode_answer(ref, runs, roots, answer[cut], "liar")
    with pytest.raises(ProtocolFault, match="not the blob's"):
        decode_answer(ref, runs, roots, answer + b"\0", "liar")


@pytest.mark.parametrize(
    "text",
    ["", "1", "1-", "2-1", "0-20", "1f-20", "0-0,", "x-1", "-1-0", "0-ffffffff", "63-63",
     "0-0 ", "0-" + "0" * 13,
     ",".join(["0-0"] * (MAX_RUNS + 1)), ",".join(["0-1f"] * (MAX_LEAVES // 32 + 1))],
)  # fmt: skip
def test_malformed_requests_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="these runs of leaves cannot be served"):
        parse_runs(text, BLOBS[3 * CHUNK + 2_500][1])


def test_requests_keep_to_the_limits() -> None:
    ref = replace(BLOBS[CHUNK][1], size_bytes=4_000 * 1024)
    for leaves in (range(0, 4_000, 2), range(4_000)):
        requests = list(split_requests(list_runs(ref, leaves)))
        assert all(parse_runs(format_runs(runs), ref) == runs for runs in requests)
        assert [leaf for runs in requests for run in runs for leaf in run.leaves] == list(leaves)


def test_siblings_are_counted_as_they_are_sent() -> None:
    ref = BLOBS[3 * CHUNK + 2_500][1]
    counts = [count_siblings(ref, LeafRun(0, last)) for last in (0, 1, 15, 31)]
    assert counts == [5, 4, 1, 0]


def test_a_list_of_roots_is_read_as_one() -> None:
    roots = RootList(b"".join(bytes([i]) * 32 for i in range(5)))
    assert len(roots) == 5 and roots[-1] == b"\4" * 32 and roots[1:3] == [b"\1" * 32, b"\2" * 32]
    with pytest.raises(IndexError):
        roots[5]
