"""The question of steering in its shortest form: every figure is there and has the right size."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from benchmarks import steering
from benchmarks.bending.attacks import (
    MODELS,
    Setting,
    build_setting,
    build_steerer,
    choose_loud,
    find_gradient,
)
from benchmarks.bending.poison import measure_many_steps
from benchmarks.steering import measure_cost, measure_single_steps, plot
from protocol.compute.determinism import pin_kernels

CHUNKS = (128, 4096)
STEPS = 4


@pytest.fixture(scope="module")
def setting() -> Setting:
    pin_kernels(1)
    return build_setting(MODELS["tiny"], STEPS, 2)


@pytest.fixture(scope="module")
def report(setting: Setting) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(steering, "WORST_WEIGHTS", 1)
        patch.setattr(steering, "UPDATE_ROUNDS", 1)
        rows = list(measure_single_steps(setting, CHUNKS, (3,)))
        runs = list(measure_many_steps(setting, CHUNKS, STEPS, with_random=True))
        cost = measure_cost(setting, CHUNKS, 2)
    return {
        "single_steps": {"tiny": rows},
        "cost": {"tiny": cost},
        "many_steps": {"model": "tiny", "steps": STEPS, "runs": runs},
    }


def test_one_step_is_steered_inside_the_bounds(report: dict[str, Any]) -> None:
    for row in report["single_steps"]["tiny"]:
        assert row["elements_outside"] == 0
        assert row["worst_weight_lr"] > row["ordinary_weight_lr"] > row["other_order"]["largest_weight_lr"]
        assert row["update_norm"] > 5 * row["other_order"]["update_norm"]
        assert row["poison_gain_nats"] == pytest.approx(row["poison_gain_first_order_nats"], rel=0.1)
        assert row["poison_gain_nats"] > 3 * row["poison_gain_of_random_signs_nats"]
        assert sum(row["share_by_operation"].values()) == pytest.approx(1)


def test_longer_sums_leave_more_room(report: dict[str, Any]) -> None:
    short, long = report["single_steps"]["tiny"]
    assert long["update_norm"] > short["update_norm"]
    assert long["poison_gain_nats"] > short["poison_gain_nats"]


def test_many_steps_are_followed_in_curves(report: dict[str, Any]) -> None:
    runs = report["many_steps"]["runs"]
    kinds = [(run["kind"], run["chunk_terms"]) for run in runs]
    assert sorted(kinds) == sorted((k, c) for k in ("honest", "poison", "random signs") for c in CHUNKS)
    for run in runs:
        assert [point["step"] for point in run["curve"]] == [1, 2, 3, 4]
        if run["kind"] != "honest":
            assert run["elements_outside_in_the_last_step"] == 0
            assert 0 < run["weights_apart"] < 0.1
        if run["kind"] == "poison":
            assert run["gained_step_by_step_nats"] > 0


def test_the_cost_is_relative_to_the_longest_sums(report: dict[str, Any]) -> None:
    assert report["cost"]["tiny"]["over_longest"]["4096"] == 1


def test_the_plot_is_a_drawing(report: dict[str, Any], tmp_path: Path) -> None:
    plot(report, tmp_path / "steering.svg")
    root = ElementTree.parse(tmp_path / "steering.svg").getroot()
    assert root.tag.endswith("svg") and len(list(root.iter())) > 50


def test_loud_nodes_hold_the_share_and_no_more() -> None:
    assert choose_loud({1: 5.0, 2: 90.0, 3: 4.0, 4: 1.0}, 0.95) == {1, 2}


def test_the_gradient_is_as_long_as_the_weights(setting: Setting) -> None:
    program = build_steerer(setting.spec).program
    size = program.buffers[find_gradient(program)].size
    assert size == program.buffers[program.outputs.weights].size
