"""A task file from answers: posting takes it, and no answer is left out in silence."""

import re
import sys
from pathlib import Path

import pytest
from msgspec import structs

from tests.scripts.test_data_pack import make_tokenizer
from tests.task_models import DecoderStep, record_decoder
from touchstone.node.exports.model_note import hash_file
from touchstone.protocol.economics.money_rules import MoneyRule
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS
from touchstone.protocol.spec.game.terms import DeploymentBounds
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.tasks import task_check
from touchstone.scripts.tasks.answer_checks import blame_answers
from touchstone.scripts.tasks.task_creation import justify
from touchstone.scripts.tasks.task_file import TaskFile, read_task_file, sketch_terms
from touchstone.scripts.tasks.task_init import QUESTIONS, SIZE, SIZES, answer, write_task_file
from touchstone.scripts.tasks.terms_checks import refuse_bad_terms
from touchstone.scripts.touchstone import main
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.step.step_folder import StepFiles, save_step

DATASET = QUESTIONS[0]


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
    refuse_bad_terms(sketch_terms(file.plan), BOUNDS[preset], "a deployment of this preset takes it")


@pytest.mark.parametrize(
    ("rounds", "warmup", "decay"),
    [("1", 2, 8), ("2", 4, 16), ("4", 8, 32), ("20", 40, 160), ("1000", 40, 8000)],
)
def test_the_rate_rises_in_a_twentieth_of_all_steps_and_falls_in_the_last_fifth(
    tmp_path: Path, rounds: str, warmup: int, decay: int
) -> None:
    """Half of a training of two rounds was warm-up, and no rate ever fell."""
    out = tmp_path / "task.toml"
    schedule = write_task_file(
        out, make_answers(make_raw(tmp_path), size="tiny", rounds=rounds)
    ).plan.schedule
    assert (schedule.warmup_steps, schedule.decay_steps) == (warmup, decay)
    assert schedule.final_ratio == pytest.approx(0.1) and schedule.total_steps == 40 * int(rounds)


def test_a_file_is_checked_by_the_limits_of_the_preset_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def justify(file: TaskFile, limits: DeploymentBounds, console: Console) -> list[MoneyRule]:
        seen.append(limits.name)
        return []

    monkeypatch.setattr(task_check, "justify", justify)
    out = tmp_path / "task.toml"
    write_task_file(out, make_answers(make_raw(tmp_path), size="tiny", preset="12s"))
    assert main(["task", "check", "--config", str(out)]) == 0
    assert main(["task", "check", "--config", str(out), "--preset", "2s"]) == 0
    assert seen == ["12s", "2s"]


@pytest.mark.parametrize(("preset", "is_told"), [("12s", True), ("local", False)])
def test_a_submitter_is_told_of_bonds_that_its_deployment_makes_dearer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], preset: str, is_told: bool
) -> None:
    """The figures alone ask for less. Who watches the task pays such a bond for each query by chance."""
    out = tmp_path / "task.toml"
    write_task_file(out, make_answers(make_raw(tmp_path), size="tiny", preset=preset))
    justify(read_task_file(out), BOUNDS[preset], Console())
    told = " ".join(capsys.readouterr().out.split())
    assert ("1 tokens, the least that deployments of preset 12s take" in told) == is_told


def test_a_packed_dataset_says_vocabulary_and_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("the quick ing er ly ed " * 20_000)
    plan = PackPlan(
        [tmp_path / "words.txt"], tmp_path / "packed", tokenizer=make_tokenizer(tmp_path / "t.json")
    )
    note = pack(plan)
    file = write_task_file(tmp_path / "task.toml", make_answers(tmp_path / "packed"))
    assert file.plan.vocabulary_size == note.vocabulary_size
    assert file.plan.tokenizer_sha256 == note.tokenizer_sha256
    assert file.plan.heldout_tokens == note.heldout_tokens


def pack_words(folder: Path, tokenizer: Path) -> Path:
    (folder / "words.txt").write_text("the quick ing er ly ed " * 20_000)
    pack(PackPlan([folder / "words.txt"], folder / "packed", tokenizer=tokenizer))
    return folder / "packed"


def save_recorded(folder: Path, tokenizer: Path | None = None) -> StepFiles:
    """The folder of a recorded step that reads 400 tokens."""
    model = DecoderConfig(400, 32, 48, 1, 2, 2, 32, tied=True)
    files = record_decoder(DecoderStep(model, sequences=2, tokens=32, numeric_format="exact15"))
    named = "" if tokenizer is None else hash_file(tokenizer)
    made = StepFiles(
        files.built, files.layout, files.weights, structs.replace(files.shape, tokenizer_sha256=named)
    )
    save_step(made, folder)
    return made


def test_a_recorded_step_says_shape_and_leaves_no_seed(tmp_path: Path) -> None:
    packed = pack_words(tmp_path, make_tokenizer(tmp_path / "t.json"))
    files, out = save_recorded(tmp_path / "step"), tmp_path / "deep" / "task.toml"
    file = write_task_file(out, make_answers(packed, size="no size"), tmp_path / "step")
    assert file.plan.step.built.program == files.built.program
    assert (file.plan.sequences_per_step, file.plan.sequence_tokens) == (2, 32)
    assert file.plan.initial_seed == GIVEN_START and file.weights is not None
    assert 'step = "../step"' in out.read_text() and "initial_seed" not in out.read_text()
    fresh = write_task_file(tmp_path / "fresh.toml", make_answers(packed))
    rates = [one.plan.schedule.peak_learning_rate for one in (file, fresh)]
    assert rates[0] < rates[1], "given weights are not to be lost"


@pytest.mark.parametrize(
    ("own", "said"),
    [("same", ""), ("other", "WARNING: the dataset was packed with"), ("", "names no tokenizer")],
)
def test_another_tokenizer_than_that_of_the_step_is_said(
    tmp_path: Path, own: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = make_tokenizer(tmp_path / "t.json")
    packed, out = pack_words(tmp_path, tokenizer), tmp_path / "task.toml"
    if own == "other":
        tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
    save_recorded(tmp_path / "step", tokenizer if own else None)
    words = ["--dataset", str(packed), "--step", str(tmp_path / "step"), "--out", str(out)]
    assert main(["task", "init", *words]) == 0
    found = capsys.readouterr().out.replace("\n", " ")
    assert said in found and ("WARNING" in found or "names no" in found) == bool(said)
    assert main(["task", "check", "--config", str(out)]) == 0
    assert said in capsys.readouterr().out.replace("\n", " ")


def test_size_and_step_together_and_a_folder_without_a_step_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, out = make_raw(tmp_path), tmp_path / "task.toml"
    words = ["task", "init", "--dataset", str(raw), "--step", str(tmp_path), "--out", str(out)]
    assert main([*words, "--size", "tiny"]) == 2
    assert "--size or --step" in capsys.readouterr().err
    assert main(words) == 2
    assert "a file of a recorded step" in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.PARQUET"])
def test_texts_that_are_not_packed_are_no_dataset(tmp_path: Path, name: str) -> None:
    make_raw(tmp_path).rename(tmp_path / name)
    with pytest.raises(InvalidInput, match="data pack"):
        write_task_file(tmp_path / "task.toml", make_answers(tmp_path / name))


KEYS = re.compile("task.toml|partial|heldout_tokens|total_steps|solver_pay|solver_stake|segment|malformed")
"""What the operator of `task init` has not written, and the name of a file that is not there yet."""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"size": "giant"}, "expected tiny or small or medium or large, got giant. Correct --size"),
        ({"rounds": "-1"}, "at --rounds -1: expected 1 to 16384"),
        ({"rounds": "0"}, "at --rounds 0: expected 1 to 16384"),
        ({"rounds": "16385"}, "at --rounds 16385: expected 1 to 16384"),
        ({"rounds": "9" * 40}, "at --rounds 9999999999.*: expected 1 to 16384"),
        ({"pay": "none"}, "at --pay: expected a positive number such as 1000 or 12.5, got 'none'"),
        ({"pay": "0.000001"}, r"at --pay 0.000001: expected at least 0.102 tokens, .* Give more pay"),
        ({"pay": "1" + "0" * 20}, "at --pay 1000.*: expected a solver pay of at most 1237940039.28.* less"),
        ({"pay": "1000000000"}, "--pay 1000000000: expected a .* of at most .* tokens, got .* Give less pay"),
        ({"preset": "3s"}, "expected 12s or 2s or local, got 3s. Correct --preset"),
        ({"dataset": "none"}, "got /.*/none is not there.*--dataset"),
    ],
)
def test_answers_that_cannot_be_used_are_named_and_leave_no_file(
    tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason) as error:
        write_task_file(tmp_path / "task.toml", make_answers(make_raw(tmp_path), **changes))
    assert [one.name for one in tmp_path.iterdir()] == ["raw.bin"]
    assert not KEYS.search(str(error.value)), error.value


@pytest.mark.parametrize(("size_bytes", "said"), [
    (0, "1,409 tokens or more, got 0 tokens. Give more text, or a smaller --size"),
    (1408, "1,409 tokens or more, got 1,408 tokens"),
])  # fmt: skip
def test_a_dataset_that_is_too_short_is_named(tmp_path: Path, size_bytes: int, said: str) -> None:
    (tmp_path / "raw").write_bytes(b"a" * size_bytes)
    with pytest.raises(InvalidInput, match=said) as error:
        write_task_file(tmp_path / "task.toml", make_answers(tmp_path / "raw"))
    assert f"--dataset {tmp_path}/raw, --size small" in error.value.where
    (tmp_path / "raw").write_bytes(b"a" * 1409)
    write_task_file(tmp_path / "task.toml", make_answers(tmp_path / "raw"))


def test_a_packed_dataset_that_is_too_short_for_a_step_is_named(tmp_path: Path) -> None:
    save_recorded(tmp_path / "step")
    (tmp_path / "words.txt").write_text("the quick ing er ly ed " * 4)
    tokenizer = make_tokenizer(tmp_path / "t.json")
    pack(PackPlan([tmp_path / "words.txt"], tmp_path / "packed", tokenizer=tokenizer))
    with pytest.raises(InvalidInput, match="too short for rows of 32 tokens.*record the step with") as error:
        write_task_file(tmp_path / "task.toml", make_answers(tmp_path / "packed"), tmp_path / "step")
    assert f"--dataset {tmp_path}/packed, --step {tmp_path}/step" in error.value.where


@pytest.mark.parametrize(("where", "named"), [
    ("{file}, heldout_tokens", "--dataset d, --size small"), ("{file}, economics", "--pay 10"),
    ("{file}, windows.dispute", "--preset local, --size small"), ("{file}", "--size small"),
    ("{file}, model.layer_count", "--size small"), ("amounts.solver_stake", "--pay 10"),
    ("inner_steps", "--rounds 4"), ("{file}, schedule.total_steps", "--rounds 4"), ("/elsewhere/program", ""),
])  # fmt: skip
def test_any_refusal_of_the_file_is_one_of_answers(where: str, named: str) -> None:
    file = Path("/home/task.toml.partial")
    refusal = InvalidInput(
        what="the file is malformed", expected=f"x in {file}", actual="2", where=where.format(file=file),
        remedy=f"Correct it in {file}.",
    )  # fmt: skip
    answers = {"dataset": "d", "size": "small", "rounds": "4", "pay": "10", "preset": "local"}
    found = blame_answers(refusal, file, answers, None)
    if not named:
        assert found is refusal
        return
    assert found.where == named and str(file) not in str(found) and "malformed" not in str(found)


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
