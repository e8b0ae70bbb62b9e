"""Parameters that rounding noise alone would move are found, whatever the module."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.protocol.compute.conftest import TINY, build_tiny_training
from tests.protocol.compute.decoders import DECODERS
from tests.training_setting import DEMO_MODEL
from touchstone.protocol.compute.bounds.live_parameters import require_live_parameters
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.compute.program.known_steps import TaskStep, get_step
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.step import record_step as recording
from touchstone.step.optimizers import SGD, AdamW, Lion, Muon, Optimizer
from touchstone.step.record_step import RecordedStep, Shape, record_step

pytestmark = pytest.mark.usefixtures("keep_noise")
ROWS, TOKENS, WIDTH, VOCABULARY = 2, 12, 16, 32


@pytest.fixture
def keep_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorder cuts no noise off, and modules begin with known numbers."""
    monkeypatch.setattr(recording, "_find_idle", lambda *_: {})
    torch.manual_seed(0)


class Attention(nn.Module):
    """One head. bias: a parameter that shifts all queries, or all keys."""

    def __init__(self, bias: str = "") -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.query, self.key = (nn.Linear(WIDTH, WIDTH, bias=bias == name) for name in ("query", "key"))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        x = self.embedding(tokens)
        mask = torch.full((TOKENS, TOKENS), -torch.inf).triu(1)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 4 + mask
        logits: Tensor = self.head(scores.softmax(-1) @ x)
        return logits


def record(module: nn.Module, optimizer: Optimizer | None = None) -> RecordedStep:
    return record_step(module, Shape(ROWS, TOKENS, chunk_terms=128), optimizer=optimizer)


def draw_batch(vocabulary: int = VOCABULARY, rows: int = ROWS, tokens: int = TOKENS) -> Batch:
    drawn = torch.randint(vocabulary, (rows, tokens + 1), generator=torch.Generator().manual_seed(3))
    return Batch(drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous())


def look(recorded: RecordedStep, numeric_format: str = "float32") -> None:
    step = TaskStep(recorded.built, recorded.layout)
    spec = replace(
        build_tiny_training(),
        numeric_format=numeric_format,
        beta1=recorded.shape.beta1,
        beta2=recorded.shape.beta2,
    )
    require_live_parameters(step, spec, recorded.weights, draw_batch())


@pytest.mark.parametrize("optimizer", [AdamW(), SGD(), Lion(), Muon()], ids=lambda one: type(one).__name__)
def test_a_key_bias_is_noise_and_a_query_bias_is_not(optimizer: Optimizer) -> None:
    look(record(Attention("query"), optimizer))
    recorded = record(Attention("key"), optimizer)
    with pytest.raises(InvalidInput, match=r"rounding noise.*got key.bias\. ") as refusal:
        look(recorded)
    assert "Freeze" in refusal.value.remedy


def test_exact_tasks_may_have_them() -> None:
    step = record_step(Attention("key"), Shape(ROWS, TOKENS, "exact15", 128))
    look(step, "exact15")


def test_a_part_of_a_parameter_is_enough() -> None:
    """As in GPT-2, where queries and keys share a bias."""

    class Shared(Attention):
        def __init__(self) -> None:
            super().__init__()
            self.both = nn.Parameter(torch.randn(2 * WIDTH) / 10)

        def forward(self, tokens: Tensor) -> Tensor:
            """Logits."""
            x = self.embedding(tokens)
            query, key = self.query(x) + self.both[:WIDTH], self.key(x) + self.both[WIDTH:]
            mask = torch.full((TOKENS, TOKENS), -torch.inf).triu(1)
            logits: Tensor = self.head((query @ key.transpose(1, 2) / 4 + mask).softmax(-1) @ x)
            return logits

    with pytest.raises(InvalidInput, match=r"got both\. "):
        look(record(Shared()))


def test_what_is_zero_at_the_beginning_alone_is_live() -> None:
    """As the adapters of LoRA begin."""
    module = Attention("query")
    with torch.no_grad():
        module.head.weight.zero_()
    look(record(module))


def look_at_task(training: TrainingSpec) -> None:
    step = get_step(training)
    batch = draw_batch(training.vocabulary_size, training.sequences_per_step, training.sequence_tokens)
    require_live_parameters(step, training, draw_weights(step.layout, 1), batch)


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_live(name: str) -> None:
    look_at_task(build_tiny_training(model=DECODERS[name], sequence_tokens=12))


@pytest.mark.parametrize("changes", [
    {"layer_count": 1, "head_count": 1, "kv_head_count": 1, "hidden_size": 2},
    {"vocabulary_size": 2, "intermediate_size": 1},
    {"head_count": 16, "kv_head_count": 1, "layer_count": 12},
    {"head_count": 16, "kv_head_count": 16},
])  # fmt: skip
def test_decoders_of_odd_shapes_live(changes: dict[str, Any]) -> None:
    look_at_task(build_tiny_training(model=replace(TINY, **changes)))


def test_the_model_of_the_demo_lives() -> None:
    look_at_task(build_tiny_training(model=DEMO_MODEL, sequence_tokens=128))
