from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from protocol.compute.model.model_export import (
    SAFETENSORS_METADATA,
    SAFETENSORS_NAME,
    export_tensors,
    export_texts,
)
from protocol.compute.model.reference_model import (
    build_tables,
    compute_logits,
    init_parameters,
    split_parameters,
)
from protocol.spec.containers import ModelConfig

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("theta", [10_000.0, 250.0])
def test_transformers_gives_equal_logits(tmp_path: Path, theta: float) -> None:
    config = ModelConfig(64, 32, 48, 2, 4, 2, 16, rope_theta=theta)
    # Larger than fresh weights, so that attention is far from uniform and a wrong rotation shows.
    weights = init_parameters(config, 3) * 8
    save_file(export_tensors(weights, config), tmp_path / SAFETENSORS_NAME, SAFETENSORS_METADATA)
    for name, text in export_texts(config).items():
        (tmp_path / name).write_text(text)
    tokens = torch.arange(32).view(2, 16) * 7 % 64
    loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    with torch.no_grad():
        theirs = loaded(tokens).logits
        ours = compute_logits(split_parameters(weights, config), tokens, build_tables(config), config)
    assert float(ours.std()) > 0.1
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))
