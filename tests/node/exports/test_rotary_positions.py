"""Rotary positions of a config.json: what transformers 4 and 5 read of an export is one model."""

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.older_transformers import install_oldest, load_with
from tests.node.exports.test_published_model import MODELS, TOKENS, load
from tests.protocol.compute.program.hand_written import HandWritten, M, V, W
from touchstone.node.exports.published_model import PublishedModel, read_published
from touchstone.node.exports.rotary_positions import NEEDED, OPTIONAL, ROTARY_FIELDS, read_rotation
from touchstone.node.exports.written_model import clean_config, write_model
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.weights_layout import ParameterEntry, Start, WeightsLayout

NOISE = 1e-5
"""Of float32, for logits of about 1: the versions order some sums in other ways."""
LLAMA3 = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4.0}
SCALINGS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4},
    "llama3": {**LLAMA3, "original_max_position_embeddings": 16},
    "llama3 of all": LLAMA3,
    "yarn": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 8},
    "yarn of all": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 20},
}
NOT_IN_OLDEST: dict[str, dict[str, Any]] = {
    "yarn of another factor": {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 8},
    "yarn not cut": {"rope_type": "yarn", "factor": 4.0, "truncate": False},
}
"""transformers 4.53 computes these otherwise: it must refuse the folder."""
CASES = [
    *((name, scaling) for name in ROTARY_FIELDS for scaling in (*SCALINGS, *NOT_IN_OLDEST)),
    *((name, "default") for name in MODELS if name not in ROTARY_FIELDS),
]
ONLY = {"phi3": ("default",)}
"""Kinds that the class itself takes."""
ONLY_IN_OLDEST = {"olmo2": ("default", "linear")}


def list_cases() -> list[tuple[str, str]]:
    return [(name, scaling) for name, scaling in CASES if scaling in ONLY.get(name, (scaling,))]


def write_fields(path: Path, name: str, scaling: str) -> Path:
    """A config.json in the places of transformers 5, whose positions are told apart by 32 tokens."""
    fields = {**MODELS[name], "model_type": name, "initializer_range": 0.3}
    if name in ROTARY_FIELDS:
        table = {**SCALINGS, **NOT_IN_OLDEST}[scaling]
        part = {"partial_rotary_factor": 0.5} if "partial_rotary_factor" in ROTARY_FIELDS[name] else {}
        fields = {key: value for key, value in fields.items() if key not in ROTARY_FIELDS[name]}
        fields["rope_parameters"] = {**table, "rope_theta": 500.0, **part}
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(fields))
    return path


def write_unrecorded(model: PublishedModel, out: Path) -> None:
    """Exports a model without recording a step of it, which takes seconds."""
    named = dict(model.module.named_parameters())
    flat = torch.cat([one.detach().reshape(-1) for one in named.values()])
    written = HandWritten(len(flat))
    program = BuiltProgram(written.finish(*written.copies(W, M, V)), written.constants)
    entries = tuple(ParameterEntry(name, tuple(one.shape), Start.ONES) for name, one in named.items())
    write_model(out, flat, TaskStep(program, WeightsLayout(entries, (), model.config)))


def test_an_export_is_one_model_to_the_oldest_and_to_the_newest_transformers(tmp_path: Path) -> None:
    """Each class with each scaling that the import takes. The oldest refuses what it would compute
    otherwise. And the import reads the same of them through both."""
    oldest, own, folders = install_oldest(), list[torch.Tensor](), list[Path]()
    for name, scaling in list_cases():
        model = read_published(write_fields(tmp_path / "in", name, scaling), with_weights=False, seed=3)
        folders.append(tmp_path / f"{name} {scaling}")
        write_unrecorded(model, folders[-1])
        with torch.no_grad():
            own.append(model.module(TOKENS).logits)
    load_each = partial(load_with, folders=folders, tokens=TOKENS)
    wrong = []
    for said, is_imported in (("4", False), ("5", False), ("4", True), ("5", True)):
        site = oldest if said == "4" else None
        found = load_each(site, out=tmp_path / "logits", is_imported=is_imported)
        assert {one.version.partition(".")[0] for one in found} == {said}
        for (name, scaling), mine, one in zip(list_cases(), own, found, strict=True):
            is_known = said == "5" or scaling in ONLY_IN_OLDEST.get(name, SCALINGS)
            distance = 0.0 if one.logits is None else float((mine - one.logits).abs().max())
            if is_known == bool(one.error) or distance > NOISE:
                wrong.append(f"{said} {is_imported} {name} {scaling}: {one.error or distance}")
    assert not wrong, "\n".join(wrong)


V4 = {"rope_theta": 500, "rope_scaling": {"type": "linear", "factor": 4}}
V5 = {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}}


def write_config(path: Path, model_type: str = "llama", **fields: Any) -> Path:
    whole = {**MODELS[model_type], "model_type": model_type, **fields}
    (path / "config.json").write_text(json.dumps(whole))
    return path


def test_a_config_with_both_places_is_read_as_with_one(tmp_path: Path) -> None:
    """As an export has them."""
    logits = []
    for fields in (V4, V5, {**V4, **V5}, {**V5, "rope_scaling": {}}, {**V5, "rope_theta": 500}, {}):
        model = read_published(write_config(tmp_path, **fields), with_weights=False, seed=3)
        with torch.no_grad():
            logits.append(model.module(TOKENS).logits)
    assert all(torch.equal(logits[0], one) for one in logits[1:-1])
    assert not torch.equal(logits[0], logits[-1])


@pytest.mark.parametrize(("fields", "said"), [
    ({**V4, "rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "the same in"),
    ({**V4, "rope_parameters": {"rope_type": "default"}}, "the same in rope_scaling and rope_parameters"),
    ({**V4, "rope_parameters": {}}, "the same in rope_scaling and rope_parameters"),
    ({**V5, "rope_scaling": None}, "the same in rope_scaling and rope_parameters, or one of them alone"),
    ({**V5, "rope_theta": 501}, "rope_parameters, rope_theta: expected 501, as another field says, got 500"),
    ({**V5, "rope_scaling": {"type": "linear", "factor": 4, "rope_theta": 9}}, "rope_theta: expected 9"),
    ({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 4}}, "rope_type: expected"),
    ({"rope_scaling": {"type": 7}}, "rope_type"), ({"rope_scaling": {"type": ["linear"]}}, "rope_type"),
    ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type"),
    ({"rope_scaling": {"type": "linear"}}, "rope_scaling, factor: expected a number, got None"),
    ({"rope_scaling": {"type": "linear", "factor": True}}, "factor"),
    ({"rope_scaling": {"type": "linear", "factor": float("nan")}}, "factor"),
    ({"rope_scaling": {"type": "yarn", "factor": 4, "truncate": 0}}, "truncate: expected true or false"),
    ({"rope_theta": None}, "rope_theta"), ({"rope_theta": float("inf")}, "rope_theta"),
    ({"rope_theta": 10**400}, "rope_theta"),
    ({"model_type": "gpt_neox", "rope_theta": 10000, "rotary_emb_base": 500}, "base: expected 10000"),
    ({"model_type": "gpt_neox", "rotary_pct": 0.5, "partial_rotary_factor": 1.0}, "rotary_pct: expected 1.0"),
])  # fmt: skip
def test_places_that_contradict_each_other_are_refused(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_published(write_config(tmp_path, **fields), with_weights=False)


@pytest.mark.parametrize("fields", [
    {"model_type": "llama", "rope_scaling": 7}, {"model_type": "llama", "rope_theta": "x"},
    {"model_type": ["llama"], "rope_theta": 2}, {"model_type": "llama", **V4, "rope_parameters": {}},
    {"model_type": "phi", "partial_rotary_factor": [1]}, {"rope_theta": 5}, {"model_type": "gpt2"},
    {"model_type": "llama", "rope_parameters": {"rope_type": "yarn"}},
])  # fmt: skip
def test_a_strangers_config_with_other_positions_is_written_as_it_is(fields: dict[str, Any]) -> None:
    written = clean_config(json.dumps(fields))
    assert written is not None and json.loads(written) == fields


NUMBERS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([10**400, 8, 1, "x", []])
KEYS = st.sampled_from(sorted({*NEEDED["llama3"], *OPTIONAL["yarn"], "rope_theta", "partial_rotary_factor"}))
TABLES = st.fixed_dictionaries(
    {"rope_type": st.sampled_from(["default", "linear", "llama3", "yarn", 7])}
).flatmap(lambda kind: st.dictionaries(KEYS, NUMBERS).map(lambda table: {**table, **kind}))


@given(st.sampled_from(sorted(ROTARY_FIELDS)), NUMBERS, st.dictionaries(
    st.sampled_from(sorted({*ROTARY_FIELDS["gpt_neox"]})), NUMBERS | TABLES
))  # fmt: skip
def test_no_config_of_a_stranger_is_a_bug(name: str, longest: Any, fields: dict[str, Any]) -> None:
    """What is written says to the import what the config said."""
    whole = {"model_type": name, "max_position_embeddings": longest, **fields}
    written = json.loads(clean_config(json.dumps(whole)) or b"")
    assert written["model_type"] == name
    with suppress(InvalidInput):
        assert read_rotation(written, "") == read_rotation(json.loads(json.dumps(whole)), "")


def test_an_export_says_the_type_of_its_weights(tmp_path: Path) -> None:
    """Of a model that was published in bfloat16 transformers 5 would round the trained weights again."""
    for name in ("torch_dtype", "dtype"):
        model = read_published(write_config(tmp_path, **{name: "bfloat16"}), with_weights=False, seed=3)
        write_unrecorded(model, tmp_path / name)
        with torch.no_grad():
            assert torch.equal(load(tmp_path / name)(TOKENS).logits, model.module(TOKENS).logits)
