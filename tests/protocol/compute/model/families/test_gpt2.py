"""What is GPT-2's own: matrices as Conv1D has them, and parts that no gradient reaches."""

from dataclasses import replace

import pytest

from protocol.compute.model.families.gpt2 import Gpt2
from protocol.compute.model.reference_model import parameter_layout
from tests.protocol.compute.model.family_models import GPT2


def test_matrices_lie_with_their_inputs_first_and_have_biases() -> None:
    shapes = {one.name: one.shape for one in parameter_layout(GPT2)}
    d, f = GPT2.hidden_size, GPT2.intermediate_size
    assert shapes["transformer.h.0.attn.c_attn.weight"] == (d, 3 * d)
    assert shapes["transformer.h.0.mlp.c_fc.weight"] == (d, f)
    assert shapes["transformer.h.0.mlp.c_fc.bias"] == (f,)
    assert "lm_head.weight" not in shapes and "lm_head.weight" in dict(
        Gpt2().list_shapes(replace(GPT2, tied=0))
    )


@pytest.mark.parametrize("tokens", [10, 16])
def test_idle_are_the_keys_biases_and_the_positions_behind_a_row(tokens: int) -> None:
    d = GPT2.hidden_size
    idle = [part for part in Gpt2().list_parts(GPT2, tokens) if part.is_idle]
    keys = [(f"transformer.h.{layer}.attn.c_attn.bias", d, 2 * d) for layer in range(2)]
    behind = [("transformer.wpe.weight", tokens, 16)] if tokens < 16 else []
    assert [(part.name, part.start, part.stop) for part in idle] == keys + behind
