"""Workers of the benchmark: ways to compute, and what they print."""

from pathlib import Path

from lab.benchmarks.exactness.walking import (
    NUMPY,
    Run,
    Walk,
    advance_by_numpy,
    list_ways,
    name_state,
    start_worker,
    walk,
)

RUN = Run("0.2M", "exact15")


def test_there_are_sixteen_ways_and_more_with_other_interpreters() -> None:
    ways = list_ways()
    assert len(ways) >= 9 and len({way.name for way in ways}) == len(ways)
    assert {way.family for way in ways} == {"bytes", "doubles", NUMPY}
    assert len(list_ways(("/somewhere/bin/python",))) == len(ways) + 2


def test_a_walk_from_a_stored_state_goes_on_as_the_whole_one_does(tmp_path: Path) -> None:
    whole = list(walk(Walk(RUN, 0, 4, kept=(2,)), tmp_path))
    assert name_state(tmp_path, RUN, 2).exists()
    assert list(walk(Walk(RUN, 2, 2), tmp_path)) == whole[2:]


def test_numpy_walks_to_the_same_bits(tmp_path: Path) -> None:
    job = Walk(RUN, 0, 2)
    assert list(walk(job, tmp_path, advance_by_numpy)) == list(walk(job, tmp_path))


def test_a_worker_prints_what_it_came_to(tmp_path: Path) -> None:
    way = next(way for way in list_ways() if way.family == "doubles")
    found = start_worker(way, tmp_path, Walk(RUN, 0, 2))
    expected = list(walk(Walk(RUN, 0, 2), tmp_path))
    assert [digest for digest, _ in found] == [digest for digest, _ in expected]
