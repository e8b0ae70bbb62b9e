"""Attacks on an exact task: what is rejected, convicted, fetched and paid for."""

from lab.benchmarks.exactness.attacking import build_plan, convict_faults, judge_attacks
from lab.benchmarks.hunting.arena import Arena
from tests.attacks.attack_suite import ATTACKS
from tests.task_plans import describe_plan


def test_every_claim_with_other_bits_is_rejected() -> None:
    found = judge_attacks(Arena("mouse", 2, 4, 1, attacked=2, numeric_format="exact15"))
    assert found["attacks"] == len(ATTACKS)
    assert found["samples"] == found["rejected"] > len(ATTACKS) // 2
    assert found["samples"] + sum(found["idle"].values()) == len(ATTACKS)


def test_a_fault_is_convicted_and_counted() -> None:
    found = convict_faults("exact15", None, ("MAXIMUM",))
    assert (found["faults"], found["convicted"], found["left"]) == (1, 1, [])
    assert 0 < found["fetched_share"] < 0.1 and found["gas"] > 100_000


def test_a_plan_takes_the_model_of_a_size() -> None:
    assert describe_plan(build_plan("exact8", "0.2M")).model.hidden_size == 64
    assert build_plan("exact8", None).numeric_format == "exact8"
