"""The module that a task with sizes alone has: first weights, and what transformers makes of them."""

import pytest
import torch

from touchstone.step.first_weights import describe_weights
from touchstone.step.plain_decoder import Decoder, DecoderConfig
from touchstone.step.plain_step import lay_out

SIZES = (64, 32, 48, 8, 4, 2, 16)


@pytest.mark.parametrize(("is_tied", "embedding"), [(False, 1.0), (True, 0.02)])
def test_first_weights_start_where_float_noise_stays_small(is_tied: bool, embedding: float) -> None:
    """Rows of the embedding that are small multiply gradients, and noise with them: limits would not hold."""
    module = Decoder(DecoderConfig(*SIZES, tied=is_tied))
    entries = {one.name: one.deviation for one in describe_weights(module, lay_out(module)).parameters}
    wanted = {"embed_tokens": embedding, "q_proj": 0.02, "up_proj": 0.02, "o_proj": 0.005, "down_proj": 0.005}
    for name, deviation in entries.items():
        for part, expected in wanted.items():
            if part in name:
                assert deviation == pytest.approx(expected, rel=0.1), name
    assert ("lm_head.weight" in entries) is not is_tied


def test_heads_share_keys_and_values_and_see_no_later_token() -> None:
    module = Decoder(DecoderConfig(*SIZES))
    tokens = torch.arange(32).view(2, 16)
    changed = tokens.clone()
    changed[:, 9:] += 1
    first, second = module(tokens), module(changed)
    assert torch.equal(first[:, :9], second[:, :9]) and not torch.equal(first[:, 9:], second[:, 9:])
