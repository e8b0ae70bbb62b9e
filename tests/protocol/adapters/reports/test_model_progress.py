"""The sentence about a model, the warning when it gets worse, and the rule that halts a task."""

from math import inf

import pytest

from tests.protocol.spec.game.simulation import make_word
from touchstone.protocol.adapters.reports.model_progress import (
    ModelLoss,
    count_rounds_without_gain,
    describe_progress,
    find_warning,
    read_halt_rule,
    read_model_loss,
)
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.signed_reports import MILLIONTHS_MAX, HeldoutReport


def make_losses(*losses: float, error: float = 0.02) -> list[ModelLoss]:
    return [ModelLoss(number, loss, error) for number, loss in enumerate(losses)]


@pytest.mark.parametrize(
    ("losses", "sentence"),
    [
        ((), ""),
        ((5.557,), "the model is at 5.56 before training"),
        ((5.557, 3.4501), "the model is at 3.45 and falling (5.56 before training)"),
        ((5.557, 3.45, 3.46), "the model is at 3.46 and level (5.56 before training)"),
        ((5.86, 7.05), "the model is at 7.05 and rising (5.86 before training)"),
        ((5.86, inf), "the model has diverged after round 0"),
        ((5.86, 5.0, 1e6), "the model has diverged after round 1"),
    ],
)
def test_a_sentence_tells_how_good_the_model_is(losses: tuple[float, ...], sentence: str) -> None:
    assert describe_progress(make_losses(*losses)) == sentence


def test_a_warning_comes_where_the_loss_rises_by_more_than_chance() -> None:
    assert find_warning(make_losses(5.86)) is None
    assert find_warning(make_losses(5.86, 5.87)) is None
    assert find_warning(make_losses(5.86, 3.0, 2.9)) is None
    said = find_warning(make_losses(5.86, 7.05))
    assert said is not None and "7.05 after round 0, 5.86 before training" in said and "task halt" in said
    said = find_warning(make_losses(5.86, 3.0, 4.0))
    assert said is not None and "4.00 after round 1, 3.00 after round 0" in said
    assert find_warning(make_losses(5.86, inf, error=inf)) is not None
    # Few rows, whose losses differ much: the same rows gave 5 % less.
    assert find_warning(make_losses(4.83, 5.07, error=0.4)) is not None
    assert find_warning(make_losses(4.83, 4.87, error=0.4)) is None


def test_rounds_without_gain_count_from_the_best_model() -> None:
    assert count_rounds_without_gain([]) == 0
    assert count_rounds_without_gain(make_losses(5.0, 4.0)) == 0
    assert count_rounds_without_gain(make_losses(5.0, 4.0, 4.1, 4.0)) == 2
    # A round whose model was not measured counts too.
    assert count_rounds_without_gain([ModelLoss(1, 4.0, 0.1), ModelLoss(5, 4.2, 0.1)]) == 4


@pytest.mark.parametrize(
    ("text", "rounds"), [("", 0), ("no better for 1 round", 1), ("no better for 12 rounds", 12)]
)
def test_a_rule_for_halting_is_read(text: str, rounds: int) -> None:
    assert read_halt_rule(text) == rounds


@pytest.mark.parametrize(
    "text", ["no better for 0 rounds", "never", "no better for rounds", "no better for 3 rounds!"]
)
def test_another_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="halt_when is malformed"):
        read_halt_rule(text)


def test_a_figure_at_the_limit_stands_for_no_finite_loss() -> None:
    report = HeldoutReport(make_word("d"), 2, make_word("r"), 8, 3_058_000, 12_000)
    assert read_model_loss(report) == ModelLoss(2, 3.058, 0.012)
    far = HeldoutReport(make_word("d"), 2, make_word("r"), 8, MILLIONTHS_MAX, MILLIONTHS_MAX)
    assert read_model_loss(far) == ModelLoss(2, inf, inf)
