"""The report of the attack suite says what falls short, and counts nothing that did not happen."""

from typing import Any

import pytest

from lab.benchmarks.attacks import describe_attack, list_attacks, list_excesses, list_shortfalls
from lab.benchmarks.hunting.earnings import OWNED, compute_net, read_deal
from lab.benchmarks.hunting.seam import Tally

DEAL = read_deal()


def make_tally(number: str = "5", name: str = "x", excess: float = 30.0, saved: float = 0.5) -> Tally:
    tally = Tally(number, name, saved)
    tally.add("arena", "place", excess, excess > 1)
    return tally


def make_outcome(name: str, status: str, is_idle: bool = False) -> dict[str, Any]:
    return {"name": name, "status": status, "is_idle": is_idle}


def test_an_attack_is_described_by_what_was_seen_of_it() -> None:
    found = describe_attack(make_tally(), None, 1.0, DEAL)
    assert (found["samples"], found["detected"], found["margin"], found["saved"]) == (1, 1.0, 30.0, 0.5)
    assert found["net"] == float(compute_net(DEAL, 0.5, 1.0, OWNED)) > found["net_alone"]


def test_who_was_void_and_not_convicted_keeps_its_stake() -> None:
    void = describe_attack(make_tally(saved=1.0), make_outcome("x", "VOID"), 1.0, DEAL)
    assert void["on_chain"] == "VOID" and void["net"] > -1
    convicted = describe_attack(make_tally(saved=1.0), make_outcome("x", "CONVICTED"), 0.0, DEAL)
    assert convicted["net"] < void["net"] - 40


def test_where_a_claim_can_keep_its_seat_none_is_taken_to_lose_it() -> None:
    tally = make_tally(saved=1.0)
    tally.add_defence(0.9)
    found = describe_attack(tally, make_outcome("x", "CONVICTED"), 1.0, DEAL)
    assert found["net"] == float(compute_net(DEAL, 1.0, 1.0, OWNED, 0.0)) and found["kept"] == 1
    assert "x keeps its seat in 1 claims" in list_shortfalls({"attacks": [found], "plays": []})


def test_what_was_not_played_on_chain_is_convicted_as_often_as_the_rest() -> None:
    chain = {"attacks": [make_outcome("a", "CONVICTED"), make_outcome("b", "ACCEPTED")], "convicted": 1}
    found = list_attacks([make_tally(name="a"), make_tally(name="c")], chain, DEAL)
    assert found[0]["net"] < found[1]["net"]
    assert found[1]["net"] == float(compute_net(DEAL, 0.5, 1.0, OWNED, 0.5))


def test_who_changed_nothing_on_chain_was_not_played_there() -> None:
    outcomes = [make_outcome("a", "ACCEPTED", is_idle=True), make_outcome("b", "CONVICTED")]
    [found] = list_attacks([make_tally(name="a")], {"attacks": outcomes, "convicted": 1}, DEAL)
    assert found["on_chain"] is None and found["net"] == float(compute_net(DEAL, 0.5, 1.0, OWNED))


@pytest.mark.parametrize(
    ("excess", "number", "expected"), [(30.0, "5", 0), (2.0, "5", 1), (0.5, "5", 2), (2.0, "13", 1)]
)
def test_shortfalls_are_told(excess: float, number: str, expected: int) -> None:
    attack = describe_attack(make_tally(number, excess=excess, saved=1.0), None, 1.0, DEAL)
    assert len(list_shortfalls({"attacks": [attack], "plays": []})) == expected


def test_a_play_that_pays_is_told() -> None:
    plays = [{"name": "a", "net": 0.0}, {"name": "b", "net": -1.0}]
    assert list_shortfalls({"attacks": [], "plays": plays}) == ["a earns 0"]


def test_pseudo_gradients_are_not_among_the_distances() -> None:
    tallies = [make_tally(), make_tally("23", "z", 100.0)]
    assert list_excesses(tallies) == [30.0]
