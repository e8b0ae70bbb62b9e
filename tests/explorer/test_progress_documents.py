"""What the explorer says of how good a model is: the words of the node, from what nodes report."""

from typing import Any

from touchstone.explorer.progress_documents import make_progress


def make_shown(rounds_done: int, loss: float | None, error: float | None = 0.01) -> dict[str, Any]:
    return {"rounds_done": rounds_done, "loss": loss, "error": error}


def test_losses_of_all_rounds_are_in_order_and_begin_before_training() -> None:
    found = make_progress([make_shown(2, 3.45), make_shown(0, 5.56), make_shown(1, 3.98)])
    assert found["line"] == "the model is at 3.45 and falling (5.56 before training)"
    assert found["warning"] is None
    names = [one["model"] for one in found["losses"]]
    assert names == ["before training", "after round 0", "after round 1"]


def test_a_model_that_gets_worse_is_warned_of() -> None:
    found = make_progress([make_shown(0, 5.56), make_shown(1, 7.0)])
    assert "the model gets worse" in found["warning"]
    assert "diverged" in make_progress([make_shown(0, 5.56), make_shown(1, None, None)])["line"]


def test_without_reports_nothing_is_said() -> None:
    assert make_progress([]) == {"line": "", "warning": None, "losses": []}
