"""Adapters of a published model: recorded beside a frozen base, exported merged and as PEFT's files."""

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import transformers
from safetensors.torch import load_file
from torch import Tensor, nn

from tests.node.exports.test_published_model import GPT2, GROUPED, MODELS, TOKENS, load
from touchstone.node.exports import lora_export
from touchstone.node.exports.lora_export import Adapter, Merged, find_adapters, merge
from touchstone.node.exports.published_model import read_published
from touchstone.node.exports.tensor_file import fill
from touchstone.node.exports.written_model import write_model
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.touchstone import main
from touchstone.step.lora import Lora, LoraLinear, add_lora
from touchstone.step.record_step import Shape, record_step
from touchstone.step.step_folder import StepFiles, load_step

RECORD = ["--sequences", "2", "--tokens", "12", "--format", "float32", "--chunk-terms", "128"]


def save_base(folder: Path, name: str, fields: dict[str, Any]) -> Path:
    torch.manual_seed(4)
    auto: Any = transformers.AutoModelForCausalLM
    auto.from_config(transformers.AutoConfig.for_model(name, **fields)).save_pretrained(folder)
    return folder


def train_a_little(step: StepFiles) -> Tensor:
    """Other weights, as training would leave them: B is not zero any more."""
    return step.weights + torch.randn(step.weights.shape, generator=torch.Generator().manual_seed(2)) * 0.05


def compute(model: nn.Module) -> Tensor:
    with torch.no_grad():
        result: Any = model(TOKENS)
    logits: Tensor = result.logits
    return logits


@pytest.mark.parametrize(
    ("name", "targets"), [("llama", ""), ("qwen2", "q_proj,v_proj"), ("opt", "fc1,out_proj")]
)
def test_an_export_is_the_merged_model_and_an_adapter_of_peft(
    name: str, targets: str, tmp_path: Path
) -> None:
    """Both give the logits of the module with its adapters. OPT reads its positions by a slice, and qwen2 has
    biases."""
    base = save_base(tmp_path / "base", name, MODELS[name])
    out, chosen = tmp_path / "step", ["--lora", "2", "--lora-alpha", "6", "--lora-targets", targets]
    assert main(["task", "record", str(base), "--out", str(out), "--weights", *RECORD, *chosen]) == 0
    step = load_step(out)
    weights = train_a_little(step)
    names = {entry.name for entry in step.layout.parameters}
    assert (
        names and all(one.endswith((".lora_A", ".lora_B")) for one in names) and step.weights.numel() < 10_000
    )

    module: Any = read_published(base, with_weights=True).module
    before = compute(module)
    add_lora(module, Lora(2, 6, tuple(filter(None, targets.split(",")))))
    module.load_state_dict(split(step, weights), strict=False)
    expected = compute(module)
    assert not torch.allclose(expected, before, atol=1e-3)

    folder = tmp_path / "export"
    write_model(folder, weights, TaskStep(step.built, step.layout))
    merged: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    model, told = merged
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
    assert torch.allclose(compute(model.eval()), expected, atol=1e-5)
    adapted = import_module("peft").PeftModel.from_pretrained(load(base), folder / "adapter")
    assert torch.allclose(compute(adapted), expected, atol=1e-5)


def split(step: StepFiles, weights: Tensor) -> dict[str, Tensor]:
    return {
        entry.name: weights[offset : offset + entry.size].view(entry.shape)
        for entry, offset in step.layout.list_places()
    }


def test_a_frozen_base_is_exported_whole_though_the_step_reads_parts(tmp_path: Path) -> None:
    """GPT-2 reads its positions as a slice of a table: the table was left out of exports once, and
    transformers drew a new one in silence."""
    base = save_base(tmp_path / "base", "gpt2", GPT2)
    argv = ["task", "record", str(base), "--out", str(tmp_path / "step"), "--weights", *RECORD, "--freeze"]
    assert main([*argv, "transformer.w*"]) == 0
    step = load_step(tmp_path / "step")
    write_model(tmp_path / "export", step.weights, TaskStep(step.built, step.layout))
    assert torch.equal(compute(load(tmp_path / "export")), compute(load(base)))
    assert not (tmp_path / "export" / "adapter").exists()


@pytest.mark.parametrize(
    ("lora", "words"),
    [
        (Lora(0, 1), "rank"), (Lora(2, 0), "alpha"), (Lora(2, 4, ("q_proj", "nothing")), "named nothing"),
        (Lora(2, 4, ("mlp",)), "LlamaMLP"), (Lora(2, 4, ("lm_head",)), "shares one"),
        (Lora(99, 4), "smaller side"),
    ],
)  # fmt: skip
def test_targets_that_cannot_be_adapted_are_refused(lora: Lora, words: str) -> None:
    fields = {**GROUPED, "tie_word_embeddings": True}
    config = transformers.AutoConfig.for_model("llama", **fields)
    auto: Any = transformers.AutoModelForCausalLM
    module = auto.from_config(config)
    with pytest.raises(InvalidInput, match=words):
        add_lora(module, lora)
    assert not any(isinstance(one, LoraLinear) for one in module.modules())
    assert all(one.requires_grad for one in module.parameters())


def test_adapters_alone_are_trained_and_are_added_once() -> None:
    auto: Any = transformers.AutoModelForCausalLM
    module = auto.from_config(transformers.AutoConfig.for_model("llama", **GROUPED))
    add_lora(module, Lora(2, 4, ("q_proj",)))
    trained = [name for name, one in module.named_parameters() if one.requires_grad]
    assert trained and all("q_proj.lora_" in name for name in trained) and len(trained) == 4
    with pytest.raises(InvalidInput, match="without adapters"):
        add_lora(module, Lora(2, 4, ("v_proj",)))


def test_names_that_are_no_whole_adapter_are_exported_as_they_are() -> None:
    """A layout comes from a stranger."""
    whole = {
        "x.base.weight": torch.ones(3, 2), "x.lora_A": torch.ones(1, 2), "x.lora_B": torch.ones(3, 1),
        "x.lora_scale": torch.tensor([0.5]),
    }  # fmt: skip
    (found,) = find_adapters(whole)
    merged = merge(whole, [found])["x.weight"]
    assert isinstance(merged, Merged) and merged.shape == (3, 2)
    assert torch.equal(torch.cat([*merged.list_pieces()]), torch.full((6,), 1.5))
    changes: list[dict[str, Tensor]] = [
        {"x.lora_A": torch.ones(1, 3)}, {"x.lora_B": torch.ones(2, 1)}, {"x.lora_A": torch.ones(2)},
        {"x.lora_scale": torch.ones(2)}, {"x.weight": torch.ones(1)}, {"x.bias": torch.ones(1)},
        {"x.lora_A": torch.ones(2, 2)}, {"x.lora_A": fill(1.0, (1, 2))},
    ]  # fmt: skip
    for change in changes:
        assert find_adapters({**whole, **change}) == [], change
    for name in whole:
        assert find_adapters({key: value for key, value in whole.items() if key != name}) == []


def test_a_matrix_is_merged_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    weight, a, b = torch.randn(7, 5), torch.randn(2, 5), torch.randn(7, 2)
    monkeypatch.setattr(lora_export, "PIECE_ELEMENTS", 12)
    pieces = [*Merged(weight, Adapter("x", a, b, 0.5)).list_pieces()]
    assert [one.numel() for one in pieces] == [10, 10, 10, 5]
    assert torch.allclose(torch.cat(pieces).view(7, 5), weight + b @ a * 0.5)


def test_an_adapter_s_files_are_peft_s(tmp_path: Path) -> None:
    base = save_base(tmp_path / "base", "llama", MODELS["llama"])
    argv = ["task", "record", str(base), "--out", str(tmp_path / "step"), "--weights", *RECORD, "--lora", "2"]
    assert main(argv) == 0
    step = load_step(tmp_path / "step")
    write_model(tmp_path / "export", step.weights, TaskStep(step.built, step.layout))
    fields = json.loads((tmp_path / "export" / "adapter" / "adapter_config.json").read_text())
    assert (fields["r"], fields["lora_alpha"], fields["peft_type"]) == (2, 4.0, "LORA")
    tensors = load_file(tmp_path / "export" / "adapter" / "adapter_model.safetensors")
    assert len(tensors) == 2 * len(fields["target_modules"]) == 2 * 2 * 7


class Stack(nn.Module):
    """Three layers, of which the last has no adapter."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(64, 8)
        self.first, self.second, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(self.second(torch.tanh(self.first(self.rows(tokens)))))
        return logits


def test_a_module_of_ones_own_takes_the_merged_export_and_the_adapter(tmp_path: Path) -> None:
    torch.manual_seed(1)
    base = Stack()
    module = Stack()
    module.load_state_dict(base.state_dict())
    add_lora(module, Lora(2, 4))
    step = record_step(module, Shape(2, 12))
    weights = train_a_little(step)
    module.load_state_dict(split(step, weights), strict=False)
    write_model(tmp_path / "out", weights, TaskStep(step.built, step.layout))
    merged = Stack()
    merged.load_state_dict(load_file(tmp_path / "out" / "model.safetensors"))
    adapted: Any = import_module("peft").PeftModel.from_pretrained(base, tmp_path / "out" / "adapter")
    with torch.no_grad():
        expected = module(TOKENS)
        assert torch.allclose(merged(TOKENS), expected, atol=1e-5)
        assert torch.allclose(adapted(TOKENS), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--lora", "2"], "with --weights"), (["--weights", "--tokens", "99"], "at most 32")],
)
def test_what_makes_no_sense_is_refused_before_it_is_recorded(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = save_base(tmp_path / "base", "llama", MODELS["llama"])
    assert main(["task", "record", str(base), "--out", str(tmp_path / "step"), *options]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "step").exists()
