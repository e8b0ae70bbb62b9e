"""The residual ledger: honest solvers stay unflagged at the stated rate, a steady steer is flagged."""

from dataclasses import replace
from math import exp, log, pi
from random import Random

import pytest

from protocol.spec.errors import InvalidInput
from protocol.spec.ledger import (
    ALARM_RATE,
    SKETCH_BUCKETS,
    DriftTest,
    Entry,
    FeatureTest,
    Ledger,
    Observation,
    PlaceTest,
    Projection,
    compute_features,
    correlate,
    mean_logs,
    take_round,
)

CLASS = "avx2/avx2"


def project(quantity: str = "weights", *, sketch: tuple[float, ...] = (), **values: float) -> Projection:
    numbers = {"rms": 0.01, "mean": 0.0, "update": 0.0, "gradient": 0.0, "past": 0.0, **values}
    return Projection(quantity, sketch=sketch or (0.0,) * SKETCH_BUCKETS, **numbers)


def draw_noise(random: Random, drift: float = 0.0, bias: float = 0.0, size: float = 0.01) -> Projection:
    """An audit's residual: noise of heavy tails around the class's bias."""

    def draw() -> float:
        return bias + random.gauss(0, 1) * random.choice((0.3, 1.0, 3.0))

    rms = size * 10 ** random.gauss(0, 0.2)
    return project(rms=rms, mean=draw(), update=draw() + drift, gradient=draw(), past=draw())


def observe(solver: str, *projections: Projection, hardware: str = CLASS) -> Observation:
    return Observation(solver, hardware, tuple((p,) for p in projections))


def play(seed: int, rounds: int, drift: float = 0.0, solvers: int = 5, bias: float = 0.0) -> Ledger:
    random, ledger = Random(seed), Ledger()
    for number in range(rounds):
        seen = [
            observe(f"solver {index}", draw_noise(random, drift if index == 0 else 0.0, bias))
            for index in range(solvers)
        ]
        ledger = take_round(ledger, number, seen)
    return ledger


def test_take_round_honest_solvers_are_flagged_at_most_at_the_stated_rate() -> None:
    flagged = sum(len(play(seed, rounds=60).list_flagged()) for seed in range(60))
    assert flagged <= 3, f"{flagged} of 300 solvers over 60 rounds; {300 * ALARM_RATE} are expected at most"


def test_take_round_a_bias_of_a_whole_class_flags_nobody() -> None:
    assert sum(len(play(seed, rounds=60, bias=3.0).list_flagged()) for seed in range(10)) == 0


def test_take_round_the_same_bias_without_a_class_is_flagged() -> None:
    ledger = play(0, rounds=60, bias=3.0, solvers=1)
    assert ledger.list_flagged() == ("solver 0",) and ledger.entries["solver 0"].lone == 60


def test_take_round_a_steady_steer_is_flagged_and_its_peers_are_not() -> None:
    for seed in range(5):
        ledger = play(seed, rounds=120, drift=2.0)
        assert ledger.list_flagged() == ("solver 0",)
        assert ledger.entries["solver 0"].strongest == "weights.update"


def test_take_round_more_steer_is_flagged_sooner() -> None:
    found = [play(1, rounds=200, drift=drift).entries["solver 0"].flagged for drift in (1.5, 3.0, 12.0)]
    assert found == sorted(found, reverse=True) and 0 < found[2] < found[0] < 200


def test_take_round_a_rider_of_the_limit_shows_by_its_size() -> None:
    ledger, random = Ledger(), Random(2)
    for number in range(40):
        seen = [observe(name, draw_noise(random, size=0.01)) for name in "abc"]
        ledger = take_round(ledger, number, [*seen, observe("rider", draw_noise(random, size=0.7))])
    assert ledger.list_flagged() == ("rider",)
    assert ledger.entries["rider"].strongest == "weights.energy"


def test_take_round_a_rider_alone_in_its_class_is_not_measured_by_size() -> None:
    ledger = take_round(Ledger(), 0, [observe("rider", project(rms=0.7))])
    assert "weights.energy" not in ledger.entries["rider"].tests


def test_take_round_two_steerers_of_eight_do_not_have_their_peers_flagged() -> None:
    """They do where who is flagged goes on centring others."""
    random, ledger = Random(3), Ledger()
    for number in range(200):
        drifts = {name: 6.0 if name in "ab" else 0.0 for name in "abcdefgh"}
        seen = [observe(name, draw_noise(random, drift)) for name, drift in drifts.items()]
        ledger = take_round(ledger, number, seen)
    assert set(ledger.list_flagged()) == {"a", "b"}


def test_take_round_classes_are_apart() -> None:
    random, ledger = Random(4), Ledger()
    for number in range(60):
        seen = [observe(n, draw_noise(random, bias=8.0), hardware="gpu/cpu") for n in "abc"]
        seen += [observe(n, draw_noise(random, bias=-8.0)) for n in "def"]
        ledger = take_round(ledger, number, seen)
    assert ledger.list_flagged() == ()


def test_take_round_steerers_that_share_a_false_class_stand_apart() -> None:
    """They centre each other, so that their class shows nothing; the others do."""
    random, ledger = Random(6), Ledger()
    for number in range(120):
        seen = [observe(n, draw_noise(random, drift=6.0), hardware="own/avx2") for n in "ab"]
        seen += [observe(n, draw_noise(random)) for n in "cdefgh"]
        ledger = take_round(ledger, number, seen)
    assert ledger.list_flagged() == () and set(ledger.list_apart()) == {"a", "b"}
    assert all(0 < ledger.entries[name].apart < 60 for name in "ab")


def test_take_round_a_rider_in_a_class_of_its_own_stands_apart_by_its_size() -> None:
    random, ledger = Random(7), Ledger()
    for number in range(40):
        seen = [observe(name, draw_noise(random)) for name in "abc"]
        rider = observe("rider", draw_noise(random, size=0.7), hardware="mine/avx2")
        ledger = take_round(ledger, number, [*seen, rider])
    assert ledger.list_flagged() == () and ledger.list_apart() == ("rider",)


def test_take_round_honest_solvers_of_one_class_stand_apart_as_rarely_as_they_are_flagged() -> None:
    for seed in range(10):
        ledger = play(seed, rounds=60)
        assert ledger.list_apart() == () and all(e.wide == e.tests for e in ledger.entries.values())


def test_take_round_honest_other_hardware_may_stand_apart_and_is_not_flagged() -> None:
    random, ledger = Random(8), Ledger()
    for number in range(60):
        seen = [observe("gpu", draw_noise(random, bias=8.0), hardware="gpu/cpu")]
        seen += [observe("gpu 2", draw_noise(random, bias=8.0), hardware="gpu/cpu")]
        seen += [observe(n, draw_noise(random)) for n in "cdef"]
        ledger = take_round(ledger, number, seen)
    assert ledger.list_flagged() == () and set(ledger.list_apart()) == {"gpu", "gpu 2"}


def test_take_round_a_flag_stays_and_names_its_first_round() -> None:
    ledger = take_round(Ledger({"a": Entry(flagged=2, rounds=3)}, 2), 3, [observe("a", project(mean=1.0))])
    assert ledger.entries["a"].log_evidence < -log(ALARM_RATE)
    assert (ledger.entries["a"].flagged, ledger.list_flagged()) == (2, ("a",))


@pytest.mark.parametrize("number, names", [(3, "ab"), (2, "ab"), (4, "aa")])
def test_take_round_an_old_round_or_a_solver_named_twice_is_refused(number: int, names: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be taken"):
        take_round(Ledger(round=3), number, [observe(name, project()) for name in names])


def test_compute_features_are_means_over_audits_and_products_between_them() -> None:
    sketch = (1.0,) + (0.0,) * (SKETCH_BUCKETS - 1)
    found = compute_features(
        [[project(mean=1.0, rms=0.01, sketch=sketch)], [project(mean=3.0, rms=0.1, sketch=sketch)]]
    )
    assert found["weights.mean"] == 2.0 and found["weights.energy"] == -1.5
    assert found["weights.pair"] == SKETCH_BUCKETS**0.5 == correlate(sketch, sketch)


def test_compute_features_an_unknown_past_is_no_feature() -> None:
    assert "weights.past" not in compute_features([[replace(project(), past=None)]])
    assert "weights.pair" not in compute_features([[project()]])


def test_drift_test_evidence_is_the_mean_over_normal_betting() -> None:
    """The closed form against the integral of exp(x S - x^2 V / 2) over N(0, 1/2)."""
    test = DriftTest().take(-2.0).take(3.0).take(1.0)
    total, squares = 2.0, 2.5
    assert (test.unit, test.total, test.squares) == (2.0, total, squares)
    step, grid = 1e-3, [i * 1e-3 for i in range(-9000, 9001)]
    density = (exp(-x * x) / pi**0.5 * exp(x * total - x * x * squares / 2) for x in grid)
    assert test.log_evidence == pytest.approx(log(sum(density) * step), rel=1e-6)


def test_drift_test_is_free_of_scale_and_sign() -> None:
    values = (0.5, 0.7, -0.2, 0.9)
    found = []
    for factor in (1.0, 1e-9, -1e9):
        test = DriftTest()
        for value in values:
            test = test.take(value * factor)
        found.append(test.log_evidence)
    assert found == pytest.approx([found[0]] * 3)


def test_drift_test_equal_machines_show_nothing() -> None:
    test = DriftTest()
    for _ in range(50):
        test = test.take(0.0)
    assert test.log_evidence == 0.0 == Entry().log_evidence


def test_place_test_chance_alone_does_not_raise_the_mean_wealth() -> None:
    """The mean over all n equally likely places is what it was."""
    test = PlaceTest().take(True, 4)
    for solvers in (2, 3, 7):
        after = [test.take(place == 0, solvers).log_evidence for place in range(solvers)]
        assert mean_logs(after) == pytest.approx(test.log_evidence)


def test_feature_test_equals_are_not_first() -> None:
    test = FeatureTest().take(1.0, [1.0, 0.5])
    assert test.first == PlaceTest().take(False, 3) == test.last


@pytest.mark.parametrize(
    "broken", [{"unit": -1.0}, {"squares": -0.5}, {"total": float("nan")}, {"squares": float("nan")}]
)
def test_drift_test_malformed_is_refused(broken: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="malformed"):
        DriftTest(**broken)


@pytest.mark.parametrize(
    "broken",
    [{"rms": float("nan")}, {"rms": -1.0}, {"mean": float("inf")}, {"quantity": "bias"}, {"sketch": (1.0,)}],
)
def test_projection_malformed_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="malformed"):
        replace(project(), **broken)  # type: ignore[arg-type]
