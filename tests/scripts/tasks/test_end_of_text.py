"""The end-of-text token of a dataset, in the config of the model that is trained on it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models

from tests.kit.older_transformers import install_oldest, load_with
from tests.scripts.test_data_pack import END, make_tokenizer
from tests.scripts.test_task_init import make_answers, save_recorded
from touchstone.node.exports.written_model import write_model
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.data.packed_dataset import PackedDataset, open_dataset
from touchstone.scripts.tasks.end_of_text import find_token, set_end_of_text
from touchstone.scripts.tasks.task_init import write_task_file


def pack_ended(folder: Path, end: str = END) -> PackedDataset:
    """A packed dataset whose documents end with a token."""
    (folder / "words.txt").write_text("the quick ing er ly ed " * 20_000)
    tokenizer = make_tokenizer(folder / "t.json")
    pack(PackPlan([folder / "words.txt"], folder / "packed", tokenizer=tokenizer, end_of_text=end))
    return open_dataset(folder / "packed")


def test_an_export_of_a_task_stops_at_the_end_of_text_of_its_dataset(tmp_path: Path) -> None:
    """In the oldest and in the newest transformers."""
    packed = pack_ended(tmp_path)
    number = Tokenizer.from_file(str(tmp_path / "t.json")).token_to_id(END)
    file = write_task_file(tmp_path / "task.toml", make_answers(tmp_path / "packed", size="tiny"))
    step, out = file.plan.step, tmp_path / "out"
    write_model(out, step.weights, TaskStep(step.built, step.layout))
    for name in ("config.json", "generation_config.json"):
        assert json.loads((out / name).read_text())["eos_token_id"] == number
    assert "bos_token_id" not in json.loads((out / "generation_config.json").read_text())
    for site in (install_oldest(), None):
        (found,) = load_with(site, [out], torch.tensor([[1, 2]]), tmp_path / "logits")
        assert (found.error, found.eos) == ("", number)
    assert packed.note is not None and packed.note.end_of_text == END


@pytest.mark.parametrize(("given", "is_kept"), [
    ({"eos_token_id": 7}, False), ({}, False), ({"eos_token_id": None}, False),
    ({"eos_token_id": [7]}, False), ({"eos_token_id": "end"}, True), ({"eos_token_id": ["end", 7]}, True),
])  # fmt: skip
def test_a_recorded_config_gets_the_token_unless_it_has_it(
    tmp_path: Path, given: dict[str, Any], is_kept: bool
) -> None:
    packed, files = pack_ended(tmp_path), save_recorded(tmp_path / "step")
    number = find_token((tmp_path / "t.json").read_bytes(), END)
    text = json.dumps({"model_type": "llama", **given}).replace('"end"', str(number))
    step = replace(files, layout=replace(files.layout, config=text))
    config = set_end_of_text(step, packed).layout.config
    assert (config == text) == is_kept
    assert is_kept or json.loads(config) == {"model_type": "llama", "eos_token_id": number}


@pytest.mark.parametrize("config", ["", "no JSON", "[1]", "{" * 99])
def test_other_configs_and_datasets_without_such_a_token_change_nothing(tmp_path: Path, config: str) -> None:
    packed, files = pack_ended(tmp_path), save_recorded(tmp_path / "step")
    step = replace(files, layout=replace(files.layout, config=config))
    assert set_end_of_text(step, packed) is step
    assert packed.note is not None
    without = replace(files, layout=replace(files.layout, config="{}"))
    (tmp_path / "raw").write_bytes(bytes(range(256)))
    assert set_end_of_text(without, open_dataset(tmp_path / "raw")) is without


def test_a_token_is_found_in_each_kind_of_tokenizer() -> None:
    words = {"a": 0, "b": 1, "<end>": 2}
    made = [
        models.BPE(vocab=words, merges=[]), models.WordLevel(words, unk_token="a"),
        models.WordPiece(words, unk_token="a"), models.Unigram([(one, -1.0) for one in words], unk_id=0),
    ]  # fmt: skip
    for model in made:
        tokenizer = Tokenizer(model)
        tokenizer.add_special_tokens(["<more>"])
        text = tokenizer.to_str().encode()
        found = [find_token(text, name) for name in ("b", "<end>", "<more>", "none")]
        assert found == [tokenizer.token_to_id(name) for name in ("b", "<end>", "<more>", "none")]


@pytest.mark.parametrize("text", [
    b"", b"{", b"[]", b"{}", b'{"model": 7, "added_tokens": [7]}', b"\xff", b"[" * 99_999, b'{"a":' * 99_999,
    b'{"added_tokens": 7}', b'{"model": {"vocab": {"a": "7"}}}', b'{"added_tokens": [{"content": "a"}]}',
])  # fmt: skip
def test_what_is_no_tokenizer_has_no_token(text: bytes) -> None:
    assert find_token(text, "a") is None
