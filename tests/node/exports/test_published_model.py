"""Models of Hugging Face through transformers' classes: nothing is ignored, nothing is missing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import transformers
from safetensors.torch import load_file, save_file

from touchstone.node.exports.published_model import TRIED, read_published
from touchstone.node.exports.written_model import write_model
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.touchstone import main
from touchstone.step.record_step import Shape, record_step
from touchstone.step.step_folder import load_step

SIZES: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": None,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 1}
HEADS = {**GROUPED, "head_dim": 8}
GPT2 = {
    "vocab_size": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "bos_token_id": 1,
    "eos_token_id": 2, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "llama": {**GROUPED, "tie_word_embeddings": True}, "qwen2": GROUPED, "qwen3": HEADS, "gpt2": GPT2,
    "gemma": HEADS, "gemma2": {**HEADS, "sliding_window": 8}, "mistral": {**GROUPED, "sliding_window": 8},
    "phi": SIZES, "phi3": GROUPED, "olmo2": GROUPED, "smollm3": GROUPED,
    "opt": {
        **{key: value for key, value in SIZES.items() if key != "intermediate_size"}, "ffn_dim": 24,
        "word_embed_proj_dim": 16, "dropout": 0.0,
    },
    "gpt_neox": {**SIZES, "rotary_pct": 0.5},
}  # fmt: skip
TOKENS = torch.arange(24).view(2, 12) * 7 % 61 + 3


def save_model(name: str, folder: Path) -> Path:
    """The folder, with a small model of this type as `save_pretrained` writes it."""
    torch.manual_seed(4)
    classes: Any = transformers.AutoModelForCausalLM
    model = classes.from_config(transformers.AutoConfig.for_model(name, **MODELS[name]))
    model.save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each type."""
    return {name: save_model(name, tmp_path_factory.mktemp(name)) for name in MODELS}


def load(folder: Path) -> Any:
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    return model.eval()


def read_fields(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


def copy(folder: Path, out: Path, fields: dict[str, Any]) -> Path:
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(fields))
    weights = out / "model.safetensors"
    if not weights.exists():
        weights.write_bytes((folder / "model.safetensors").read_bytes())
    return out


def test_every_type_is_tried() -> None:
    assert set(MODELS) == set(TRIED)


@pytest.mark.parametrize("name", MODELS)
def test_a_folder_gives_the_logits_of_transformers(saved: dict[str, Path], name: str) -> None:
    found = read_published(saved[name], with_weights=True)
    with torch.no_grad():
        assert torch.equal(found.module(TOKENS).logits, load(saved[name])(TOKENS).logits)


@pytest.mark.parametrize("name", MODELS)
def test_an_export_loads_with_equal_logits(saved: dict[str, Path], name: str, tmp_path: Path) -> None:
    found = read_published(saved[name], with_weights=True)
    step = record_step(found.module, Shape(2, 12, "exact15", 128), config=found.config)
    write_model(tmp_path / "out", step.weights, TaskStep(step.built, step.layout))
    with torch.no_grad():
        assert torch.equal(load(tmp_path / "out")(TOKENS).logits, load(saved[name])(TOKENS).logits)


@pytest.mark.parametrize("name", MODELS)
def test_no_altered_config_gives_other_logits_than_transformers(
    saved: dict[str, Path], name: str, tmp_path: Path
) -> None:
    """Each field removed, null, as text: refused, or the logits are those of transformers with that file."""
    fields = read_fields(saved[name])
    accepted = 0
    for key, value in fields.items():
        for altered in ({}, {key: None}, {key: str(value)}):
            changed = {**{k: v for k, v in fields.items() if k != key}, **altered}
            folder = copy(saved[name], tmp_path / "altered", changed)
            try:
                found = read_published(folder, with_weights=True)
            except InvalidInput as refusal:
                assert refusal.where and refusal.remedy
                continue
            accepted += 1
            with torch.no_grad():
                assert torch.equal(found.module(TOKENS).logits, load(folder)(TOKENS).logits), (key, altered)
    assert accepted > 5


@pytest.mark.parametrize(("name", "change", "said"), [
    ("llama", {"new_attention": True}, "new_attention"),
    ("llama", {"attention_dropout": 0.1}, "draw no random numbers"),
    ("llama", {"hidden_size": "16"}, "hidden_size"), ("llama", {"model_type": "bert"}, "model_type"),
    ("llama", {"hidden_act": 7}, "hidden_act"), ("llama", {"hidden_act": "none such"}, "none such"),
    ("llama", {"num_attention_heads": 0}, "config.json"), ("llama", {"tie_word_embeddings": 1}, "tie_word"),
    ("gpt2", {"n_embd": True}, "n_embd"),
    ("llama", {"rope_scaling": {"rope_type": "none such"}}, "config.json"),
    ("llama", {"sliding_window": 4096}, "sliding_window"), ("llama", {"model_type": None}, "model_type"),
    ("llama", {"rope_interleaved": True}, "rope_interleaved"), ("llama", {"rope_theta": 0}, "rope_theta"),
    ("llama", {"rope_theta": "1e4"}, "rope_theta"), ("llama", {"rope_theta": True}, "rope_theta"),
    ("llama", {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 2e4}}, "rope_theta"),
    ("llama", {"rope_scaling": {"rope_type": "linear"}}, "config.json"),
    ("llama", {"rope_parameters": {"type": "linear", "rope_type": "default"}}, "rope_type"),
    ("llama", {"rope_parameters": {"type": "linear", "factor": 2, "beta_fast": 1}}, "beta_fast"),
    ("llama", {"rope_parameters": {"factor": 2.0}}, "factor.*a key of the kind default"),
    ("llama", {"rope_scaling": "linear"}, "config.json"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ("llama", {"quantization_config": {}}, "quantization_config"),
    ("llama", {"hidden_size": 15}, "config.json"), ("llama", {"hidden_size": True}, "hidden_size"),
    ("llama", {"hidden_size": 32.0}, "hidden_size"), ("llama", {"hidden_size": -32}, "config.json"),
    ("llama", {"hidden_size": None}, "hidden_size"), ("llama", {"hidden_size": 10**30}, "hidden_size"),
    ("llama", {"num_hidden_layers": 10**9}, "num_hidden_layers.*at most 1024"),
    ("llama", {"vocab_size": 1 << 32}, "parameters"), ("llama", {"num_key_value_heads": 3}, "k_proj"),
    ("llama", {"rms_norm_eps": "1"}, "rms_norm_eps"), ("qwen3", {"head_dim": 7}, "config.json"),
    ("gpt2", {"resid_pdrop": 0.1}, "resid_pdrop"), ("gpt2", {"activation_function": "none"}, "config.json"),
    ("gpt2", {"n_layer": 10**9}, "n_layer"), ("gpt_neox", {"rotary_pct": "0.5"}, "rotary_pct"),
    ("gpt_neox", {"rotary_pct": 2}, "rotary_pct"), ("llama", {"rotary_pct": 0.5}, "rotary_pct"),
    ("gpt_neox", {"rotary_emb_base": True}, "rotary_emb_base"), ("llama", {"pad_token_id": "a"}, "pad_token"),
    ("llama", {"eos_token_id": [1, "a"]}, "eos_token_id"), ("llama", {"dtype": "load"}, "dtype"),
    ("llama", {"rope_parameters": {"type": "linear", "factor": "a"}}, "factor"),
    ("phi", {"rope_parameters": None, "partial_rotary_factor": 1e6}, "partial_rotary_factor"),
    ("phi", {"rope_parameters": None, "partial_rotary_factor": 0}, "partial_rotary_factor"),
    ("phi", {"rope_parameters": None, "partial_rotary_factor": float("nan")}, "partial_rotary_factor"),
    ("phi", {"rope_parameters": {"partial_rotary_factor": 1.5}}, "partial_rotary_factor"),
    ("phi", {"rope_parameters": {"partial_rotary_factor": -0.5}}, "partial_rotary_factor"),
    ("gpt_neox", {"rope_parameters": {"partial_rotary_factor": True}}, "partial_rotary_factor"),
])  # fmt: skip
def test_what_cannot_be_honoured_is_refused_by_name(
    saved: dict[str, Path], tmp_path: Path, name: str, change: dict[str, Any], said: str
) -> None:
    folder = copy(saved[name], tmp_path / "changed", {**read_fields(saved[name]), **change})
    with pytest.raises(InvalidInput, match=said):
        read_published(folder, with_weights=True)


def test_code_and_free_text_of_a_folder_are_not_passed_on(saved: dict[str, Path], tmp_path: Path) -> None:
    """A submitter's task would carry them into every export."""
    told = {
        "auto_map": {"AutoModel": "free--text.Model"}, "_name_or_path": "free text", "prefix": "free text",
        "task_specific_params": {"free text": {}}, "architectures": ["free text"],
        "problem_type": "free text",
        "id2label": {"0": "free text"}, "label2id": {"free text": 0}, "tokenizer_class": "free text",
        "transformers_version": "free text",
    }  # fmt: skip
    folder = copy(saved["gpt2"], tmp_path / "told", {**read_fields(saved["gpt2"]), **told})
    found = read_published(folder, with_weights=True).config
    assert "free" not in found and "auto_map" not in found
    assert json.loads(found)["architectures"] == ["GPT2LMHeadModel"]


def test_a_model_that_cannot_be_run_is_refused_in_words(
    saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a number of the config given as text, of which older versions of transformers say nothing."""

    def forward(*_: Any, **__: Any) -> None:
        raise TypeError("unsupported operand")

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "forward", forward)
    with pytest.raises(InvalidInput, match="a config whose model runs, got TypeError: unsupported"):
        read_published(saved["gpt2"], with_weights=True)


def test_headers_are_judged_before_the_model_takes_memory(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A config.json of some hundred bytes may ask for 8 GB."""
    built, make = list[str](), transformers.GPT2LMHeadModel.__init__

    def note(self: Any, *arguments: Any, **named: Any) -> None:
        built.append(str(torch.get_default_device()))
        make(self, *arguments, **named)

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "__init__", note)
    (tmp_path / "config.json").write_text(json.dumps({**GPT2, "model_type": "gpt2", "vocab_size": 1 << 20}))
    with pytest.raises(InvalidInput, match="neither"):
        read_published(tmp_path, with_weights=True)
    assert built == ["meta"]
    read_published(saved["gpt2"], with_weights=True)
    assert built == ["meta", "meta", "cpu"]


def test_a_dropout_that_a_file_leaves_out_is_the_class_own(saved: dict[str, Path], tmp_path: Path) -> None:
    fields = {key: value for key, value in read_fields(saved["gpt2"]).items() if key != "attn_pdrop"}
    with pytest.raises(InvalidInput, match="attn_pdrop.*where the field is missing|missing.*attn_pdrop"):
        read_published(copy(saved["gpt2"], tmp_path / "left", fields), with_weights=True)


def test_numbers_of_older_files_are_read_as_transformers_reads_them(
    saved: dict[str, Path], tmp_path: Path
) -> None:
    """As published files of GPT-NeoX have them."""
    fields = {key: value for key, value in read_fields(saved["gpt_neox"]).items() if key != "rope_parameters"}
    old = copy(saved["gpt_neox"], tmp_path / "old", {**fields, "rotary_pct": 1.0, "rotary_emb_base": 500})
    with torch.no_grad():
        found = read_published(old, with_weights=True).module(TOKENS).logits
        assert torch.equal(found, load(old)(TOKENS).logits)
        assert not torch.equal(found, load(saved["gpt_neox"])(TOKENS).logits)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"[" * 300, b"{" * 100_000, b" " * (1 << 19), b"\xff"])
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "config.json").write_bytes(data)
    with pytest.raises(InvalidInput, match="config.json"):
        read_published(tmp_path, with_weights=False)


def test_weights_that_are_not_the_models_are_refused_by_name(saved: dict[str, Path], tmp_path: Path) -> None:
    fields = read_fields(saved["llama"])
    whole = load_file(saved["llama"] / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    spoiled = {
        "missing": {key: value for key, value in whole.items() if key != name},
        "there are others": {**whole, "model.more": torch.zeros(3)},
        name: {**whole, name: whole[name][:, :-1].clone()},
        f"{name}: finite": {**whole, name: whole[name] * torch.nan},
        "lm_head.weight: model.embed_tokens.weight": {**whole, "lm_head.weight": torch.zeros(64, 16)},
    }
    for said, tensors in spoiled.items():
        folder = copy(saved["llama"], tmp_path / "spoiled", fields)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(InvalidInput, match=said):
            read_published(folder, with_weights=True)


def test_the_command_records_a_step(saved: dict[str, Path], tmp_path: Path) -> None:
    words = ["--sequences", "2", "--tokens", "12", "--chunk-terms", "128", "--optimizer", "lion"]
    out = tmp_path / "step"
    assert main(["task", "record", str(saved["qwen3"]), "--out", str(out), "--weights", *words]) == 0
    step = load_step(out)
    assert step.shape.numeric_format == "exact15" and step.shape.vocabulary_size == 64
    named = dict(load(saved["qwen3"]).named_parameters())
    first = step.layout.parameters[0]
    assert torch.equal(step.weights[: first.size].view(first.shape), named[first.name])
    assert json.loads(step.layout.config)["model_type"] == "qwen3"
    assert main(["task", "record", str(saved["qwen3"]), "--out", str(out)]) != 0, "it is there already"
    frozen = tmp_path / "frozen"
    words += ["--freeze", "*mlp*", "--format", "float32"]
    assert main(["task", "record", str(saved["qwen3"]), "--out", str(frozen), *words]) == 0
    assert {entry.name for entry in load_step(frozen).layout.frozen} == {n for n in named if "mlp" in n}
