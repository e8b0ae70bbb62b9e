"""Draws: uniform, distinct, not adjacent, and the same for everybody who knows the seed."""

from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.spec import draw
from protocol.spec.errors import InvalidInput
from protocol.spec.hashing import hash_words

SEEDS = st.binary(min_size=32, max_size=32)


def seed(i: int) -> bytes:
    return sha256(b"test draw %d" % i).digest()


def chi_square(counts: Counter[object], cells: int) -> float:
    expected = counts.total() / cells
    return sum((counts[key] - expected) ** 2 / expected for key in counts) + expected * (cells - len(counts))


@given(SEEDS, st.integers(0, 2**64), st.integers(1, 2**256 - 1))
def test_uniform_stays_below_n(random: bytes, counter: int, n: int) -> None:
    assert 0 <= draw.draw_uniform(random, counter, n) < n


def test_uniform_rejects_and_draws_again() -> None:
    """With n = 2^255 + 1 nearly half of all hashes lie beyond the largest multiple of n."""
    n = 2**255 + 1
    first = [
        int.from_bytes(hash_words("touchstone.uniform", seed(0), counter, 0), "big") for counter in range(64)
    ]
    drawn = [draw.draw_uniform(seed(0), counter, n) for counter in range(64)]
    rejected = [x >= n for x in first]
    assert 16 < sum(rejected) < 48
    assert all((value == x) is not again for value, x, again in zip(drawn, first, rejected, strict=True))


def test_uniform_is_even() -> None:
    counts: Counter[object] = Counter(draw.draw_uniform(seed(1), i, 10) for i in range(5_000))
    assert chi_square(counts, 10) < 27.9  # 99.9 % of chi-square with 9 degrees; the draw is fixed


@given(SEEDS, st.integers(0, 20), st.integers(0, 200))
def test_distinct_equals_the_full_shuffle(random: bytes, count: int, extra: int) -> None:
    n = count + extra
    numbers = list(range(n))
    for i in range(count):
        j = i + draw.draw_uniform(random, 5 + i, n - i)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    assert draw.draw_distinct(random, 5, count, n) == numbers[:count]
    assert len(set(numbers[:count])) == count


@given(SEEDS, st.integers(1, 8), st.integers(0, 50))
def test_segments_ascend_and_never_touch(random: bytes, draws: int, extra: int) -> None:
    count = 2 * draws - 1 + extra
    drawn = draw.draw_segments(random, draws, count)
    assert len(drawn) == draws
    assert all(0 <= segment < count for segment in drawn)
    assert all(after - before >= 2 for before, after in zip(drawn, drawn[1:], strict=False))


def test_segments_are_uniform_over_the_allowed_sets() -> None:
    counts: Counter[object] = Counter(tuple(draw.draw_segments(seed(i), 2, 6)) for i in range(4_000))
    assert len(counts) == 10
    assert chi_square(counts, 10) < 27.9


@pytest.mark.parametrize(("draws", "count"), [(0, 5), (2, 2), (3, 4)])
def test_segments_need_room(draws: int, count: int) -> None:
    with pytest.raises(InvalidInput, match="not adjacent"):
        draw.draw_segments(seed(0), draws, count)


@given(SEEDS, st.integers(0, 200), st.integers(3, 900))
def test_auditors_are_three_different_verifiers(random: bytes, index: int, count: int) -> None:
    drawn = draw.draw_auditors(random, index, count)
    assert len(set(drawn)) == 3
    assert all(0 <= verifier < count for verifier in drawn)


def test_auditors_need_three_verifiers() -> None:
    with pytest.raises(InvalidInput, match="at least 3, got 2"):
        draw.draw_auditors(seed(0), 0, 2)


@given(SEEDS, st.integers(1, 64))
def test_shards_are_a_permutation_of_slots(beacon: bytes, count: int) -> None:
    shards = [draw.draw_shard(beacon, slot, count) for slot in range(count)]
    assert sorted(shards) == list(range(count))


@given(SEEDS, st.integers(0, 63), st.integers(1, 20), st.data())
def test_late_audits_take_an_undrawn_segment(
    random: bytes, slot: int, count: int, data: st.DataObject
) -> None:
    drawn = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    audit = draw.draw_late_audit(random, slot, 65_536, drawn, count, 3)
    if len(drawn) == count:
        assert audit is None
        return
    assert audit is not None
    assert audit.segment in set(range(count)) - set(drawn)
    assert 0 <= audit.whistleblower < 3


def test_late_audits_come_at_the_task_s_rate() -> None:
    due = sum(draw.draw_late_audit(seed(i), 0, 16_384, [0], 4, 1) is not None for i in range(4_000))
    assert 900 < due < 1_100
    assert draw.draw_late_audit(seed(0), 0, 0, [0], 4, 1) is None
    assert draw.draw_late_audit(seed(0), 0, 65_536, [0], 4, 0) is None


@given(SEEDS, st.integers(1, 20), st.integers(1, 40))
def test_leaves_are_distinct_and_at_most_all(random: bytes, draws: int, count: int) -> None:
    drawn = draw.draw_leaves(random, 3, 1, draws, count)
    assert len(set(drawn)) == len(drawn) == min(draws, count)
    assert all(0 <= leaf < count for leaf in drawn)


def test_leaves_differ_between_slots_and_draws() -> None:
    drawn = {
        tuple(draw.draw_leaves(seed(0), slot, index, 4, 4_000)) for slot in range(3) for index in range(3)
    }
    assert len(drawn) == 9


@given(SEEDS, st.integers(1, 50), st.integers(1, 500))
def test_samples_leave_room_for_the_labels(beacon: bytes, length: int, extra: int) -> None:
    tokens = length + extra
    start = draw.draw_sample_start(beacon, 2, 7, 1, tokens, length)
    assert start >= 0
    assert start + length < tokens


def test_samples_need_a_dataset() -> None:
    with pytest.raises(InvalidInput, match="shorter than a row"):
        draw.draw_sample_start(seed(0), 0, 0, 0, 64, 64)


def test_seeds_are_kept_apart() -> None:
    domain, randomness = seed(1), seed(2)
    seeds = {
        draw.compute_beacon(domain, 3, randomness),
        draw.compute_draw_seed(domain, 3, randomness),
        draw.compute_draw_seed(domain, 4, randomness),
        draw.compute_late_seed(domain, 3, randomness),
        *(draw.compute_leaf_seed(domain, 3, phase, randomness) for phase in range(3)),
        *(draw.compute_slot_seed(domain, slot) for slot in range(3)),
    }
    assert len(seeds) == 10
