"""An exported folder read back, and what is refused of one; `transformers` reads model and tokenizer."""

import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.node.specs import get_spec
from tests.scripts.test_data_pack import make_tokenizer
from tests.task_models import (
    compute_logits,
    draw_first,
    init_parameters,
    make_step,
    parameter_layout,
    split_parameters,
)
from touchstone.node.exports import model_folder
from touchstone.node.exports.model_folder import (
    INDEX_NAME,
    MAX_HEADER_BYTES,
    SAFETENSORS_NAME,
    import_start,
    open_named,
)
from touchstone.node.exports.model_note import NOTE_NAME, ModelNote, check_tokenizer, read_note
from touchstone.node.exports.tensor_names import OUTPUT
from touchstone.node.exports.written_model import write_model
from touchstone.node.models.start_weights import refer_start
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.digest import tensor_root
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.command_line.command_errors import render_error
from touchstone.scripts.data.tokenizing import read_tokenizer
from touchstone.step.plain_decoder import DecoderConfig

MODEL = DecoderConfig(312, 32, 48, 1, 2, 2, 16)
WEIGHTS = init_parameters(MODEL, 7)


def test_transformers_loads_model_and_tokenizer(tmp_path: Path) -> None:
    file = make_tokenizer(tmp_path / "t.json")
    tokenizer, data = read_tokenizer(file)
    note = ModelNote(16, tokenizer.sha256)
    named = bytes.fromhex(tokenizer.sha256)
    write_model(tmp_path / "model", WEIGHTS, make_step(MODEL), note, check_tokenizer(file, named))
    loaded = AutoTokenizer.from_pretrained(tmp_path / "model")
    text = "the quick abing naïve"
    assert loaded(text)["input_ids"] == list(tokenizer.encode([text])[0])
    assert loaded.decode(loaded(text)["input_ids"]) == text
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokens = torch.arange(32).view(2, 16) * 7 % 312
    logits = compute_logits(split_parameters(WEIGHTS, MODEL), tokens, MODEL)
    assert torch.allclose(model(tokens).logits, logits, atol=1e-5)
    assert (tmp_path / "model/tokenizer.json").read_bytes() == data
    assert read_note(tmp_path / "model") == note


def test_another_tokenizer_than_the_tasks_is_refused(tmp_path: Path) -> None:
    file = make_tokenizer(tmp_path / "tokenizer.json")
    assert check_tokenizer(tmp_path, bytes(32)) == file.read_bytes()
    for path in (file, tmp_path / "none"):
        with pytest.raises(InvalidInput, match="not the tokenizer of this task"):
            check_tokenizer(path, b"x" * 32)
    with pytest.raises(InvalidInput, match="and the task names none") as refused:
        check_tokenizer(tmp_path / "none", bytes(32))
    assert "Leave --tokenizer out" in refused.value.remedy


@pytest.mark.parametrize(
    "text", ["", "[" * 10_000, "{}", '{"row_tokens": 0}', '{"row_tokens": 1048577}', '{"row_tokens": "1"}']
)
def test_a_malformed_note_is_refused(tmp_path: Path, text: str) -> None:
    assert read_note(tmp_path) is None
    (tmp_path / NOTE_NAME).write_text(text)
    with pytest.raises(InvalidInput, match="not the folder of a model"):
        read_note(tmp_path)


LLAMA = DecoderConfig(64, 32, 48, 2, 4, 2, 16)
TIED = replace(LLAMA, tied=True)
MODELS = {"own output": LLAMA, "tied": TIED}
EMBEDDING, NORM = "model.embed_tokens.weight", "model.norm.weight"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
Tensors = dict[str, Tensor]


def export(folder: Path, model: DecoderConfig = LLAMA) -> tuple[Tensor, Tensors]:
    """A folder as the project writes it: the flat weights, and its tensors."""
    weights = init_parameters(model, 3)
    write_model(folder, weights, make_step(model))
    return weights, {name: tensor.clone() for name, tensor in load_file(folder / SAFETENSORS_NAME).items()}


def read(folder: Path, model: DecoderConfig = LLAMA) -> Tensor:
    shapes = {one.name: one.shape for one in parameter_layout(model)}
    return open_named(folder, shapes, {OUTPUT: EMBEDDING} if model.tied else {}).read()


def split(folder: Path, tensors: Tensors, **changed: str) -> None:
    """The same tensors in two shards. changed: what the index says of single tensors, dots as `__`."""
    (folder / SAFETENSORS_NAME).unlink()
    names = list(tensors)
    places = {name: SHARDS[number % 2] for number, name in enumerate(names)}
    for shard in SHARDS:
        save_file({name: tensors[name] for name in names if places[name] == shard}, folder / shard)
    places |= {name.replace("__", "."): shard for name, shard in changed.items()}
    (folder / INDEX_NAME).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))


def refuse(folder: Path, reason: str, model: DecoderConfig = LLAMA) -> InvalidInput:
    with pytest.raises(InvalidInput, match=reason) as refusal:
        read(folder, model)
    assert len(render_error(refusal.value).splitlines()) == 4 and str(folder) in refusal.value.where
    return refusal.value


# What is read
@pytest.mark.parametrize("name", MODELS)
def test_an_export_comes_back_bit_for_bit_whole_and_in_shards(tmp_path: Path, name: str) -> None:
    weights, tensors = export(tmp_path, MODELS[name])
    assert torch.equal(read(tmp_path, MODELS[name]), weights)
    split(tmp_path, tensors)
    assert torch.equal(read(tmp_path, MODELS[name]), weights)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_number_of_a_short_type_is_read_exactly(tmp_path: Path, dtype: torch.dtype) -> None:
    """All 65,536, least ones included, but for those that are refused."""
    model = DecoderConfig(2_048, 32, 48, 1, 2, 2, 16)
    numbers = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    numbers = torch.where(numbers.abs().double() < 2.0**64, numbers, torch.zeros((), dtype=dtype))
    _, tensors = export(tmp_path, model)
    save_file({**tensors, EMBEDDING: numbers.view(2_048, 32)}, tmp_path / SAFETENSORS_NAME)
    found = read(tmp_path, model)[: 1 << 16]
    assert torch.equal(found.double(), numbers.double())
    assert torch.equal(torch.signbit(found), torch.signbit(numbers))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_transformers_saves_is_read(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    """In shards, as it saves large models."""
    weights, _ = export(tmp_path / "ours", MODELS[name])
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "ours", dtype=dtype)
    model.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    assert (tmp_path / "theirs" / INDEX_NAME).exists()
    assert torch.equal(read(tmp_path / "theirs", MODELS[name]), weights.to(dtype).to(torch.float32))


def test_a_tied_output_matrix_is_the_embedding_or_not_there(tmp_path: Path) -> None:
    """Published files of tied models have it; also before the embedding, in a shard of its own."""
    weights, tensors = export(tmp_path, TIED)
    same = {OUTPUT: tensors[EMBEDDING].clone(), **tensors}
    save_file(same, tmp_path / SAFETENSORS_NAME)
    assert torch.equal(read(tmp_path, TIED), weights)
    split(tmp_path, same)
    assert torch.equal(read(tmp_path, TIED), weights)
    same[OUTPUT][3, 4] += 1
    save_file(same, tmp_path / "own.safetensors")
    for shard in (*SHARDS, INDEX_NAME):
        (tmp_path / shard).unlink()
    (tmp_path / "own.safetensors").rename(tmp_path / SAFETENSORS_NAME)
    refuse(tmp_path, f"{EMBEDDING}, or none", TIED)


# What is refused
def spoil(tensor: Tensor, value: float) -> Tensor:
    tensor = tensor.clone()
    tensor.view(-1)[1] = value
    return tensor


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: {NORM: None}, rf"some are missing.*1: {NORM}"),
        (lambda t: {"h.0.attn.bias": torch.zeros(1)}, r"there are others.*1: h.0.attn.bias"),
        (lambda t: {"a\x1b[2Jb": torch.zeros(1)}, r"there are others.*1: a\?\[2Jb"),
        (lambda t: {NORM: torch.zeros(33)}, rf"{NORM}: F32 or F16 or BF16 \[32\].*F32 \[33\]"),
        (lambda t: {EMBEDDING: t[EMBEDDING].T.contiguous()}, r"\[64, 32\].*\[32, 64\]"),
        (lambda t: {NORM: t[NORM].double()}, "F64"),
        (lambda t: {NORM: t[NORM].to(torch.int32)}, "I32"),
        (lambda t: {NORM: t[NORM].to(torch.float8_e4m3fn)}, "F8_E4M3"),
        (lambda t: {NORM: spoil(t[NORM], float("nan"))}, "finite numbers"),
        (lambda t: {NORM: spoil(t[NORM], float("-inf"))}, "finite numbers"),
        (lambda t: {NORM: spoil(t[NORM].to(torch.float16), float("inf"))}, "finite numbers"),
        (lambda t: {NORM: spoil(t[NORM], 2.0**64)}, "finite numbers below"),
    ],
)
def test_other_tensors_than_the_models_are_refused(
    tmp_path: Path, change: Callable[[Tensors], dict[str, Tensor | None]], reason: str
) -> None:
    _, tensors = export(tmp_path)
    changed = {**tensors, **change(tensors)}
    save_file({k: v for k, v in changed.items() if v is not None}, tmp_path / SAFETENSORS_NAME)
    refuse(tmp_path, reason)


def test_a_model_of_other_sizes_is_refused_before_memory_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(tmp_path, replace(LLAMA, hidden_size=40))
    monkeypatch.setattr(model_folder, "allocate", lambda count: pytest.fail("memory was taken"))
    refuse(tmp_path, "not the weights of this model")
    refuse(tmp_path, r"at most \d+ bytes of weights", replace(LLAMA, hidden_size=8, intermediate_size=8))


def write_header(path: Path, header: bytes, length: int | None = None, data: bytes = b"") -> None:
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)


@pytest.mark.parametrize(
    ("header", "length", "reason"),
    [
        (b"{}", (1 << 64) - 1, "a header of at most"),
        (b"{}", MAX_HEADER_BYTES + 1, "a header of at most"),
        (b"{}", 0, "a header of at most"),
        (b"{}", 3, "a safetensors file"),
        (b"{}", None, "some are missing"),
        (b"[" * 1_000_000, None, "a safetensors file"),
        (b'{"a":' * 100_000, None, "a safetensors file"),
        (b'{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}', None, "safetensors"),
        (b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', None, "a safetensors file"),
        (b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[8,0]}}', None, "a safetensors file"),
        (b"\xff\xfe", None, "a safetensors file"),
    ],
)  # fmt: skip
def test_a_hostile_header_is_refused(tmp_path: Path, header: bytes, length: int | None, reason: str) -> None:
    write_header(tmp_path / SAFETENSORS_NAME, header, length)
    refuse(tmp_path, reason)


def test_a_header_and_an_index_that_are_long_are_not_even_read(tmp_path: Path) -> None:
    """A file with holes costs its sender nothing."""
    write_header(tmp_path / SAFETENSORS_NAME, b"{}", 1 << 40)
    os.truncate(tmp_path / SAFETENSORS_NAME, 1 << 41)
    refuse(tmp_path, "a header of at most")
    write_header(tmp_path / SAFETENSORS_NAME, b"{}")
    os.truncate(tmp_path / SAFETENSORS_NAME, 1 << 41)
    refuse(tmp_path, "at most .* bytes of weights")
    (tmp_path / SAFETENSORS_NAME).rename(tmp_path / INDEX_NAME)
    refuse(tmp_path, "an index of at most")


def test_an_index_of_many_brackets_is_not_parsed(tmp_path: Path) -> None:
    """A parser that calls itself for each would end the process, where the stack's limit was raised."""
    _, tensors = export(tmp_path)
    split(tmp_path, tensors)
    index = json.loads((tmp_path / INDEX_NAME).read_text())
    for count in (20, 70):
        (tmp_path / INDEX_NAME).write_text(json.dumps({**index, "metadata": [[]] * count}))
        if count == 20:
            read(tmp_path)
    refuse(tmp_path, "more than 64 brackets")


@pytest.mark.parametrize(
    ("shard", "reason"),
    [
        ("../model-00001-of-00002.safetensors", "a plain name"),
        ("/etc/passwd", "a plain name"),
        ("sub/model.safetensors", "a plain name"),
        ("..", "a plain name"),
        ("model\x00.safetensors", "a plain name"),
        ("pytorch_model.bin", "a plain name"),
        (SHARDS[0], "that the index names"),
    ],
)
def test_an_index_names_files_of_its_folder_alone(tmp_path: Path, shard: str, reason: str) -> None:
    _, tensors = export(tmp_path)
    names = {SHARDS[number % 2]: name for number, name in enumerate(tensors)}
    split(tmp_path, tensors, **{names[SHARDS[1]].replace(".", "__"): shard})
    refuse(tmp_path, reason)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"weight_map": [1]}', '{"weight_map": {"a": 1}}', "[" * 9_999]
)
def test_what_is_no_index_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX_NAME).write_text(text)
    refuse(tmp_path, "an index of shards")


def test_links_devices_and_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    _, tensors = export(folder)
    (folder / SAFETENSORS_NAME).rename(tmp_path / "outside")
    (folder / SAFETENSORS_NAME).symlink_to(tmp_path / "outside")
    refuse(folder, "a file of this folder")
    (folder / SAFETENSORS_NAME).unlink()
    os.mkfifo(folder / SAFETENSORS_NAME)
    refuse(folder, "a file of this folder")
    split(folder, tensors)
    (folder / SHARDS[1]).rename(tmp_path / "outside")
    refuse(folder, "a file, got No such file")
    (folder / SHARDS[1]).symlink_to(tmp_path / "outside")
    refuse(folder, "a file of this folder")


def test_a_folder_without_safetensors_or_with_two_kinds_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, "either .* got neither")
    torch.save({"a": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    assert "save_pretrained" in refuse(tmp_path, "neither; pickles are not read").remedy
    (tmp_path / "pytorch_model.bin").rename(tmp_path / SAFETENSORS_NAME)
    refuse(tmp_path, "not the weights of this model")
    (tmp_path / INDEX_NAME).write_text("{}")
    refuse(tmp_path, "either .* got both")


# A node's own folder
def test_a_node_takes_the_weights_of_its_own_folder_where_they_are_the_tasks(tmp_path: Path) -> None:
    spec, store = get_spec(), BlobStore(tmp_path / "blobs", is_durable=False)
    weights = draw_first(spec.training, 99)
    write_model(tmp_path / "model", weights, get_step(spec.training))
    with pytest.raises(InvalidInput, match="these are not the task's starting weights") as refusal:
        import_start(store, tmp_path / "model", spec, get_step(spec.training).layout)
    assert "--weights" in refusal.value.remedy and not store.has(refer_start(spec))
    other = replace(spec, terms=replace(spec.terms, initial_weights_root=tensor_root(weights)))
    import_start(store, tmp_path / "model", other, get_step(spec.training).layout)
    assert store.has(refer_start(other))
