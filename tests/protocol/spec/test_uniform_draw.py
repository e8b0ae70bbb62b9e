"""Draws: uniform, distinct, not adjacent, and the same for everybody who knows the seed."""

from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.protocol.spec import shard_draws, uniform_draw
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.hashing import hash_words

SEEDS = st.binary(min_size=32, max_size=32)


def seed(i: int) -> bytes:
    return sha256(b"test draw %d" % i).digest()


def chi_square(counts: Counter[object], cells: int) -> float:
    expected = counts.total() / cells
    return sum((counts[key] - expected) ** 2 / expected for key in counts) + expected * (cells - len(counts))


@given(SEEDS, st.integers(0, 2**64), st.integers(1, 2**256 - 1))
def test_uniform_stays_below_n(random: bytes, counter: int, n: int) -> None:
    assert 0 <= uniform_draw.draw_uniform(random, counter, n) < n


def test_uniform_rejects_and_draws_again() -> None:
    """With n = 2^255 + 1 nearly half of all hashes lie beyond the largest multiple of n."""
    n = 2**255 + 1
    first = [
        int.from_bytes(hash_words("touchstone.uniform", seed(0), counter, 0), "big") for counter in range(64)
    ]
    drawn = [uniform_draw.draw_uniform(seed(0), counter, n) for counter in range(64)]
    rejected = [x >= n for x in first]
    assert 16 < sum(rejected) < 48
    assert all((value == x) is not again for value, x, again in zip(drawn, first, rejected, strict=True))


def test_uniform_is_even() -> None:
    counts: Counter[object] = Counter(uniform_draw.draw_uniform(seed(1), i, 10) for i in range(5_000))
    assert chi_square(counts, 10) < 27.9  # 99.9 % of chi-square with 9 degrees; the draw is fixed


@given(SEEDS, st.integers(0, 20), st.integers(0, 200))
def test_distinct_equals_the_full_shuffle(random: bytes, count: int, extra: int) -> None:
    n = count + extra
    numbers = list(range(n))
    for i in range(count):
        j = i + uniform_draw.draw_uniform(random, 5 + i, n - i)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    assert uniform_draw.draw_distinct(random, 5, count, n) == numbers[:count]
    assert len(set(numbers[:count])) == count


@given(SEEDS, st.integers(1, 64))
def test_shards_are_a_permutation_of_slots(beacon: bytes, count: int) -> None:
    shards = [shard_draws.draw_shard(beacon, slot, count) for slot in range(count)]
    assert sorted(shards) == list(range(count))


@given(SEEDS, st.integers(1, 50), st.integers(1, 500))
def test_samples_leave_room_for_the_labels(beacon: bytes, length: int, extra: int) -> None:
    tokens = length + extra
    start = shard_draws.draw_sample_start(beacon, 2, 7, 1, tokens, length)
    assert start >= 0
    assert start + length < tokens


def test_samples_need_a_dataset() -> None:
    with pytest.raises(InvalidInput, match="shorter than a row"):
        shard_draws.draw_sample_start(seed(0), 0, 0, 0, 64, 64)
