"""Draws of the new round. Chances are counted exactly: a scripted source stands in for the hash, and every
script is played."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from hashlib import sha256
from itertools import combinations
from math import factorial, prod
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py_ecc.bls.point_compression import decompress_G1
from py_ecc.bls.typing import G1Compressed
from py_ecc.optimized_bls12_381.optimized_curve import normalize

from tools.vectors.fixed_values import ROUND_1000, TIMESTAMP_S
from touchstone.protocol.spec import audit_draws, quicknet, round_seeds, shard_draws, uniform_draw
from touchstone.protocol.spec.errors import InvalidInput

SEEDS = st.binary(min_size=32, max_size=32)
DOMAIN, RANDOMNESS = bytes(range(32)), bytes(range(32, 64))
T = TypeVar("T")


def seed(i: int) -> bytes:
    return sha256(b"seed %d" % i).digest()


def words(tag: bytes, *fields: bytes | int) -> bytes:
    """H by hand: a tag padded to the right, integers padded to the left."""
    parts = [field.to_bytes(32, "big") if isinstance(field, int) else field for field in fields]
    return sha256(tag.ljust(32, b"\0") + b"".join(parts)).digest()


def touch(a: int, b: int, count: int) -> bool:
    return (a - b) % count in (0, 1, count - 1)


class Script:
    """A source of uniform numbers that answers what is written; 0 where nothing more is."""

    def __init__(self, answers: list[int]) -> None:
        self.answers = answers
        self.sizes: list[int] = []

    def __call__(self, _seed: bytes, _counter: int, n: int) -> int:
        place = len(self.sizes)
        self.sizes.append(n)
        return self.answers[place] if place < len(self.answers) else 0

    @property
    def chance(self) -> Fraction:
        return Fraction(1, prod(self.sizes))

    def branch(self) -> Iterator[list[int]]:
        """The scripts that part from this one where nothing more was written."""
        for place in range(len(self.answers), len(self.sizes)):
            zeros = [0] * (place - len(self.answers))
            yield from ([*self.answers, *zeros, other] for other in range(1, self.sizes[place]))


def play_all(monkeypatch: pytest.MonkeyPatch, play: Callable[[], T]) -> Iterator[tuple[Fraction, T]]:
    """Each way in which a source can answer: its chance, and what `play` made of it."""
    todo: list[list[int]] = [[]]
    while todo:
        script = Script(todo.pop())
        for module in (audit_draws, shard_draws, uniform_draw):
            monkeypatch.setattr(module, "draw_uniform", script)
        result = play()
        yield script.chance, result
        todo += script.branch()


# Seeds
@pytest.mark.parametrize(
    ("from_block", "grid", "expected"), [(0, 8, 0), (1, 8, 8), (8, 8, 8), (9, 8, 16), (17, 1, 17), (7, 5, 10)]
)
def test_the_grid_block_is_the_first_multiple(from_block: int, grid: int, expected: int) -> None:
    assert round_seeds.compute_grid_block(from_block, grid) == expected


@given(st.integers(0, 10**9), st.integers(1, 10**4))
def test_no_grid_block_is_passed_over(from_block: int, grid: int) -> None:
    block = round_seeds.compute_grid_block(from_block, grid)
    assert from_block <= block < from_block + grid and block % grid == 0


@pytest.mark.parametrize(("from_block", "grid"), [(0, 0), (5, -1), (-1, 8)])
def test_a_grid_that_is_none_is_refused(from_block: int, grid: int) -> None:
    with pytest.raises(InvalidInput):
        round_seeds.compute_grid_block(from_block, grid)


def test_seeds_are_the_hashes_by_hand_and_kept_apart() -> None:
    of_round = round_seeds.compute_round_seed(DOMAIN, 7, RANDOMNESS)
    beacon = round_seeds.compute_round_beacon(DOMAIN, 7, RANDOMNESS)
    assert of_round == words(b"touchstone.seed", DOMAIN, 7, RANDOMNESS)
    assert beacon == words(b"touchstone.beacon", DOMAIN, 7, RANDOMNESS)
    others = {
        round_seeds.compute_round_seed(DOMAIN, 8, RANDOMNESS),
        round_seeds.compute_round_seed(RANDOMNESS, 7, RANDOMNESS),
        round_seeds.compute_round_seed(DOMAIN, 7, DOMAIN),
        round_seeds.compute_round_beacon(DOMAIN, 8, RANDOMNESS),
    }
    assert len(others | {of_round, beacon}) == 6


# Segments
@pytest.mark.parametrize(
    ("draws", "count", "expected"),
    [(1, 1, 1), (3, 1, 1), (3, 2, 1), (3, 3, 1), (3, 4, 2), (3, 6, 2), (3, 7, 3), (3, 500, 3), (20, 58, 20)],
)
def test_short_claims_have_fewer_draws(draws: int, count: int, expected: int) -> None:
    assert audit_draws.count_draws(draws, count) == expected


def test_one_more_draw_could_get_stuck() -> None:
    """Segments three apart block everything: the number of draws is the largest that never does."""
    for count in range(4, 60):
        most = audit_draws.count_draws(count, count)
        worst = [3 * i for i in range(most)]
        free = [s for s in range(count) if not any(touch(s, other, count) for other in worst)]
        assert not free


@pytest.mark.parametrize(("draws", "count"), [(0, 5), (-1, 5), (1, 0)])
def test_draws_need_something_to_draw(draws: int, count: int) -> None:
    with pytest.raises(InvalidInput):
        audit_draws.draw_circle_segments(seed(0), 0, draws, count)


@given(SEEDS, st.integers(0, 63), st.integers(1, 20), st.integers(1, 200))
def test_segments_never_touch_on_the_circle(random: bytes, slot: int, draws: int, count: int) -> None:
    drawn = audit_draws.draw_circle_segments(random, slot, draws, count)
    assert len(drawn) == audit_draws.count_draws(draws, count)
    assert all(0 <= segment < count for segment in drawn)
    assert not any(touch(a, b, count) for a, b in combinations(drawn, 2))


SMALL = [(draws, count) for count in range(1, 13) for draws in range(1, 5) if draws <= (count + 2) // 3]


@pytest.mark.parametrize(("draws", "count"), SMALL)
def test_each_segment_is_equally_likely_at_each_draw(
    monkeypatch: pytest.MonkeyPatch, draws: int, count: int
) -> None:
    chances: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    total = Fraction(0)
    for chance, drawn in play_all(
        monkeypatch, lambda: audit_draws.draw_circle_segments(seed(0), 0, draws, count)
    ):
        total += chance
        for place, segment in enumerate(drawn):
            chances[place, segment] += chance
    assert total == 1
    assert chances == {
        (place, segment): Fraction(1, count) for place in range(draws) for segment in range(count)
    }


@pytest.mark.parametrize(("draws", "count"), SMALL)
def test_each_further_segment_is_uniform_among_those_that_do_not_touch(
    monkeypatch: pytest.MonkeyPatch, draws: int, count: int
) -> None:
    """The rule itself, counted: what follows a beginning is as likely as any other that may follow it."""
    chances: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for chance, drawn in play_all(
        monkeypatch, lambda: audit_draws.draw_circle_segments(seed(0), 0, draws, count)
    ):
        for length in range(draws + 1):
            chances[drawn[:length]] += chance
    for beginning, chance in list(chances.items()):
        free = [s for s in range(count) if not any(touch(s, other, count) for other in beginning)]
        if len(beginning) < draws:
            follow = {segment: chances[*beginning, segment] for segment in free}
            assert set(follow.values()) == {chance / len(free)}


def test_the_first_segment_is_the_hash_by_hand() -> None:
    slot_seed = words(b"touchstone.slot", seed(3), 5)
    first = int.from_bytes(words(b"touchstone.uniform", slot_seed, 0, 0), "big")
    # 2^256 is a multiple of 64, so that no hash is rejected. The second stands 2 .. 62 further.
    second = int.from_bytes(words(b"touchstone.uniform", slot_seed, 1, 0), "big")
    drawn = audit_draws.draw_circle_segments(seed(3), 5, 2, 64)
    assert drawn == (first % 64, (first + 2 + second % 61) % 64)


# Auditors
@pytest.mark.parametrize(("size", "count"), [(size, count) for size in range(6) for count in range(size + 1)])
def test_each_beginning_of_an_order_is_equally_likely(
    monkeypatch: pytest.MonkeyPatch, size: int, count: int
) -> None:
    role = audit_draws.VERIFIER_POOL
    orders = list(play_all(monkeypatch, lambda: audit_draws.compute_permutation(seed(0), role, size, count)))
    assert len({order for _, order in orders}) == len(orders)
    assert {chance for chance, _ in orders} == {Fraction(factorial(size - count), factorial(size))}
    assert all(len(order) == count for _, order in orders)


@given(SEEDS, st.integers(0, 300))
def test_a_permutation_holds_each_position_once(random: bytes, size: int) -> None:
    order = audit_draws.compute_permutation(random, audit_draws.VERIFIER_POOL, size, size)
    assert sorted(order) == list(range(size))
    for count in (0, size // 3, size):
        short = audit_draws.compute_permutation(random, audit_draws.VERIFIER_POOL, size, count)
        assert short == order[:count], "cut short, it is the beginning of the whole"


def test_more_places_than_seats_are_refused() -> None:
    with pytest.raises(InvalidInput, match="more than there are"):
        audit_draws.compute_permutation(seed(0), audit_draws.VERIFIER_POOL, 5, 6)


@pytest.mark.parametrize(
    ("size", "draws", "expected"), [(0, 4, 0), (11, 4, 11), (12, 4, 12), (13, 4, 12), (500, 8, 24)]
)
def test_a_large_pool_is_dealt_as_far_as_the_draws_reach(size: int, draws: int, expected: int) -> None:
    assert audit_draws.count_places(size, draws) == expected


def test_the_pools_are_mixed_apart() -> None:
    of = audit_draws.compute_permutation
    orders = {
        of(seed(i), role, 50, 50)
        for i in range(2)
        for role in (audit_draws.VERIFIER_POOL, audit_draws.WHISTLEBLOWER_POOL)
    }
    assert len(orders) == 4


def test_the_first_place_of_a_permutation_is_the_hash_by_hand() -> None:
    role_seed = words(b"touchstone.verifiers", seed(1))
    first = int.from_bytes(words(b"touchstone.uniform", role_seed, 0, 0), "big") % 128
    assert audit_draws.compute_permutation(seed(1), audit_draws.VERIFIER_POOL, 128, 1)[0] == first


def test_auditor_places_by_hand() -> None:
    # q = 2, 5 slots and 7 seats: draw 1 of slot 2 is draw 5. All 7 are dealt, a third of them is 2.
    assert audit_draws.get_auditor_places(7, 2, 1, 2, 5) == (5, 0, 2)
    # Draw 0 of slot 4 is draw 8, which is place 1 again.
    assert audit_draws.get_auditor_places(7, 4, 0, 2, 5) == (1, 3, 5)
    assert audit_draws.get_auditor_places(3, 0, 0, 1, 1) == (0, 1, 2)
    # A third of 8 is 2, and the second reserve stands twice as far as the first.
    assert audit_draws.get_auditor_places(8, 0, 0, 1, 3) == (0, 2, 4)
    # 2 draws in all and 8 seats: 6 places are dealt, the primaries' and twice as many behind them.
    assert audit_draws.get_auditor_places(8, 1, 0, 1, 2) == (1, 3, 5)
    assert audit_draws.get_auditor_places(500, 3, 1, 2, 4) == (7, 15, 23)


@pytest.mark.parametrize("size", range(3, 201))
def test_auditors_are_three_and_nobody_audits_a_claim_twice(size: int) -> None:
    for draws in range(1, size // 3 + 1):
        for slots in {1, 2, size // (3 * draws), size // (3 * draws) + 1, 64}:
            dealt = audit_draws.count_places(size, draws * slots)
            for slot in {0, slots // 2, slots - 1} if slots else ():
                of = audit_draws.get_auditor_places
                everybody = [place for i in range(draws) for place in of(size, slot, i, draws, slots)]
                assert len(set(everybody)) == 3 * draws
                assert all(0 <= place < dealt for place in everybody)


@pytest.mark.parametrize("size", [3, 6, 10, 64, 199, 400])
@pytest.mark.parametrize("slots", [1, 5, 64])
def test_everybody_who_is_dealt_is_drawn_equally_often_give_or_take_one(size: int, slots: int) -> None:
    for draws in {1, 2, size // 3}:
        if size >= 3 * draws:
            for rank in range(3):
                counts = Counter(
                    audit_draws.get_auditor_places(size, slot, i, draws, slots)[rank]
                    for slot in range(slots)
                    for i in range(draws)
                )
                loads = [counts[place] for place in range(audit_draws.count_places(size, draws * slots))]
                assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize(
    ("size", "slot", "index", "draws", "reason"),
    [
        (5, 0, 0, 2, "at least 6, got 5"),
        (2, 0, 0, 1, "at least 3, got 2"),
        (9, 0, 3, 3, "no such draw"),
        (9, 0, -1, 3, "no such draw"),
        (9, 0, 0, 0, "no such draw"),
        (9, -1, 0, 3, "no such slot"),
        (9, 4, 0, 3, "no such slot"),
    ],
)
def test_places_that_are_none_are_refused(size: int, slot: int, index: int, draws: int, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        audit_draws.get_auditor_places(size, slot, index, draws, 4)


# Late draws
@given(SEEDS, st.integers(0, 63), st.integers(1, 6), st.integers(2, 60), st.integers(3, 90))
def test_a_late_draw_takes_another_segment_and_three_whistleblowers(
    random: bytes, slot: int, draws: int, count: int, size: int
) -> None:
    drawn = audit_draws.draw_circle_segments(random, slot, draws, count)
    late = audit_draws.draw_late(random, slot, 65_536, drawn, count, size, 64)
    assert late is not None
    assert late.segment in set(range(count)) - set(drawn)
    assert len(set(late.places)) == 3 and all(0 <= place < size for place in late.places)
    assert late.places[0] == slot % size, "64 slots deal all of 90 seats"


def test_a_claim_whose_segments_are_all_drawn_has_no_late_draw() -> None:
    assert audit_draws.draw_late(seed(0), 0, 65_536, (0,), 1, 3, 1) is None


@pytest.mark.parametrize(("draws", "count"), [(1, 2), (1, 3), (2, 4), (2, 7), (3, 8)])
def test_late_each_segment_is_equally_likely(monkeypatch: pytest.MonkeyPatch, draws: int, count: int) -> None:
    """With the draws before it, which decide what is left."""
    # The chance itself is halved to two cases, or the enumeration would have 65,536 branches.
    monkeypatch.setattr(audit_draws, "LATE_RATE_ONE", 2)

    def play() -> audit_draws.LateDraw | None:
        drawn = audit_draws.draw_circle_segments(seed(0), 0, draws, count)
        return audit_draws.draw_late(seed(0), 0, 1, drawn, count, 3, 1)

    chances: dict[int | None, Fraction] = defaultdict(Fraction)
    for chance, late in play_all(monkeypatch, play):
        chances[None if late is None else late.segment] += chance
    assert chances == {None: Fraction(1, 2)} | {segment: Fraction(1, 2 * count) for segment in range(count)}


def test_the_chance_is_met_exactly() -> None:
    slot_seed = words(b"touchstone.late-slot", seed(9), 4)
    # 2^256 is a multiple of 65,536: the first hash counts.
    number = int.from_bytes(words(b"touchstone.uniform", slot_seed, 0, 0), "big") % 65_536
    assert 0 < number < 65_535
    assert audit_draws.draw_late(seed(9), 4, number, (0,), 5, 3, 5) is None
    assert audit_draws.draw_late(seed(9), 4, number + 1, (0,), 5, 3, 5) is not None
    assert audit_draws.draw_late(seed(9), 4, 0, (0,), 5, 3, 5) is None
    assert audit_draws.draw_late(seed(9), 4, 65_536, (0,), 5, 3, 5) is not None


def test_the_late_segment_is_the_hash_by_hand() -> None:
    slot_seed = words(b"touchstone.late-slot", seed(2), 6)
    place = int.from_bytes(words(b"touchstone.uniform", slot_seed, 1, 0), "big") % 8
    late = audit_draws.draw_late(seed(2), 6, 65_536, (7, 2), 10, 5, 7)
    assert late == audit_draws.LateDraw([0, 1, 3, 4, 5, 6, 8, 9][place], (1, 2, 3))


def test_late_draws_do_not_depend_on_the_first_ones() -> None:
    """The chance and the segment come from another seed than the segments before."""
    numbers = {
        uniform_draw.draw_uniform(round_seeds.compute_slot_seed(seed(0), slot), 0, 1 << 64)
        for slot in range(9)
    }
    late = {
        uniform_draw.draw_uniform(words(b"touchstone.late-slot", seed(0), slot), 0, 1 << 64)
        for slot in range(9)
    }
    assert not numbers & late


@pytest.mark.parametrize(("chance", "size"), [(-1, 3), (65_537, 3), (65_536, 2), (65_536, 0)])
def test_late_draws_that_are_none_are_refused(chance: int, size: int) -> None:
    with pytest.raises(InvalidInput):
        audit_draws.draw_late(seed(0), 0, chance, (0,), 5, size, 1)


# Shards
@given(SEEDS, st.integers(1, 64))
def test_shards_are_those_of_a_rotation(beacon: bytes, count: int) -> None:
    shards = shard_draws.assign_shards(beacon, count)
    assert sorted(shards) == list(range(count))
    assert shards == tuple(shard_draws.draw_shard(beacon, slot, count) for slot in range(count))


def test_each_slot_gets_each_shard_equally_often(monkeypatch: pytest.MonkeyPatch) -> None:
    dealt = list(play_all(monkeypatch, lambda: shard_draws.assign_shards(seed(0), 5)))
    assert {chance for chance, _ in dealt} == {Fraction(1, 5)}
    for slot in range(5):
        assert sorted(shards[slot] for _, shards in dealt) == list(range(5))


def test_a_round_needs_a_solver() -> None:
    with pytest.raises(InvalidInput, match="without solvers"):
        shard_draws.assign_shards(seed(0), 0)


PUBLISHED = "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd"


def test_the_randomness_is_the_published_one() -> None:
    assert quicknet.compute_randomness(ROUND_1000).hex() == PUBLISHED
    assert quicknet.mix(bytes(32), ROUND_1000) == sha256(bytes(32) + bytes.fromhex(PUBLISHED)).digest()


@pytest.mark.parametrize("later_s", range(7))
def test_the_round_is_due_a_margin_after_the_block_and_the_one_before_is_not(later_s: int) -> None:
    timestamp_s = TIMESTAMP_S + later_s
    found = quicknet.compute_round_after(timestamp_s)
    assert (
        quicknet.compute_due_s(found) >= timestamp_s + quicknet.MARGIN_S > quicknet.compute_due_s(found - 1)
    )


def test_before_the_first_round_there_is_the_first() -> None:
    assert (
        quicknet.compute_round_after(0)
        == 1
        == quicknet.compute_round_after(quicknet.GENESIS_S - quicknet.MARGIN_S)
    )
    assert quicknet.compute_round_after(TIMESTAMP_S) == 1000


@pytest.mark.parametrize("flip", [0x00, 0x20])
def test_a_point_is_what_py_ecc_makes_of_it(flip: int) -> None:
    signature = bytes([ROUND_1000[0] ^ flip]) + ROUND_1000[1:]
    x, y = normalize(decompress_G1(G1Compressed(int.from_bytes(signature, "big"))))
    assert quicknet.expand_point(signature) == int(x).to_bytes(64, "big") + int(y).to_bytes(64, "big")


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        ROUND_1000[:-1],
        ROUND_1000 + b"\x00",
        bytes([ROUND_1000[0] & 0x7F]) + ROUND_1000[1:],
        b"\xc0" + bytes(47),
        b"\x9f" + b"\xff" * 47,
        # x = 1: 1 + 4 = 5 is no square.
        b"\x80" + bytes(46) + b"\x01",
    ],
    ids=["nothing", "short", "long", "not compressed", "infinity", "beyond the modulus", "off the curve"],
)
def test_bytes_that_are_no_point_are_refused(signature: bytes) -> None:
    with pytest.raises(InvalidInput, match="no signature of drand"):
        quicknet.expand_point(signature)
