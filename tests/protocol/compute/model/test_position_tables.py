"""Rotary frequencies and their scaling are those of transformers, and the same bits on any machine."""

from fractions import Fraction
from hashlib import sha256

import pytest
import torch

from protocol.compute.digest import tensor_bytes
from protocol.compute.model.position_tables import (
    build_mask,
    build_rotary,
    compute_frequency,
    scale_frequency,
)
from protocol.spec.containers import RopeScaling
from protocol.spec.float32 import nearest

transformers = pytest.importorskip("transformers")

SCALINGS = {
    "default": RopeScaling(),
    "linear": RopeScaling("linear", 4.0),
    "llama3": RopeScaling("llama3", 32.0, 1.0, 4.0, 8192),
}
PARAMETERS: dict[str, dict[str, object]] = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}  # fmt: skip
GOLDEN = {
    "default": "af72bcd1cf10adfdd8f5538658da9af4",
    "linear": "efeb008a0b0167d0aa38ea8115638d9e",
    "llama3": "512775b7c1bdcaf5cd97b39876163d10",
}
"""The first half of SHA-256 of cosines and sines; a change is another protocol version."""


def make_tables(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    return build_rotary(500_000.0, SCALINGS[kind], 64, 7)


@pytest.mark.parametrize("kind", SCALINGS)
def test_tables_are_those_of_transformers(kind: str) -> None:
    config = transformers.LlamaConfig(
        hidden_size=64, num_attention_heads=1, max_position_embeddings=131_072,
        rope_parameters={**PARAMETERS[kind], "rope_theta": 500_000.0},
    )  # fmt: skip
    rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
    cosines, sines = rotary(torch.zeros(1), torch.arange(7).unsqueeze(0))
    for ours, theirs in zip(make_tables(kind), (cosines, sines), strict=True):
        torch.testing.assert_close(ours, theirs[0, :, :32], rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", SCALINGS)
def test_tables_have_golden_bits(kind: str) -> None:
    digest = sha256(b"".join(tensor_bytes(table.reshape(-1)) for table in make_tables(kind))).hexdigest()
    assert digest[:32] == GOLDEN[kind]


def test_each_kind_of_scaling_gives_other_tables() -> None:
    tables = [make_tables(kind)[0] for kind in SCALINGS]
    assert not any(torch.equal(a, b) for n, a in enumerate(tables) for b in tables[n + 1 :])


def test_llama3_keeps_divides_and_mixes_frequencies() -> None:
    scaling = SCALINGS["llama3"]
    plain = [compute_frequency(500_000.0, i, 64) for i in range(32)]
    scaled = [scale_frequency(frequency, scaling) for frequency in plain]
    kept = [a == b for a, b in zip(plain, scaled, strict=True)]
    divided = [nearest(Fraction(a) / 32) == b for a, b in zip(plain, scaled, strict=True)]
    between = [not k and not d for k, d in zip(kept, divided, strict=True)]
    assert kept == sorted(kept, reverse=True) and divided == sorted(divided)
    assert min(sum(kept), sum(divided), sum(between)) >= 3 and sum(kept) + sum(divided) + sum(between) == 32


def test_the_mask_hides_later_tokens() -> None:
    mask = build_mask(3)
    assert mask.tolist() == [[0, -(2.0**100), -(2.0**100)], [0, 0, -(2.0**100)], [0, 0, 0]]
