"""Parts of the network that is measured: its task, the waits that are put in, who errs from when on."""

import time
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lab.benchmarks.utilisation import choose_play, parse, simulate_network
from lab.benchmarks.utilisation_run.network import draw_train_s, pace, replace_training, switch
from lab.benchmarks.utilisation_run.plan import (
    CONTEST_LEVELS,
    FULL,
    QUICK,
    SEGMENTS,
    Play,
    build_plan,
    fit_windows,
)
from tests.e2e.world import make_dataset
from touchstone.node.submit import build_task
from touchstone.node.training import claims, worker_team
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.game.logged_terms import read_terms
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.typed_data import SigningDomain

SUBMITTER = "0x" + "11" * 20


@pytest.mark.parametrize("play", [FULL, QUICK, replace(QUICK, train_s=60.0)])
def test_the_contracts_take_the_task(play: Play) -> None:
    plan = replace(build_plan(play), heldout_tokens=512)
    terms, _ = build_task(plan, make_dataset(), SUBMITTER, bytes(32))
    read = read_terms({"terms": terms, "task": bytes(32)}, SigningDomain(0, SUBMITTER))
    assert check_terms(read, BOUNDS_LOCAL) is None
    assert read.contest_levels == CONTEST_LEVELS and read.segment_count == SEGMENTS


def test_windows_hold_the_slowest_training_and_two_replays_after_a_silent_primary() -> None:
    windows = fit_windows(FULL)
    assert windows.train_min * FULL.block_s > FULL.train_s * (1 + FULL.spread)
    replay_blocks = FULL.train_s / SEGMENTS / FULL.block_s
    assert windows.audit_max // 3 > replay_blocks and windows.audit_max * 2 / 3 > 2 * replay_blocks


def test_a_training_time_is_drawn_once_for_each_party() -> None:
    drawn = [draw_train_s(180.0, 0.02, f"solver-{number}", 1) for number in range(50)]
    assert all(0.98 * 180 <= one <= 1.02 * 180 for one in drawn) and len(set(drawn)) == 50
    assert draw_train_s(180.0, 0.02, "solver-7", 1) == drawn[7]


def test_a_paced_call_waits_until_its_share_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, told = list[float](), list[tuple[int, int, float]]()
    monkeypatch.setattr(time, "sleep", waited.append)
    clock = iter([10.0, 10.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    state: Any = SimpleNamespace(global_step=24)
    train: Any = lambda state, spec, batches, first, steps: (state, [0.0] * steps)  # noqa: E731
    paced = pace(train, 2.0, lambda *said: told.append(said))
    assert paced(state, state, state, 0, 4) == (state, [0.0] * 4)
    assert waited == [7.5] and told == [(24, 4, 0.5)]


def test_a_false_solver_is_honest_until_its_step() -> None:
    choose = switch(lambda state: "honest", lambda state: "false", 448)
    assert choose(SimpleNamespace(global_step=447)) == "honest"
    assert choose(SimpleNamespace(global_step=448)) == "false"


def test_every_module_that_trains_claims_gets_the_paced_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def paced(*arguments: Any) -> Any:
        return arguments

    # What the call changes is put back: a worker's module trains too.
    for module in (claims, worker_team):
        monkeypatch.setattr(module, "train_segment", train_segment)
    assert {claims.__name__, worker_team.__name__} == set(replace_training(paced))
    assert vars(claims)["train_segment"] is paced


def test_a_package_that_trains_nothing_is_refused() -> None:
    assert isinstance(claims, ModuleType)
    with pytest.raises(LookupError, match="no module of .*protocol.spec.* calls train_segment"):
        replace_training(train_segment, "touchstone.protocol.spec")


def test_the_network_is_simulated_too() -> None:
    simulated = simulate_network(FULL)
    assert 0.5 < simulated["not_ahead"] < simulated["ahead"] < 1.0


def test_options_choose_the_play() -> None:
    assert choose_play(parse([])) == FULL and choose_play(parse(["--quick"])) == QUICK
    assert choose_play(parse(["--quick", "--train-s", "30"])) == replace(QUICK, train_s=30.0)
    assert (FULL.rounds, FULL.first_false, FULL.last_with_all) == (20, 14, 7)
