"""The table [model] of a task file: sizes of the plain decoder, or a recorded step and its weights."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.task_models import DecoderStep, parameter_count, record_decoder
from touchstone.protocol.compute.digest import tensor_root
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.scripts.tasks.decoder_table import count_parameters
from touchstone.scripts.tasks.task_example import TASK_FILE
from touchstone.scripts.tasks.task_file import read_task_file
from touchstone.scripts.touchstone import main
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.step.step_folder import StepFiles, save_step

EXAMPLE = TASK_FILE.read_text()
START, END = EXAMPLE.index("[model]"), EXAMPLE.index("[schedule]")
MODEL = DecoderConfig(256, 32, 48, 1, 4, 4, 16)
NUMBERS = "\n".join(f"{key} = {value}" for key, value in list(vars(MODEL).items())[:7])
SHAPE = "sequence_tokens = 128", "sequence_tokens = 16"


def write(folder: Path, table: str, seed: str = "initial_seed = 1\n") -> Path:
    """A task file with rows of 16 tokens. seed: the line about it."""
    (folder / "corpus.bin").write_bytes(bytes(range(256)) * 1000)
    text = f"{EXAMPLE[:START]}[model]\n{table}\n{EXAMPLE[END:]}".replace(*SHAPE)
    (folder / "task.toml").write_text(text.replace("initial_seed = 1\n", seed))
    return folder / "task.toml"


# Sizes
@pytest.mark.parametrize("model", [
    MODEL, replace(MODEL, tied=True), replace(MODEL, kv_head_count=2), replace(MODEL, layer_count=3),
])  # fmt: skip
def test_parameters_are_counted_without_a_model(model: DecoderConfig) -> None:
    assert count_parameters(model) == parameter_count(model)


def test_a_task_file_may_say_sizes_and_an_optimizer(tmp_path: Path) -> None:
    more = f"{NUMBERS}\ntied = true\nrope_theta = 500.0\n[optimizer]\nbeta1 = 0.5\nweight_decay = 0.0"
    file = read_task_file(write(tmp_path, more))
    assert file.weights is None and file.plan.count_parameters() == count_parameters(
        replace(MODEL, tied=True)
    )
    assert file.plan.step.shape.beta1 == 0.5 and file.plan.step.shape.vocabulary_size == 256
    other = read_task_file(write(tmp_path, f"{NUMBERS}\ntied = true"))
    assert other.plan.step.built.program != file.plan.step.built.program


@pytest.mark.parametrize(("table", "named"), [
    ("tied = 1", "model.tied: expected true or false"), ("colour = 1", "model.colour"),
    ("rope_theta = 0.5", "model.rope_theta"), ("norm_epsilon = 0", "model.norm_epsilon"),
    ('norm_epsilon = "1"', "model.norm_epsilon"),
])  # fmt: skip
def test_what_no_decoder_has_is_refused(tmp_path: Path, table: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_task_file(write(tmp_path, f"{NUMBERS}\n{table}"))


@pytest.mark.parametrize(("old", "new", "named"), [
    ("head_count = 4", "head_count = 5", "model.head_count"),
    ("kv_head_count = 4", "kv_head_count = 3", "model.kv_head_count"),
    ("hidden_size = 32", "hidden_size = 12", "model.head_count"),
    ("layer_count = 1", "layer_count = 100000", "model.layer_count"),
    ("hidden_size = 32", "hidden_size = 16777216", "model.hidden_size: expected at most .* parameters"),
    ("hidden_size = 32", "hidden_size = true", "model.hidden_size: expected an integer"),
    ("context_tokens = 16", "context_tokens = 8", "sequence_tokens: expected 1 .. 8"),
    ("vocabulary_size = 256", "vocabulary_size = 1", "model.vocabulary_size"),
])  # fmt: skip
def test_sizes_are_judged_before_a_model_is_built(tmp_path: Path, old: str, new: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_task_file(write(tmp_path, NUMBERS.replace(old, new)))


def test_a_number_of_terms_is_one_of_three(tmp_path: Path) -> None:
    path = write(tmp_path, NUMBERS)
    for terms in ("100", "true", '"512"'):
        path.write_text(f"chunk_terms = {terms}\n" + write(tmp_path, NUMBERS).read_text())
        with pytest.raises(InvalidInput, match="chunk_terms: expected one of"):
            read_task_file(path)


# A recorded step
def write_step(folder: Path, table: str = 'step = "start"', seed: str = "") -> Path:
    """A task file beside the folder of a recorded step."""
    save_step(make_files(), folder / "start")
    return write(folder, table, seed)


def make_files() -> StepFiles:
    recorded = record_decoder(DecoderStep(MODEL, sequences=8, tokens=16))
    return replace(recorded, weights=draw_weights(recorded.layout, 99))


def test_a_task_may_begin_with_the_weights_of_a_step(tmp_path: Path) -> None:
    file = read_task_file(write_step(tmp_path))
    assert file.plan.initial_seed == GIVEN_START and file.weights is not None
    assert torch.equal(file.weights.read(), make_files().weights)
    assert file.plan.step.built.program == make_files().built.program


def test_no_seed_stands_for_weights(tmp_path: Path) -> None:
    for table, seed, named in (
        (NUMBERS, f"initial_seed = {GIVEN_START}\n", "initial_seed: expected 0 to"),
        (NUMBERS, "", "initial_seed"),
    ):
        with pytest.raises(InvalidInput, match=named):
            read_task_file(write_step(tmp_path, table, seed))
    largest = read_task_file(write_step(tmp_path, seed=f"initial_seed = {GIVEN_START - 1}\n"))
    assert largest.weights is None and largest.plan.initial_seed == GIVEN_START - 1


@pytest.mark.parametrize(("table", "named"), [
    ('step = "none"', "model.step: expected the path of a folder"), ("step = 5", "model.step"),
    ('step = "corpus.bin"', "model.step"), ('step = "a\\u0000b"', "model.step"),
    ('step = "."', "a file of a recorded step"),
    ('step = "start"\nhidden_size = 8', "model.step: expected no other key .* got hidden_size"),
    ('step = "start"\n[optimizer]\nbeta1 = 0.5', "optimizer: expected no such key beside model.step"),
])  # fmt: skip
def test_what_is_no_step_is_refused_by_its_key(tmp_path: Path, table: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_task_file(write_step(tmp_path, table))


def test_task_check_tells_the_root_of_the_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two who have the same folder can compare it. A number that is none is found here."""
    path = write_step(tmp_path)
    check = ["task", "check", "--config", str(path)]
    assert main(check) == 0
    said = "".join(capsys.readouterr().out.split())
    assert tensor_root(make_files().weights).hex() in said and "canbeposted" in said
    weights = tmp_path / "start" / "weights"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\xff\xff\xff\x7f")
    assert main(check) == 2 and "finite numbers" in capsys.readouterr().err
