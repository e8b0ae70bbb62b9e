"""A taste of the campaign: nobody honest is rejected, a false result among the honest ones is, and what was
measured once is not measured again."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.benchmarks import honest_replays
from lab.benchmarks.replays.machines import SUMS, list_machines
from lab.benchmarks.replays.pairs import RATIO_UNIT, Track, judge_pairs, measure_pairs
from tests.training_setting import propose_limits
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import Distances

RATE_SUM = 1 << 62
LIMITS = propose_limits([Distances(1e-5, 1e-5, 1e-5, 0, 0, 0)])
QUIET = Distances(1e-6, 1e-6, 1e-6, 0, 0, 0)
"""Usual noise."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("build")


@pytest.fixture(autouse=True)
def _build_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(honest_replays, "BUILD", folder)


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    pin_kernels(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(honest_replays, "BUILD", folder)
        return honest_replays.run_honest(quick=True)


def find_records(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in folder.glob("*/*/*.json")}


def test_run_honest_rejects_nobody(report: dict[str, Any]) -> None:
    assert report["start_states"] == 60 and report["configurations"] == 3
    assert report["replays"] == 64 * 3 * 2 and report["identical_pairs"] < report["replays"]
    assert report["rejected"] == report["noise"] == 0
    assert set(report["stages"]) == {"zero moments", "warm-up", "middle", "end"}
    assert sum(report["histogram"]["counts"]) == report["replays"]
    ratios = report["models"]["tiny"]["distance_over_unit"]
    # The distance between machines depends on the processor; the rule is that it stays inside the limits.
    assert all(0 < ratios[name]["1.0"] < 1 / RATIO_UNIT for name in ("first_moment", "second_moment"))


def test_run_honest_takes_limits_from_other_segments(report: dict[str, Any], folder: Path) -> None:
    records = find_records(folder)
    starts = [
        {segment["start"] for segment in json.loads(records[f"tiny-{purpose}-0"].read_text())}
        for purpose in ("calibration", "campaign")
    ]
    assert len(starts[0]) == len(starts[1]) == 60 and not starts[0] & starts[1]


def test_run_honest_measures_only_what_is_missing(
    report: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = find_records(folder)["tiny-campaign-0"], []
    content = path.read_text()

    def measure(plan: object, place: Path, tracks: list[Track]) -> None:
        asked.extend(tracks)
        path.write_text(content)

    monkeypatch.setattr(honest_replays, "_measure_tracks", measure)
    assert honest_replays.run_honest(quick=True) == report and asked == []
    path.unlink()
    assert honest_replays.run_honest(quick=True) == report
    assert asked == [Track("tiny", "campaign", 0, 2)]


# Pairs
def make_state(moment: float) -> TrainingState:
    return TrainingState(torch.ones(4), torch.full((4,), moment), torch.ones(4), 5, 5)


def test_judge_pairs_counts_whoever_meets_a_false_machine() -> None:
    ends = [make_state(0.5), make_state(0.5), make_state(0.5 + 1e-3)]
    judged = judge_pairs(ends, RATE_SUM, LIMITS, (QUIET, QUIET))
    assert (judged.replays, judged.identical, judged.noise, judged.rejected) == (6, 2, 0, 4)
    assert max(judged.ratios["first_moment"]) == pytest.approx(1e-3 / 4e-5, rel=1e-3)


def test_judge_pairs_rejects_nobody_within_the_limits() -> None:
    judged = judge_pairs([make_state(0.5), make_state(0.5 + 6e-5)], RATE_SUM, LIMITS, (QUIET, QUIET))
    assert (judged.replays, judged.noise, judged.rejected) == (2, 0, 0)


def test_judge_pairs_rejects_nobody_for_the_segments_own_noise() -> None:
    ends, loud = [make_state(0.5), make_state(0.5 + 1e-3)], replace(QUIET, first_moment=2e-4)
    judged = judge_pairs(ends, RATE_SUM, LIMITS, (loud, QUIET))
    assert (judged.rejected, judged.noise) == (0, 2)
    judged = judge_pairs(ends, RATE_SUM, LIMITS, (loud, loud))
    assert (judged.rejected, judged.noise) == (2, 0)


def test_judge_pairs_rejects_what_is_not_a_number() -> None:
    broken = replace(make_state(0.5), weights=torch.full((4,), float("nan")))
    assert judge_pairs([broken, broken], RATE_SUM, LIMITS, (QUIET, QUIET)).rejected == 2


def test_measure_pairs_compares_in_both_directions() -> None:
    smaller = replace(make_state(0.5), second_moment=torch.full((4,), 0.25))
    first, second = measure_pairs([make_state(0.5), smaller], 1.0)
    assert first.second_moment == pytest.approx(3.0) and second.second_moment == pytest.approx(0.75)


# Machines
def test_list_machines_names_at_least_twelve() -> None:
    machines = list_machines()
    assert len({machine.name for machine in machines}) == len(machines) >= 12
    assert {machine.sums for machine in machines} == set(SUMS)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("product", [torch.mm, torch.bmm])
@pytest.mark.parametrize("terms", [1, 2, 301])
def test_sums_are_the_product_in_another_order(name: str, product: Callable[..., Tensor], terms: int) -> None:
    generator = torch.Generator().manual_seed(1)
    shape = (3,) if product is torch.bmm else ()
    a, b = (torch.randn((*shape, *size), generator=generator) for size in ((5, terms), (terms, 7)))
    out, exact = torch.full((*shape, 5, 7), float("nan")), a.double() @ b.double()
    SUMS[name](product)(a, b, out=out)
    assert (out - exact).abs().max() <= terms * 2**-24 * (a.abs() @ b.abs()).max()
    if terms > 300 and name != "library":
        assert not torch.equal(out, product(a, b))
