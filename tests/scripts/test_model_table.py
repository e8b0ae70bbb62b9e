"""A task file names its model by numbers, by a preset or by a config.json; what is not offered is refused."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from node.export import write_model
from protocol.compute.digest import tensor_root
from protocol.compute.model.reference_model import export_texts, init_parameters, parameter_layout
from protocol.spec.containers import ModelConfig, RopeScaling
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest
from protocol.spec.params import GIVEN_START
from protocol.spec.task_rules import count_parameters, list_model_rules
from scripts.chain_commands import TASK_FILE
from scripts.console import render_error
from scripts.model_table import PRESETS, read_model_table
from scripts.task_file import read_task_file
from scripts.touchstone import main

EXAMPLE = TASK_FILE.read_text()
START, END = EXAMPLE.index("[model]"), EXAMPLE.index("[schedule]")

SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 576,
    "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": True,
    "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 9,
    "num_hidden_layers": 30, "num_key_value_heads": 3, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": True, "vocab_size": 49152,
}  # fmt: skip
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
    "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
    "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": True,
    "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
GPT2 = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.0,
    "bos_token_id": 50256, "embd_pdrop": 0.0, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.0, "summary_activation": None,
    "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index",
    "summary_use_proj": True, "task_specific_params": {"text-generation": {"max_length": 50}},
    "vocab_size": 50257,
}  # fmt: skip
PUBLISHED = {"smollm2-135m": SMOLLM2, "qwen3-0.6b": QWEN3, "gpt2-124m": GPT2}
SMALL = {
    "model_type": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 128,
}  # fmt: skip
"""The least that a file must say."""


def write(folder: Path, table: str, config: object = None) -> Path:
    (folder / "corpus.bin").write_bytes(bytes(range(256)) * 1000)
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / "config.json").write_text(text)
    (folder / "task.toml").write_text(f"{EXAMPLE[:START]}[model]\n{table}\n{EXAMPLE[END:]}")
    return folder / "task.toml"


def read_config(folder: Path, config: object) -> ModelConfig:
    return read_task_file(write(folder, 'config = "config.json"', config)).plan.model


# --- What is taken ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_model_that_nodes_accept(name: str) -> None:
    model = PRESETS[name]
    assert all(holds for holds, *_ in list_model_rules(model))
    assert sum(parameter.size for parameter in parameter_layout(model)) == count_parameters(model)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("gpt2-124m", 124_439_808), ("smollm2-135m", 134_515_008), ("qwen3-0.6b", 596_049_920)],
)
def test_a_preset_has_the_published_number_of_parameters(name: str, parameters: int) -> None:
    assert count_parameters(PRESETS[name]) == parameters


def test_a_task_file_may_name_a_preset(tmp_path: Path) -> None:
    small = 'preset = "llama-6m"'
    assert read_task_file(write(tmp_path, small)).plan.model == PRESETS["llama-6m"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_is_its_preset(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "", PUBLISHED[name])
    assert read_model_table({"config": "config.json"}, path) == asdict(PRESETS[name])


def test_what_is_missing_is_what_transformers_takes(tmp_path: Path) -> None:
    expected = ModelConfig(256, 32, 48, 1, 4, 4, 128, norm_epsilon=nearest(1e-6))
    assert read_config(tmp_path, SMALL) == expected
    qwen3 = read_config(tmp_path, {**SMALL, "model_type": "qwen3"})
    assert (qwen3.head_size, qwen3.tied) == (128, 0)


@pytest.mark.parametrize(
    ("fields", "scaling"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2}}, RopeScaling("linear", 2.0)),
        ({"rope_scaling": {"rope_type": "default"}}, RopeScaling()),
        ({"rope_parameters": {"rope_type": "linear", "factor": 4.0}}, RopeScaling("linear", 4.0)),
        (
            {
                "rope_scaling": {
                    "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                    "original_max_position_embeddings": 8192, "rope_type": "llama3",
                }
            },
            RopeScaling("llama3", 32.0, 1.0, 4.0, 8192),
        ),
        (
            {"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 2}},
            RopeScaling("llama3", 8.0, 1.0, 2.0, 128),
        ),
    ],
)  # fmt: skip
def test_rope_scaling_is_read(tmp_path: Path, fields: dict[str, Any], scaling: RopeScaling) -> None:
    assert read_config(tmp_path, {**SMALL, "rope_theta": 5e5, **fields}).rope_scaling == scaling


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_exported_can_be_read_again(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "", export_texts(PRESETS[name])["config.json"])
    assert read_model_table({"config": "config.json"}, path) == asdict(PRESETS[name])


# --- What is refused ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("base", "change", "named"),
    [
        (SMALL, {"attention_bias": True}, "attention_bias"),
        (SMALL, {"mlp_bias": True}, "mlp_bias"),
        (SMALL, {"hidden_act": "gelu"}, "hidden_act"),
        (SMALL, {"hidden_act": 1}, "hidden_act"),
        (SMALL, {"attention_dropout": 0.1}, "attention_dropout"),
        (SMALL, {"sliding_window": 4096}, "sliding_window"),
        (SMALL, {"model_type": "mistral"}, "model_type: expected 'llama' or 'qwen3' or 'gpt2'"),
        (SMALL, {"model_type": None}, "model_type"),
        (SMALL, {"rope_interleaved": True}, "rope_interleaved"),
        (SMALL, {"rope_theta": 0}, "model_constants"),
        (SMALL, {"rope_theta": "1e4"}, "rope_theta"),
        (SMALL, {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 2e4}}, "rope_theta"),
        (
            SMALL,
            {"rope_scaling": {"rope_type": "yarn", "factor": 4}},
            "rope_type: expected default or linear",
        ),
        (SMALL, {"rope_scaling": {"rope_type": "linear"}}, "factor"),
        (SMALL, {"rope_scaling": {"type": "linear", "rope_type": "default"}}, "rope_type"),
        (SMALL, {"rope_scaling": {"type": "linear", "factor": 2, "beta_fast": 1}}, "beta_fast"),
        (SMALL, {"rope_scaling": {"factor": 2.0}}, "no other fields of the type default"),
        (SMALL, {"rope_scaling": {}, "rope_parameters": {}}, "one of rope_scaling and rope_parameters"),
        (SMALL, {"rope_scaling": "linear"}, "rope_scaling"),
        (SMALL, {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        (SMALL, {"quantization_config": {}}, "quantization_config"),
        (SMALL, {"hidden_size": 30}, "head_count"),
        (SMALL, {"hidden_size": True}, "hidden_size"),
        (SMALL, {"hidden_size": 32.0}, "hidden_size"),
        (SMALL, {"hidden_size": -32}, "hidden_size"),
        (SMALL, {"hidden_size": None}, "hidden_size"),
        (SMALL, {"hidden_size": 10**30}, "hidden_size"),
        (SMALL, {"num_hidden_layers": 10**9}, "layer_count"),
        (SMALL, {"num_attention_heads": 0}, "model_sizes"),
        (SMALL, {"vocab_size": 1 << 39}, "model_sizes"),
        (SMALL, {"num_key_value_heads": 3}, "kv_head_count"),
        (SMALL, {"tie_word_embeddings": 1}, "tie_word_embeddings"),
        (SMALL, {"rms_norm_eps": 0}, "model_constants"),
        (SMALL, {"rms_norm_eps": 1e300}, "rms_norm_eps"),
        (QWEN3, {"use_sliding_window": True}, "use_sliding_window"),
        (QWEN3, {"layer_types": ["sliding_attention"] * 28}, "layer_types"),
        (QWEN3, {"head_dim": 7}, "head_count"),
        (GPT2, {"resid_pdrop": 0.1}, "resid_pdrop: expected 0"),
        (GPT2, {"activation_function": "relu"}, "activation_function"),
        (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        (GPT2, {"add_cross_attention": True}, "add_cross_attention"),
        (GPT2, {"n_ctx": 512}, "n_ctx"),
        (GPT2, {"max_position_embeddings": 512}, "max_position_embeddings"),
    ],
)
def test_what_a_config_asks_for_and_is_not_offered_is_refused_by_its_field(
    tmp_path: Path, base: dict[str, Any], change: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidInput, match=named) as refusal:
        read_config(tmp_path, {**base, "vocab_size": 256, **change})
    assert "config.json" in refusal.value.where and refusal.value.remedy
    assert len(render_error(refusal.value).splitlines()) >= 4


def test_a_dropout_that_is_not_stated_is_the_one_of_transformers(tmp_path: Path) -> None:
    unstated = {name: value for name, value in GPT2.items() if name != "attn_pdrop"}
    with pytest.raises(InvalidInput, match=r"attn_pdrop: .* got 0.1 \(what transformers takes"):
        read_config(tmp_path, unstated)


@pytest.mark.parametrize("text", ["", "[]", "{", '"llama"', "[" * 100_000, "{}" + " " * 300_000])
def test_what_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"not a model's config.json at .*config.json"):
        read_config(tmp_path, text)


def test_a_config_of_too_many_fields_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="too many fields"):
        read_config(tmp_path, {**SMALL, **{f"x{i}": i for i in range(300)}})


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ('preset = "gpt5"', "model.preset: expected one of llama-0.2m"),
        ("preset = 5", "model.preset"),
        ('config = "none.json"', "model.config"),
        ("config = 5", "model.config"),
        ('config = "a\\u0000b"', "model.config"),
        ('config = "."', "model.config"),
        ('preset = "llama-6m"\nhidden_size = 8', "model.preset: expected no other key .* got hidden_size"),
        ('preset = "llama-6m"\nconfig = "config.json"', "model.preset"),
        ('architecture = "mamba"\npreset = "llama-6m"', "model.preset"),
    ],
)
def test_a_wrong_way_to_name_a_model_is_refused_by_its_key(tmp_path: Path, table: str, named: str) -> None:
    path = write(tmp_path, table, SMALL)
    with pytest.raises(InvalidInput, match=named) as refusal:
        read_task_file(path)
    assert str(path) in refusal.value.where


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ('architecture = "mamba"', "model.architecture"),
        ("tied = 2", "model.tied"),
        ("tied = true", "model.tied"),
        ("head_size = 7", "model.head_count"),
        ("head_size = -2", "model.head_size"),
        ('architecture = "gpt2"\nrope_theta = 500.0', "model"),
        ('rope_scaling = { kind = "yarn" }', "model.rope_scaling"),
        ('rope_scaling = { kind = "linear", factor = 0.5 }', "model.rope_scaling"),
        ('rope_scaling = { kind = "linear", wave = 2 }', "model.rope_scaling.wave"),
    ],
)
def test_single_numbers_of_a_family_are_judged(tmp_path: Path, table: str, named: str) -> None:
    numbers = EXAMPLE[START:END].removeprefix(EXAMPLE[START:].splitlines()[0])
    with pytest.raises(InvalidInput, match=named):
        read_task_file(write(tmp_path, f"{table}\n{numbers}", SMALL))


def test_single_numbers_of_every_family_are_taken(tmp_path: Path) -> None:
    numbers = EXAMPLE[START:END].removeprefix(EXAMPLE[START:].splitlines()[0])
    table = 'architecture = "qwen3"\nhead_size = 48\ntied = 1\nrope_scaling = { kind = "linear", factor = 2 }'
    model = read_task_file(write(tmp_path, f"{table}\n{numbers}")).plan.model
    assert (model.head_elements, model.tied, model.rope_scaling.factor) == (48, 1, 2.0)


# --- Weights that a task begins with ------------------------------------------------------------------------
START_SHAPE = ModelConfig(256, 32, 48, 1, 4, 4, 128)


def write_start(folder: Path, table: str, seed: str = "") -> Path:
    """A task file beside a folder with weights; seed: the line about it."""
    write_model(folder / "start", init_parameters(START_SHAPE, 99), START_SHAPE)
    path = write(folder, table)
    path.write_text(path.read_text().replace("initial_seed = 1\n", seed))
    return path


NUMBERS = "\n".join(f"{key} = {value}" for key, value in list(vars(START_SHAPE).items())[:7])


@pytest.mark.parametrize("beside", ["", NUMBERS, 'config = "start/config.json"'])
def test_a_task_may_begin_with_the_weights_of_a_folder(tmp_path: Path, beside: str) -> None:
    """Alone its own config.json says the sizes."""
    file = read_task_file(write_start(tmp_path, f'weights = "start"\n{beside}'))
    assert file.plan.model == START_SHAPE and file.plan.initial_seed == GIVEN_START
    assert file.weights is not None and torch.equal(file.weights.read(), init_parameters(START_SHAPE, 99))


def test_a_seed_and_weights_exclude_each_other(tmp_path: Path) -> None:
    for table, seed, named in (
        (
            'weights = "start"',
            "initial_seed = 1\n",
            "initial_seed: expected no such key beside model.weights",
        ),
        (NUMBERS, f"initial_seed = {GIVEN_START}\n", "initial_seed: expected 0 to"),
        (NUMBERS, "", "initial_seed"),
    ):
        with pytest.raises(InvalidInput, match=named):
            read_task_file(write_start(tmp_path, table, seed))
    largest = read_task_file(write_start(tmp_path, NUMBERS, f"initial_seed = {GIVEN_START - 1}\n"))
    assert largest.weights is None and largest.plan.initial_seed == GIVEN_START - 1


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ('weights = "none"', "model.weights"),
        ('weights = "corpus.bin"', "model.weights"),
        ("weights = 5", "model.weights"),
        ('weights = "a\\u0000b"', "model.weights"),
        ('weights = "."', "not the weights of this model"),
        ('weights = "start"\npreset = "llama-6m"', "not the weights of this model"),
        (f'weights = "start"\narchitecture = "qwen3"\n{NUMBERS}', "some are missing"),
    ],
)
def test_weights_that_are_not_there_or_not_the_models_are_refused(
    tmp_path: Path, table: str, named: str
) -> None:
    path = write_start(tmp_path, table)
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    with pytest.raises(InvalidInput, match=named):
        read_task_file(path)


def test_task_check_reads_every_weight(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says the root: two who have the same folder can compare it. A number that is none is found here."""
    path = write_start(tmp_path, 'weights = "start"')
    check = ["task", "check", "--config", str(path)]
    assert main(check) == 0
    said = "".join(capsys.readouterr().out.split())
    assert tensor_root(init_parameters(START_SHAPE, 99)).hex() in said and "canbeposted" in said
    spoiled = init_parameters(START_SHAPE, 99)
    spoiled[-1] = float("nan")
    write_model(tmp_path / "start", spoiled, START_SHAPE)
    assert main(check) == 2 and "finite numbers" in capsys.readouterr().err
