"""A task file from answers: posting takes it, and no answer is left out in silence."""

import sys
from pathlib import Path

import pytest

from protocol.spec.errors import InvalidInput
from scripts.data_pack import PackPlan, pack
from scripts.task_file import read_task_file
from scripts.task_init import QUESTIONS, SIZES, answer, write_task_file
from scripts.touchstone import main
from tests.scripts.test_data_pack import make_tokenizer

DATASET, SIZE = QUESTIONS[0], QUESTIONS[1]


def make_raw(folder: Path) -> Path:
    (folder / "raw.bin").write_bytes(bytes(range(256)) * 2_000)
    return folder / "raw.bin"


def make_answers(source: Path, **changes: str) -> dict[str, str]:
    return {one.option: one.default for one in QUESTIONS} | {"dataset": str(source)} | changes


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("preset", ["local", "2s", "12s"])
def test_what_is_written_is_what_posting_reads(tmp_path: Path, size: str, preset: str) -> None:
    out = tmp_path / "deep" / "task.toml"
    answers = make_answers(make_raw(tmp_path), size=size, preset=preset, pay="12.5", rounds="6")
    file = write_task_file(out, answers)
    again = read_task_file(out)
    assert again.plan == file.plan and again.plan.rounds == 6 and again.dataset.samefile(file.dataset)
    assert again.plan.numeric_format.startswith("exact") and "# H: steps" in out.read_text()
    assert [one.name for one in out.parent.iterdir()] == ["task.toml"]


def test_a_packed_dataset_says_vocabulary_and_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("the quick ing er ly ed " * 20_000)
    plan = PackPlan(
        [tmp_path / "words.txt"], tmp_path / "packed", tokenizer=make_tokenizer(tmp_path / "t.json")
    )
    note = pack(plan)
    file = write_task_file(tmp_path / "task.toml", make_answers(tmp_path / "packed"))
    assert file.plan.model.vocabulary_size == note.vocabulary_size
    assert file.plan.tokenizer_sha256 == note.tokenizer_sha256
    assert file.plan.heldout_tokens == note.heldout_tokens


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"size": "giant"}, "--size"),
        ({"rounds": "-1"}, "--rounds"),
        ({"rounds": "0"}, "rounds"),
        ({"rounds": "9" * 40}, "--rounds"),
        ({"pay": "none"}, "amount"),
        ({"pay": "0.000001"}, "solver_pay"),
        ({"preset": "3s"}, "--preset"),
        ({"dataset": "none"}, "--dataset"),
    ],
)
def test_answers_that_cannot_be_used_leave_no_file(
    tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        write_task_file(tmp_path / "task.toml", make_answers(make_raw(tmp_path), **changes))
    assert [one.name for one in tmp_path.iterdir()] == ["raw.bin"]


def test_an_option_wins_then_what_is_typed_then_the_default() -> None:
    assert answer(SIZE, "tiny", lambda text: "large") == "tiny"
    assert answer(SIZE, None, lambda text: " large ") == "large"
    assert answer(SIZE, None, lambda text: "") == answer(SIZE, None, None) == "small"
    with pytest.raises(InvalidInput, match="no terminal"):
        answer(DATASET, None, None)
    with pytest.raises(InvalidInput, match="no answer"):
        answer(DATASET, None, lambda text: "")


def test_the_command_runs_without_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    raw, out = make_raw(tmp_path), tmp_path / "task.toml"
    assert main(["task", "init", "--out", str(out)]) == 2
    assert "no terminal" in capsys.readouterr().err and not out.exists()
    assert main(["task", "init", "--dataset", str(raw), "--out", str(out)]) == 0
    assert main(["task", "check", "--config", str(out)]) == 0
    assert "can be posted" in capsys.readouterr().out
    assert main(["task", "init", "--dataset", str(raw), "--out", str(out)]) == 2
    assert "would replace" in capsys.readouterr().err
