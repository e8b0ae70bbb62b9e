"""Names of tensors in published files: without the prefix of the class, and with tables of old releases."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.node.exports.test_published_model import TOKENS, load, save_model
from tests.node.exports.test_rotary_positions import write_unrecorded
from tests.node.specs import get_spec
from touchstone.node.exports.model_folder import SAFETENSORS_NAME, import_start, read_trained
from touchstone.node.exports.published_model import read_published
from touchstone.node.exports.tensor_names import TensorNames, find_names
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import refer_tensor
from touchstone.protocol.compute.digest import tensor_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.weights_layout import decode_layout

MASK = torch.ones(32, 32).tril().view(1, 1, 32, 32)
TABLES: dict[str, dict[str, Tensor]] = {
    "gpt2": {"h.0.attn.bias": MASK, "h.1.attn.bias": MASK, "h.1.attn.masked_bias": torch.tensor(-1e4)},
    "gpt_neox": {
        "gpt_neox.layers.0.attention.bias": MASK.to(torch.uint8),
        "gpt_neox.layers.1.attention.masked_bias": torch.tensor(-1e9),
        "gpt_neox.layers.1.attention.rotary_emb.inv_freq": torch.ones(2),
    },
    "llama": {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)},
    "opt": {},
}
"""What files of older releases have besides."""
BARE = {"gpt2": "transformer.", "opt": "model."}


def write_published(name: str, folder: Path) -> Path:
    """A folder with the names of published files."""
    save_model(name, folder)
    path = folder / SAFETENSORS_NAME
    tensors = {key.removeprefix(BARE.get(name, " ")): one.clone() for key, one in load_file(path).items()}
    save_file({**tensors, **{key: one.clone() for key, one in TABLES[name].items()}}, path, {"format": "pt"})
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_published_names_are_read_as_transformers_reads_them(tmp_path: Path, name: str) -> None:
    folder = write_published(name, tmp_path)
    with torch.no_grad():
        assert torch.equal(
            read_published(folder, with_weights=True).module(TOKENS).logits, load(folder)(TOKENS).logits
        )


@pytest.mark.parametrize("name", TABLES)
def test_a_node_reads_published_names_by_the_layout_of_a_task(tmp_path: Path, name: str) -> None:
    """The weights that a solver has already (--weights), and an export measured by its step."""
    model = read_published(write_published(name, tmp_path / "published"), with_weights=True)
    write_unrecorded(model, tmp_path / "out")
    layout = decode_layout((tmp_path / "out" / "layout.json").read_bytes())
    weights = read_trained(tmp_path / "out", layout)
    assert torch.equal(weights, torch.cat([one.detach().reshape(-1) for one in model.module.parameters()]))
    spec, store = get_spec(), BlobStore(tmp_path / "blobs", is_durable=False)
    given = replace(spec, terms=replace(spec.terms, initial_weights_root=tensor_root(weights)))
    import_start(store, tmp_path / "published", given, layout)
    assert store.has(refer_tensor(tensor_root(weights), len(weights)))


@pytest.mark.parametrize(("name", "changes", "said"), [
    ("gpt2", {"transformer.wte.weight": "wte.weight"}, "some are missing, got 1: transformer.wte"),
    ("gpt2", {"wte.weight": "wte"}, "some are missing, got 1: transformer.wte"),
    ("gpt2", {"h.0.attn.bias": "h.0.attn.new"}, "there are others, got 1: h.0.attn.new"),
    ("gpt2", {"h.0.attn.bias": "x.rotary_emb.inv_freq"}, "there are others"),
    ("llama", {"model.layers.0.self_attn.rotary_emb.inv_freq": "h.0.attn.bias"}, "there are others"),
    ("gpt_neox", {"gpt_neox.layers.0.attention.bias": "gpt_neox.layers.0.attention.bia"}, "are others"),
])  # fmt: skip
def test_other_names_are_refused(tmp_path: Path, name: str, changes: dict[str, str], said: str) -> None:
    folder = write_published(name, tmp_path)
    path = folder / SAFETENSORS_NAME
    tensors = {key: one.clone() for key, one in load_file(path).items()}
    if name == "gpt2" and "transformer.wte.weight" in changes:
        tensors = {
            "transformer." + key: one for key, one in tensors.items() if not key.endswith(".attn.bias")
        }
    save_file({changes.get(key, key): one for key, one in tensors.items()}, path, {"format": "pt"})
    with pytest.raises(InvalidInput, match=said):
        read_published(folder, with_weights=True)


def test_a_tensor_with_both_of_its_names_is_refused(tmp_path: Path) -> None:
    save_model("gpt_neox", tmp_path)
    path = tmp_path / SAFETENSORS_NAME
    tensors = {key: one.clone() for key, one in load_file(path).items()}
    save_file({**tensors, "lm_head.weight": tensors["embed_out.weight"].clone()}, path, {"format": "pt"})
    with pytest.raises(InvalidInput, match="each tensor by one name"):
        read_published(tmp_path, with_weights=True)


@pytest.mark.parametrize("config", ["", "{", "[]", "7", '{"model_type": []}', "{" * 9999])
def test_a_strangers_config_renames_nothing(config: str) -> None:
    assert find_names(config) == TensorNames()
    assert not find_names('{"model_type": "llama"}').renamed
