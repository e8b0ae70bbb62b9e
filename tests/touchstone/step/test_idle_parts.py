"""Elements that noise alone would move are cut off in float formats, in classes as people use them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.protocol.compute.conftest import build_tiny_training
from tests.touchstone.step.test_transformers import ROWS, TOKENS, make
from touchstone.protocol.compute.bounds.live_parameters import require_live_parameters
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.step import record_step as recording
from touchstone.step.idle_parts import find_idle
from touchstone.step.plain_step import lay_out
from touchstone.step.record_step import Shape, next_token_loss, record_step

IDLE = {
    "GPT2": {"transformer.h.{}.attn.c_attn.bias": 32},
    "Phi": {"model.layers.{}.self_attn.k_proj.bias": 16},  # The half that is not turned by positions.
    "GPTNeoX": {"gpt_neox.layers.{}.attention.query_key_value.bias": 24},
    "OPT": {"model.decoder.layers.{}.self_attn.k_proj.bias": 32},
    "Qwen2": {},
    "Llama, tied and scaled": {},
}
TOKENS_BT = torch.arange(ROWS * (TOKENS + 1)).view(ROWS, TOKENS + 1) ** 2 % 89


def look(model: nn.Module, numeric_format: str = "float32") -> None:
    step = record_step(model, Shape(ROWS, TOKENS, numeric_format))
    batch = Batch(TOKENS_BT[:, :-1].contiguous(), TOKENS_BT[:, 1:].contiguous())
    spec = replace(build_tiny_training(), beta1=step.shape.beta1, beta2=step.shape.beta2)
    require_live_parameters(TaskStep(step.built, step.layout), spec, step.weights, batch)


@pytest.mark.parametrize("name", IDLE)
def test_keys_biases_are_found_and_cut_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    parameters = lay_out(model)
    found = find_idle(model, parameters, next_token_loss, (ROWS, TOKENS), 97)
    expected = {form.format(layer): count for form, count in IDLE[name].items() for layer in range(2)}
    assert {key: int(mask.sum()) for key, mask in found.items()} == expected
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.get_default_dtype() is torch.float32
    look(model)
    if expected:
        monkeypatch.setattr(recording, "_find_idle", lambda *_: {})
        with pytest.raises(InvalidInput, match="rounding noise"):
            look(model)


def test_what_is_cut_off_has_the_gradient_zero() -> None:
    model = make("OPT")
    step = record_step(model, Shape(ROWS, TOKENS))
    parameters = {p.name: p for p in step.parameters}
    bias = parameters["model.decoder.layers.0.self_attn.k_proj.bias"]
    zeros = torch.zeros_like(step.weights)
    tokens, labels = TOKENS_BT[:, :-1].contiguous(), TOKENS_BT[:, 1:].contiguous()
    scalars = torch.tensor([1e-3, 0.1, 0.05])
    first = Interpreter(step.built.program, step.built.constants).run(
        (step.weights, zeros, zeros), tokens, labels, scalars
    ).first_moment  # fmt: skip
    assert not bias.cut(first).any()
    assert parameters["model.decoder.layers.0.self_attn.q_proj.bias"].cut(first).all()


class Halved(nn.Module):
    """One half of a vector is added to all logits of a row alike."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(32, 8)
        self.both = nn.Parameter(torch.randn(40) / 10)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.rows(tokens) @ self.rows.weight.t() + self.both[:32]
        return logits + self.both[32:].sum()


def test_a_part_of_a_parameter_is_cut_off_and_exact_formats_keep_it() -> None:
    module = Halved()
    found = find_idle(module, lay_out(module), next_token_loss, (2, 6), 32)
    assert set(found) == {"both"} and found["both"].tolist() == [False] * 32 + [True] * 8
    float32, exact = (record_step(module, Shape(2, 6, name)) for name in ("float32", "exact15"))
    assert len(float32.built.constants) >= 1 and exact.weights.equal(float32.weights)
