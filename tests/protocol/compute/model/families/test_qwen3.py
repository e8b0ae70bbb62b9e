"""What is Qwen3's own: a norm for queries and keys of each head, and heads of any size."""

import torch

from protocol.compute.model.families.qwen3 import Qwen3
from protocol.compute.model.reference_model import parameter_layout, split_parameters
from tests.protocol.compute.model.family_models import QWEN3


def test_queries_and_keys_have_a_norm_of_the_heads_size() -> None:
    shapes = {one.name: one.shape for one in parameter_layout(QWEN3)}
    for name in ("q_norm", "k_norm"):
        assert shapes[f"model.layers.1.self_attn.{name}.weight"] == (QWEN3.head_size,)
    assert shapes["model.layers.0.self_attn.q_proj.weight"] == (4 * QWEN3.head_size, QWEN3.hidden_size)


def test_a_head_is_divided_by_its_own_magnitude() -> None:
    """So the size of a query does not matter, and its gain does."""
    flat = torch.ones(parameter_layout(QWEN3)[-1].offset + parameter_layout(QWEN3)[-1].size)
    names = split_parameters(flat, QWEN3)
    prefix = "model.layers.0."
    weights = {name.removeprefix(prefix): p for name, p in names.items() if name.startswith(prefix)}
    q_BHTN = torch.randn(1, 4, 3, QWEN3.head_size, generator=torch.Generator().manual_seed(0))
    shaped, larger = (Qwen3().shape_heads(q, weights, "q", QWEN3) for q in (q_BHTN, 8 * q_BHTN))
    torch.testing.assert_close(shaped, larger, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(shaped.square().mean(-1), torch.ones(1, 4, 3), rtol=1e-3, atol=1e-3)
