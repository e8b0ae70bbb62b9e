"""An exported folder read back, and what is refused of one; `transformers` reads model and tokenizer."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from node.export import write_model
from node.model_folder import NOTE_NAME, check_tokenizer, read_model
from protocol.compute.model.model_export import SAFETENSORS_NAME
from protocol.compute.model.reference_model import init_parameters
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput
from scripts.tokenizing import read_tokenizer
from tests.scripts.test_data_pack import make_tokenizer

MODEL = ModelConfig(312, 32, 48, 1, 2, 2, 16)
WEIGHTS = init_parameters(MODEL, 7)


def test_a_folder_comes_back_bit_for_bit(tmp_path: Path) -> None:
    write_model(tmp_path, WEIGHTS, MODEL)
    note, weights = read_model(tmp_path)
    assert note.model == MODEL and not note.tokenizer_sha256 and torch.equal(weights, WEIGHTS)


def test_transformers_loads_model_and_tokenizer(tmp_path: Path) -> None:
    file = make_tokenizer(tmp_path / "t.json")
    tokenizer, data = read_tokenizer(file)
    digest = bytes.fromhex(tokenizer.sha256)
    write_model(tmp_path / "model", WEIGHTS, MODEL, check_tokenizer(file, digest), digest)
    loaded = AutoTokenizer.from_pretrained(tmp_path / "model")
    text = "the quick abing naïve"
    assert loaded(text)["input_ids"] == list(tokenizer.encode([text])[0])
    assert loaded.decode(loaded(text)["input_ids"]) == text
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert model.config.vocab_size == 312
    assert (tmp_path / "model/tokenizer.json").read_bytes() == data
    assert read_model(tmp_path / "model")[0].tokenizer_sha256 == tokenizer.sha256


def test_another_tokenizer_than_the_tasks_is_refused(tmp_path: Path) -> None:
    file = make_tokenizer(tmp_path / "tokenizer.json")
    assert check_tokenizer(tmp_path, bytes(32)) == file.read_bytes()
    for path, expected in ((file, b"x" * 32), (tmp_path / "none", bytes(32))):
        with pytest.raises(InvalidInput, match="not the tokenizer of this task"):
            check_tokenizer(path, expected)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 64},
        {"hidden_size": "32"},
        {"vocabulary_size": 2**60},
        {"head_count": 0},
    ],
)
def test_a_note_of_another_model_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    write_model(tmp_path, WEIGHTS, MODEL)
    note = json.loads((tmp_path / NOTE_NAME).read_text())
    note["model"].update(change)
    (tmp_path / NOTE_NAME).write_text(json.dumps(note))
    with pytest.raises(InvalidInput):
        read_model(tmp_path)


def test_malformed_folders_are_refused(tmp_path: Path) -> None:
    """What may be wrong with the weights: test_weights_folder.py."""
    write_model(tmp_path, WEIGHTS, MODEL)
    weights = tmp_path / SAFETENSORS_NAME
    weights.write_bytes(weights.read_bytes()[:-5])
    with pytest.raises(InvalidInput, match="not the weights of this model"):
        read_model(tmp_path)
    for text in ("", "[" * 10_000, "{}", '{"model": 1}'):
        (tmp_path / NOTE_NAME).write_text(text)
        with pytest.raises(InvalidInput, match="not the folder of a model"):
            read_model(tmp_path)
