"""Disputes of the benchmark: what is convicted, fetched and paid for."""

from lab.benchmarks.exactness.disputing import build_plan, convict_faults


def test_a_fault_is_convicted_and_counted() -> None:
    found = convict_faults("exact15", None, ("MAXIMUM",))
    assert (found["faults"], found["convicted"], found["left"]) == (1, 1, [])
    assert 0 < found["fetched_share"] < 0.1 and found["gas"] > 100_000


def test_a_plan_takes_the_model_of_a_size() -> None:
    assert build_plan("exact8", "0.2M").model.hidden_size == 64
    assert build_plan("exact8", None).numeric_format == "exact8"
