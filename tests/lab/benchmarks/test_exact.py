"""What the benchmark of the exact formats says of what its workers found."""

from pathlib import Path

import pytest

from lab.benchmarks import exact
from lab.benchmarks.exact import FULL, NORMAL, QUICK, choose_ways, compare_walks, run
from lab.benchmarks.exactness import tracing
from lab.benchmarks.exactness.walking import Walk, Way, list_ways

WAYS = list_ways()[:3]


def tell(way: Way, folder: Path, *jobs: Walk) -> list[tuple[str, float]]:
    """A worker that computes nothing; the third way has other bits from step 4 of each walk on."""
    is_other = way == WAYS[2]
    return [
        (f"{job.run.size} {job.start + n}{' other' * (is_other and n >= 4)}", 2.0 + 0.1 * job.run.seed)
        for job in jobs
        for n in range(job.steps)
    ]


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "start_worker", tell)
    monkeypatch.setattr(tracing, "start_worker", tell)


def test_steps_with_other_bits_are_counted_and_named(tmp_path: Path) -> None:
    assert compare_walks(QUICK, WAYS[:2], tmp_path)["bits_differ"] == 0
    found = compare_walks(QUICK, WAYS, tmp_path)
    assert found["steps"] > 0 and found["bits_differ"] == 0, "two steps a stage: the fault comes later"
    longer = exact.Plan("x", {"0.2M": (50, 20, 2)}, {}, 5, (2, 1), {})
    found = compare_walks(longer, WAYS, tmp_path)
    assert found["steps"] == 3 * 50 + 2 * 20 and found["bits_differ"] == 5 * 6
    assert WAYS[2].name in found["first_differing"][0]


def test_half_of_the_kernel_configurations_walk_and_all_replay(tmp_path: Path) -> None:
    ways = list_ways(("/other/bin/python",))
    walking = choose_ways(ways, NORMAL.share)
    kernels = [way for way in walking if way.is_kernel_configuration]
    # How many there are is a matter of the processor.
    assert len(kernels) == sum(way.is_kernel_configuration for way in ways) // NORMAL.share
    assert walking == choose_ways(ways, NORMAL.share), "the same ones each time"
    others = [way for way in ways if not way.is_kernel_configuration]
    assert walking[0] == ways[0] and all(way in walking for way in others)
    assert choose_ways(ways, FULL.share) == ways
    found = compare_walks(exact.Plan("x", {"0.2M": (5, 1, 2)}, {}, 5, (1, 2), {}, share=2), ways, tmp_path)
    assert found["steps"] == 5 * len(walking) + 2
    assert found["unstable"]["replays"] == 4 * 2 * len(ways)


def test_replays_with_another_end_are_rejected(tmp_path: Path) -> None:
    plan = exact.Plan("x", {}, {}, 5, (10, 2), {})
    found = compare_walks(plan, WAYS, tmp_path)
    assert found["unstable"] == {"replays": 4 * 2 * 3, "rejected": 4 * 2}


def test_only_the_parts_that_are_named_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    gas = {f"sum{n}": {"median": 5, "largest": n} for n in FULL.sums}
    monkeypatch.setattr(exact, "measure_sums", lambda *_: gas)
    report = run(FULL, (), ("gas",))
    assert report.keys() == {"configurations", "gas", "gas_of_sums"}
    assert report["gas"] == {"sum512": 512, "sum4096": 4096}


def test_cases_of_both_referees_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = {"all fault": 3, "all honest": 4, "ADD fault": 3}
    monkeypatch.setattr(
        exact, "compare_verdicts", lambda *_: {"cases": 7, "differences": 0, "verdicts": verdicts}
    )
    assert run(QUICK, (), ("referee",))["referee"] == {
        "cases": 7, "differences": 0, "faults": 3, "honest": 4,
    }  # fmt: skip
