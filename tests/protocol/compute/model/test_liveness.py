"""Parameters that only float noise moves are found; real ones of every small shape are not."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from protocol.compute.model.liveness import find_dead_parameters, require_live_parameters, shrink
from protocol.compute.model.reference_model import parameter_count
from protocol.spec.containers import ModelConfig, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest
from tests.protocol.compute.conftest import TINY, build_tiny_training
from tests.training_setting import DEMO_MODEL


def test_require_live_parameters_passes_the_models_at_hand(spec: TrainingSpec) -> None:
    require_live_parameters(spec)
    require_live_parameters(replace(spec, model=DEMO_MODEL, sequence_tokens=128))


@pytest.mark.parametrize(
    "changes",
    [
        {"layer_count": 1, "head_count": 1, "kv_head_count": 1, "hidden_size": 2},
        {"vocabulary_size": 2, "intermediate_size": 1},
        {"head_count": 16, "kv_head_count": 1, "layer_count": 30},
        {"head_count": 16, "kv_head_count": 16},
    ],
)
def test_require_live_parameters_passes_every_shape(changes: dict[str, Any]) -> None:
    require_live_parameters(build_tiny_training(model=replace(TINY, **changes)))


def test_require_live_parameters_names_queries_and_keys_that_see_one_token() -> None:
    """A softmax over one score is 1, whatever the score."""
    with pytest.raises(InvalidInput, match="identically zero") as refusal:
        require_live_parameters(build_tiny_training(sequence_tokens=1))
    names = str(refusal.value.actual).split("; ")
    assert len(names) == 4 and all("q_proj" in name or "k_proj" in name for name in names)
    assert "rounding noise" in refusal.value.remedy


def test_require_live_parameters_names_what_a_constant_switches_off() -> None:
    """A norm that divides by nearly nothing passes no gradient on."""
    dead = replace(TINY, norm_epsilon=nearest(1e38))
    with pytest.raises(InvalidInput, match="identically zero"):
        require_live_parameters(build_tiny_training(model=dead))


# --- Noise --------------------------------------------------------------------------------------------------
def attend(dtype: torch.dtype) -> dict[str, Tensor]:
    """Gradients of an attention with biases: the key's shifts all scores of a query alike."""
    generator = torch.Generator().manual_seed(3)
    drawn = {name: torch.randn(9, 9, generator=generator) for name in ("x", "query", "key", "target")}
    drawn |= {f"{name}_bias": torch.randn(9, generator=generator) for name in ("query", "key")}
    leaves = {name: tensor.to(dtype).requires_grad_() for name, tensor in drawn.items()}
    query = leaves["x"] @ leaves["query"] + leaves["query_bias"]
    key = leaves["x"] @ leaves["key"] + leaves["key_bias"]
    mixed = (query @ key.T / 9).softmax(-1) @ leaves["x"]
    torch.sum((mixed - leaves["target"]) ** 2).backward()  # type: ignore[no-untyped-call]
    found = {}
    for name in ("query", "query_bias", "key", "key_bias"):
        gradient = leaves[name].grad
        assert gradient is not None
        found[name] = gradient
    return found


def test_find_dead_parameters_tells_a_key_bias_from_a_query_bias() -> None:
    single, double = attend(torch.float32), attend(torch.float64)
    assert single["key_bias"].abs().max() > 0, "noise, not nothing"
    assert find_dead_parameters(single, double) == ["key_bias"]


def test_find_dead_parameters_finds_exact_zeros() -> None:
    zero = {"a": torch.zeros(3), "b": torch.ones(3)}
    assert find_dead_parameters(zero, {name: tensor.double() for name, tensor in zero.items()}) == ["a"]


def test_shrink_keeps_the_formula_and_little_else() -> None:
    large = ModelConfig(50_000, 4096, 11_008, 32, 32, 8, 4096)
    small = shrink(large)
    assert small.head_count // small.kv_head_count == 4 and small.rope_theta == large.rope_theta
    assert parameter_count(small) < 40_000 and shrink(small) == small
