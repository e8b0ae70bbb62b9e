"""The economics of a short run: who works earns, who cheats loses, and the report says who falls short."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from benchmarks.economics import (
    QUICK,
    Result,
    compare_with_honest,
    does_fall_short,
    expect,
    run_economics,
)
from benchmarks.economy.agent import (
    OWNED,
    POISONED,
    SOLVER,
    VERIFIER,
    Agent,
    count_primaries,
    describe_pair,
    describe_served,
    meet,
    meet_late,
)
from benchmarks.economy.agents import AGENTS
from benchmarks.economy.cards import count_outcomes
from benchmarks.economy.ground import DRAWS, LATE_RATE, SEGMENTS, VERIFIERS
from protocol.spec import economics
from protocol.spec.odds import compute_escape_probability, compute_owned_majority, compute_owned_reveals

ALONE = frozenset({SOLVER})
HALF = Fraction(1, 2)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return run_economics(QUICK, rounds=1)


def test_work_earns_and_cheating_loses(report: dict[str, Any]) -> None:
    assert {one["name"] for one in report["agents"]} == set(QUICK)
    assert report["falls_short"] == []
    for one in report["agents"]:
        assert (one["profit"] > 0) == one["honest"]
        assert one["honest"] or one["beyond_honest"] is None or one["beyond_honest"] < one["profit"]
        assert sum(outcome["chance"] for outcome in one["outcomes"]) == pytest.approx(1)
    assert all(one["holds"] for one in report["requirements"])


def test_a_lazy_solver_falls_by_the_referee_and_a_dropper_by_the_fee(report: dict[str, Any]) -> None:
    found = {one["name"]: one["outcomes"][0] for one in report["agents"]}
    assert found["lazy solver"]["claim"] == "CONVICTED" and found["lazy solver"]["tokens"] < -190
    dropped = found["dropper of unfavourable shards"]
    assert dropped["claim"] == "DROPPED" and dropped["tokens"] == -21
    delayed = found["delayer: opens a dispute and never moves"]
    assert delayed["claim"] == "ACCEPTED" and delayed["tokens"] <= -10


def test_who_hands_in_a_false_root_falls_where_its_claim_does(report: dict[str, Any]) -> None:
    [found] = [one["outcomes"] for one in report["agents"] if one["name"] == "verifier handed a false root"]
    stakes = {one["outcome"]: (one["claim"], one["tokens"]) for one in found}
    assert stakes == {
        "0": ("CONVICTED", 0.0),
        "1": ("CONVICTED", -50.0),
        "2": ("ACCEPTED", 2.0),
        "2, late": ("CONVICTED", -100.0),
    }


def test_gas_is_what_amounts_are_derived_with(report: dict[str, Any]) -> None:
    found = {one["name"]: one["outcomes"] for one in report["agents"]}
    [solver] = found["honest solver"]
    assert HALF < solver["gas"] / (economics.GAS_SOLVER + DRAWS * economics.GAS_SOLVER_DRAW) < 1
    for outcome in found["honest whistleblower"]:
        audits = int(outcome["outcome"] == "drawn")
        assert outcome["gas"] < economics.GAS_ENROL + audits * economics.GAS_AUDIT


def test_chances_of_deals_are_the_published_odds() -> None:
    outcomes = count_outcomes(
        meet(POISONED, ALONE), meet_late(POISONED, ALONE), lambda label: label == "unmet"
    )
    assert outcomes["unmet", ""] == compute_escape_probability(SEGMENTS, DRAWS, POISONED, LATE_RATE)
    owned = count_outcomes(meet(POISONED, OWNED), meet_late(POISONED, OWNED), lambda label: label == "unmet")
    assert owned["unmet", ""] == compute_escape_probability(SEGMENTS, DRAWS, POISONED, LATE_RATE, HALF)
    served = count_outcomes(describe_served(OWNED), lambda late: "", lambda label: False)
    decided = sum(
        chance
        for (label, _), chance in served.items()
        if all(one in ("own", "reserves 2") for one in label.split(", "))
    )
    assert decided == compute_owned_majority(HALF, VERIFIERS) ** DRAWS
    revealed = sum(chance * count_reveals(label) for (label, _), chance in served.items())
    assert revealed == DRAWS * compute_owned_reveals(HALF, VERIFIERS)


def count_reveals(label: str) -> int:
    return sum(1 if one == "own" else int(one.split()[1]) for one in label.split(", "))


def test_a_pair_takes_the_majority_of_one_draw_in_three() -> None:
    pairs = count_outcomes(describe_pair, lambda late: "", lambda label: False)
    assert sum(chance for (label, _), chance in pairs.items() if "pair" not in label) == Fraction(4, 9)


def make_result(outcome: str, chance: Fraction, profit: int, work: int) -> Result:
    return Result(outcome, chance, 1, Fraction(profit), Fraction(work), Fraction(0), Fraction(work), "")


def test_expectations_weigh_outcomes_and_count_a_second_slot() -> None:
    results = [make_result("0", HALF, -1, 0), make_result("1", HALF, 5, 1)]
    solver = Agent("solver", True, (SOLVER,))
    assert expect(solver, results) == 2
    # What is spent without any audit is spent once: 2 * 2 - (-1).
    assert expect(replace(solver, members=(VERIFIER,), slots=2), results) == 5
    assert count_primaries(VERIFIER)(()) == "0"


def test_profits_are_laid_beside_honest_work() -> None:
    agents: list[dict[str, Any]] = [
        {"name": "honest solver", "honest": True, "members": ["solver-0"], "profit": 6.0},
        {"name": "honest verifier", "honest": True, "members": ["verifier-0"], "profit": 1.0},
        {"name": "pair", "honest": False, "members": ["solver-0", "verifier-1"], "profit": 2.0},
        {"name": "watcher", "honest": False, "members": ["watcher-0"], "profit": 2.0},
    ]
    compare_with_honest(agents)
    assert [one["beyond_honest"] for one in agents] == [0, 0, -5, None]


@pytest.mark.parametrize(
    ("honest", "members", "profit", "beyond", "falls_short"),
    [
        (True, ["solver-0"], 0.1, 0.0, False),
        (True, ["solver-0"], -0.1, -7.0, True),
        (False, ["verifier-0"], -0.1, 1.0, False),
        (False, ["verifier-0"], 0.1, -1.0, True),
        (False, ["submitter", "verifier-0"], 3.0, -1.0, False),
        (False, ["submitter", "verifier-0"], 3.0, 0.1, True),
        (False, ["submitter", "verifier-3"], 3.0, None, True),
    ],
)
def test_a_cheat_may_not_earn_and_a_submitters_not_more_than_its_honest_work(
    honest: bool, members: list[str], profit: float, beyond: float | None, falls_short: bool
) -> None:
    one = {"honest": honest, "members": members, "profit": profit, "beyond_honest": beyond}
    assert does_fall_short(one) == falls_short


def test_every_role_and_every_kind_of_cheat_plays() -> None:
    cheats = [agent for agent in AGENTS if not agent.honest]
    assert len(cheats) >= 12 and len({agent.name for agent in AGENTS}) == len(AGENTS)
    honest = {agent.members[0].split("-")[0] for agent in AGENTS if agent.honest and "among" in agent.name}
    assert honest == {"solver", "verifier", "watcher", "submitter"}
