"""Every family is its class in transformers: names, shapes, order, logits; and the parts that lie idle."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from protocol.compute.determinism import pin_kernels
from protocol.compute.digest import tensor_bytes
from protocol.compute.model.reference_model import (
    FAMILIES,
    SAFETENSORS_METADATA,
    SAFETENSORS_NAME,
    build_tables,
    compute_logits,
    export_tensors,
    export_texts,
    get_family,
    import_model,
    init_parameters,
    parameter_count,
    parameter_layout,
    split_parameters,
)
from protocol.compute.model.reference_step import compute_gradient, require_live_parameters
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput
from protocol.spec.params import ARCHITECTURES
from protocol.spec.task_rules import count_parameters
from tests.protocol.compute.conftest import build_tiny_training
from tests.protocol.compute.model.family_models import GPT2, MODELS, QWEN3

transformers = pytest.importorskip("transformers")
INITIAL_DIGESTS = {
    "llama tied": "afba86f7fef75cced00ca86b11313551",
    "qwen3": "689a95dd8f0c2880a245eed65fd5eb87",
    "gpt2": "f71ccb4c4f57e95cc057f8c6dbf9f6ec",
}
"""The first half of SHA-256 of the initial bytes with seed 5; a change is another protocol version."""
TOKENS = torch.arange(32).view(2, 16) * 7 % 64


@pytest.fixture(autouse=True)
def _kernels() -> Iterator[None]:
    pin_kernels(1)
    yield


def shake(model: ModelConfig) -> Tensor:
    """Weights far from fresh ones: biases that are not zero, gains that are not one, uneven attention."""
    fresh = init_parameters(model, 3)
    return fresh * 4 + 0.1 * torch.randn(fresh.shape, generator=torch.Generator().manual_seed(1))


def write(folder: Path, model: ModelConfig, weights: Tensor) -> None:
    save_file(export_tensors(weights, model), folder / SAFETENSORS_NAME, SAFETENSORS_METADATA)
    for name, text in export_texts(model).items():
        (folder / name).write_text(text)


@pytest.mark.parametrize("name", MODELS)
def test_transformers_loads_an_export_and_gives_equal_logits(tmp_path: Path, name: str) -> None:
    model = MODELS[name]
    weights = shake(model)
    write(tmp_path, model, weights)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    with torch.no_grad():
        theirs = loaded(TOKENS).logits
        ours = compute_logits(split_parameters(weights, model), TOKENS, build_tables(model), model)
    assert type(loaded).__name__ == get_family(model).class_name and float(ours.std()) > 0.1
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))
    layout = [(p.name, p.shape) for p in parameter_layout(model)]
    assert layout == [(key, tuple(p.shape)) for key, p in loaded.named_parameters()]
    # `state_dict` names a tied output matrix a second time, under its own name.
    stored = [(key, tuple(p.shape)) for key, p in loaded.state_dict().items()]
    assert layout == [(key, shape) for key, shape in stored if not (model.tied and key == "lm_head.weight")]
    assert import_model((tmp_path / "config.json").read_bytes(), "config.json") == model


@pytest.mark.parametrize("name", MODELS)
def test_the_specification_counts_what_is_laid_out(name: str) -> None:
    assert count_parameters(MODELS[name]) == parameter_count(MODELS[name])
    large = replace(
        MODELS[name], hidden_size=1024, intermediate_size=3000, layer_count=11, vocabulary_size=99
    )
    assert count_parameters(large) == parameter_count(large)


def test_every_family_has_a_name_in_the_specification() -> None:
    assert tuple(FAMILIES) == ARCHITECTURES == tuple(dict.fromkeys(m.architecture for m in MODELS.values()))


@pytest.mark.parametrize("name", MODELS)
def test_fresh_parameters_are_gains_biases_and_matrices(name: str) -> None:
    model = MODELS[name]
    for key, p in split_parameters(init_parameters(model, 1), model).items():
        if key.endswith(".bias"):
            assert not p.any(), key
        elif p.dim() == 1:
            assert bool((p == 1).all()), key
        else:
            expected = get_family(model).get_initial(key, model)
            assert float(p.std()) == pytest.approx(expected, rel=0.2), key


@pytest.mark.parametrize("name", INITIAL_DIGESTS)
def test_fresh_parameters_have_golden_bits(name: str) -> None:
    found = sha256(tensor_bytes(init_parameters(MODELS[name], 5))).hexdigest()
    assert found[:32] == INITIAL_DIGESTS[name]


def test_a_tied_embedding_starts_as_an_output_matrix() -> None:
    for model in MODELS.values():
        params = split_parameters(init_parameters(model, 1), model)
        logits = compute_logits(params, TOKENS, build_tables(model), model)
        assert float(logits.std()) < 0.5


# --- Idle parts ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tokens", [9, 16])
def test_exactly_the_listed_parts_have_a_gradient_of_zero(name: str, tokens: int) -> None:
    model = MODELS[name]
    labels = TOKENS.flip(0)[:, :tokens]
    _, flat = compute_gradient(shake(model), TOKENS[:, :tokens], labels, build_tables(model, tokens), model)
    gradients = split_parameters(flat, model)
    parts = get_family(model).list_parts(model, tokens)
    for part in parts:
        assert bool(part.cut(gradients[part.name]).any()) != part.is_idle, part
    covered = {part.name for part in parts}
    assert all(bool(p.any()) for key, p in gradients.items() if key not in covered)
    for key in covered:
        count = sum(part.cut(gradients[key]).numel() for part in parts if part.name == key)
        assert count == gradients[key].numel()


def test_idle_parts_are_the_keys_bias_and_positions_that_no_sequence_reaches() -> None:
    idle = [part for part in get_family(GPT2).list_parts(GPT2, 12) if part.is_idle]
    assert [(part.name, part.start, part.stop) for part in idle] == [
        ("transformer.h.0.attn.c_attn.bias", 32, 64),
        ("transformer.h.1.attn.c_attn.bias", 32, 64),
        ("transformer.wpe.weight", 12, 16),
    ]


@pytest.mark.parametrize("name", MODELS)
def test_all_other_parameters_live(name: str) -> None:
    require_live_parameters(build_tiny_training(model=MODELS[name], sequence_tokens=12))


@pytest.mark.parametrize(
    ("model", "named"),
    [(GPT2, r"c_attn.weight \(part 1 of 3\); .*c_attn.weight \(part 2 of 3\); "), (QWEN3, "q_norm.weight")],
)
def test_parts_that_one_token_leaves_idle_are_named(model: ModelConfig, named: str) -> None:
    """Queries and keys do nothing on one token, though values share GPT-2's matrix with them."""
    with pytest.raises(InvalidInput, match=named):
        require_live_parameters(build_tiny_training(model=model, sequence_tokens=1))


def test_a_bias_of_keys_that_is_not_cut_off_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "detach", lambda self: self)
    family = type(get_family(GPT2))
    listed = family.list_parts

    def list_live(self: object, config: ModelConfig, tokens: int) -> list[object]:
        return [replace(part, is_idle=False) for part in listed(self, config, tokens)]  # type: ignore[arg-type]

    monkeypatch.setattr(family, "list_parts", list_live)
    with pytest.raises(
        InvalidInput, match=r"got transformer.h.0.attn.c_attn.bias \(part 2 of 3\); transformer.h.1"
    ):
        require_live_parameters(build_tiny_training(model=GPT2))
