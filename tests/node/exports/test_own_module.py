"""A task of a module of one's own: recorded, posted from a task file, exported by its names."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tests.node.test_submit import DATASET, SALT, SUBMITTER, make_chain
from touchstone.node.exports.model_folder import open_named
from touchstone.node.exports.written_model import write_model
from touchstone.node.submit import build_task, refuse_bad_task
from touchstone.protocol.compute.program.known_steps import TaskStep, get_step
from touchstone.protocol.compute.program.step import advance, begin_round
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.scripts.tasks.task_file import read_task_file
from touchstone.scripts.touchstone import main
from touchstone.step.lora import Lora, add_lora
from touchstone.step.optimizers import Lion
from touchstone.step.record_step import Shape, next_token_loss, record_step
from touchstone.step.step_folder import load_step

ROWS, TOKENS, WIDTH, VOCABULARY = 2, 16, 24, 256
TASK = """
dataset = "corpus.bin"
preset = "local"
rounds = 2
inner_steps = 4
segment_steps = 2
solver_seats = 2
draws = 1
late_chance = 0
least_solvers = 1
least_verifiers = 3
least_whistleblowers = 0
carry_moments = 0
outer_learning_rate = 0.7
outer_momentum = 0.6
heldout_tokens = 100
{more}
[model]
step = "step"
[schedule]
peak_learning_rate = 0.01
warmup_steps = 1
total_steps = 8
[amounts]
solver_pay = "10"
[economics]
amounts = "derived"
"""


class Mixer(nn.Module):
    """Each position sees the mean of those before it, and a frozen matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.base = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        counts = torch.arange(1, tokens.shape[1] + 1).view(-1, 1)
        x = self.embedding(tokens)
        logits: Tensor = self.head(torch.tanh(self.base(x.cumsum(1) / counts)) + x)
        return logits


@pytest.fixture(scope="module")
def module() -> Mixer:
    torch.manual_seed(3)
    return Mixer()


@pytest.fixture(params=["float32", "exact15"])
def folder(tmp_path: Path, module: Mixer, request: pytest.FixtureRequest) -> Path:
    shape = Shape(ROWS, TOKENS, request.param, 128)
    step = record_step(module, shape, optimizer=Lion(), is_frozen=lambda name: name.startswith("base"))
    step.save(tmp_path / "step")
    (tmp_path / "corpus.bin").write_bytes(DATASET)
    return tmp_path


def write(folder: Path, more: str = "") -> Path:
    path = folder / "task.toml"
    shape = json.loads((folder / "step" / "shape.json").read_text())
    limits = "" if shape["numeric_format"].startswith("exact") else LIMITS
    path.write_text(TASK.format(more=more) + limits)
    return path


LIMITS = """
[limits]
tau_m = 1e-3
eps_m = 1
tau_v = 1e-3
floor_v = 1
tau_w = 1e-3
tau_r = 1e-3
"""


def test_a_task_file_names_a_recorded_step(folder: Path, module: Mixer, tmp_path: Path) -> None:
    """It begins with the module's weights, and one step gives the module's loss."""
    file = read_task_file(write(folder))
    plan = file.plan
    assert (plan.sequences_per_step, plan.sequence_tokens, plan.vocabulary_size) == (ROWS, TOKENS, VOCABULARY)
    assert plan.initial_seed == GIVEN_START and file.weights is not None
    start = file.weights.read()
    terms, training = build_task(plan, DATASET, SUBMITTER, SALT, start)
    chain, _ = make_chain(tmp_path)
    assert refuse_bad_task(chain, terms, training) > 0
    assert terms.parameter_count == 2 * VOCABULARY * WIDTH and training.beta1 == training.beta2 == 0
    tokens = torch.arange(ROWS * TOKENS).view(ROWS, TOKENS) * 7 % VOCABULARY
    labels = (tokens + 1) % VOCABULARY
    _, loss = advance(begin_round(start, 0), Batch(tokens, labels), training)
    expected = nn.functional.cross_entropy(module(tokens).view(-1, VOCABULARY), labels.view(-1))
    assert loss == pytest.approx(float(expected.detach()), rel=1e-5)


def test_a_seed_draws_the_weights_anew(folder: Path) -> None:
    file = read_task_file(write(folder, "initial_seed = 5"))
    assert file.weights is None and file.plan.initial_seed == 5
    terms, training = build_task(file.plan, DATASET, SUBMITTER, SALT)
    assert not make_spec(terms, training).training.is_start_given


@pytest.mark.parametrize(("more", "key"), [
    ("sequences_per_step = 3", "sequences_per_step"), ("sequence_tokens = 8", "sequence_tokens"),
    ("chunk_terms = 512", "chunk_terms"), ('numeric_format = "exact20"', "numeric_format"),
])  # fmt: skip
def test_what_the_step_says_is_not_said_otherwise(folder: Path, more: str, key: str) -> None:
    with pytest.raises(InvalidInput, match=key):
        read_task_file(write(folder, more))


def test_a_broken_folder_is_refused_by_its_file(folder: Path) -> None:
    (folder / "step" / "weights").write_bytes(b"1234")
    with pytest.raises(InvalidInput, match="step/weights"):
        read_task_file(write(folder))


def test_an_export_has_the_modules_names(folder: Path, module: Mixer, tmp_path: Path) -> None:
    """Frozen parameters included, so that the module takes it whole."""
    file = read_task_file(write(folder))
    assert file.weights is not None
    _, training = build_task(file.plan, DATASET, SUBMITTER, SALT, file.weights.read())
    step: TaskStep = get_step(training)
    trained = file.weights.read() + 1
    write_model(tmp_path / "out", trained, step)
    other = Mixer()
    other.load_state_dict(load_file(tmp_path / "out" / "model.safetensors"))
    assert torch.equal(other.base.weight, module.base.weight)
    assert torch.equal(other.head.weight, module.head.weight + 1)
    assert step.layout.frozen[0].name == "base.weight"


def test_an_export_is_measured_by_the_loss_of_its_step(
    folder: Path, module: Mixer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """transformers does not have such a module: without the step its export is refused in words."""
    step = load_step(folder / "step")
    write_model(tmp_path / "out", step.weights, TaskStep(step.built, step.layout))
    held = folder / "held.bin"
    held.write_bytes(DATASET[: 1 + ROWS * TOKENS])
    argv = ["eval", str(tmp_path / "out"), "--dataset", str(held)]
    assert main([*argv, "--step", str(folder / "step"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    row = torch.tensor(list(held.read_bytes()))
    tokens, labels = row[:-1].view(ROWS, TOKENS), row[1:].view(ROWS, TOKENS)
    assert told["loss_nats"] == pytest.approx(next_token_loss(module, tokens, labels).item(), rel=1e-3)
    assert told["tokens"] == ROWS * TOKENS
    assert main(argv) == 2 and "or --step" in capsys.readouterr().err


def test_a_wrong_folder_is_named_in_words(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An own module to sample from, a step as weights, text for a step, a step with adapters."""
    step, out = load_step(folder / "step"), tmp_path / "out"
    write_model(out, step.weights, TaskStep(step.built, step.layout))
    assert main(["sample", str(out), "--prompt", "a"]) == 2
    assert "load_state_dict" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="recorded step, and not of a model"):
        open_named(folder / "step", {}, {})
    text = folder / "held.txt"
    text.write_bytes(b"some text")
    assert main(["eval", str(out), "--step", str(folder / "step"), "--text", str(text)]) == 2
    assert "--text, which takes a folder with config.json" in capsys.readouterr().err
    adapted = Mixer()
    add_lora(adapted, Lora(2, 4.0, ("head",)))
    lora = record_step(adapted, Shape(ROWS, TOKENS, "exact15", 128), optimizer=Lion())
    lora.save(folder / "lora")
    write_model(tmp_path / "merged", lora.weights, TaskStep(lora.built, lora.layout))
    argv = ["eval", str(tmp_path / "merged"), "--dataset", str(folder / "corpus.bin")]
    assert main([*argv, "--step", str(folder / "lora")]) == 2
    assert "the step of the module without adapters" in capsys.readouterr().err


def test_the_targets_of_adapters_are_names_and_no_text() -> None:
    wrong: Any = "head"
    with pytest.raises(InvalidInput, match="a tuple of names"):
        Lora(2, 4.0, wrong)
