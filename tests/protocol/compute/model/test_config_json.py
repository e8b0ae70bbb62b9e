"""Whatever stands in a config.json: a model that keeps every rule, or one refusal that names the file."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from protocol.compute.model.reference_model import (
    SAFETENSORS_METADATA,
    SAFETENSORS_NAME,
    build_tables,
    compute_logits,
    export_tensors,
    export_texts,
    import_model,
    init_parameters,
    split_parameters,
)
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput
from protocol.spec.task_rules import list_model_rules
from tests.protocol.compute.model.family_models import FAMILIES, MODELS

TEXTS = {name: export_texts(model)["config.json"] for name, model in MODELS.items()}
NAMES = sorted({key for text in TEXTS.values() for key in json.loads(text)} | {"rope_scaling", "n_ctx"})
ROPE_NAMES = [
    "rope_type",
    "type",
    "factor",
    "low_freq_factor",
    "rope_theta",
    "original_max_position_embeddings",
]
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["linear", "llama3", "default", "silu", 2, 8.0, 1e39, -1, 1 << 70]),
)  # fmt: skip
VALUES = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(st.sampled_from(ROPE_NAMES), PLAIN, max_size=4)


@given(
    name=st.sampled_from(sorted(FAMILIES)),
    changes=st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), VALUES, max_size=3),
)
@settings(max_examples=400, deadline=None)
def test_any_fields_give_a_sound_model_or_a_refusal(name: str, changes: dict[str, object]) -> None:
    text = json.dumps({**json.loads(TEXTS[name]), **changes}).encode()
    try:
        model = import_model(text, "config.json")
    except InvalidInput as refusal:
        assert "config.json" in refusal.where and refusal.remedy
    else:
        assert all(holds for holds, *_ in list_model_rules(model))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_json_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="config.json"):
        import_model(data, "config.json")


@pytest.mark.parametrize("name", MODELS)
def test_every_field_that_is_written_is_read_and_counts(name: str) -> None:
    """To leave one out, or to write another number, gives the same model only where transformers has that
    default."""
    fields = json.loads(TEXTS[name])
    for key, value in fields.items():
        if type(value) not in (int, float) or key.endswith(("pdrop", "dropout")):
            continue
        try:
            assert import_model(json.dumps({**fields, key: 2 * value}).encode(), "x") != MODELS[name], key
        except InvalidInput:
            continue


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
