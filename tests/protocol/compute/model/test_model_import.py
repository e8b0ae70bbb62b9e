"""Whatever stands in a config.json: a model that keeps every rule, or one refusal that names the file."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.compute.model.model_export import export_texts
from protocol.compute.model.model_import import import_model
from protocol.spec.errors import InvalidInput
from protocol.spec.model_rules import list_model_rules
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
