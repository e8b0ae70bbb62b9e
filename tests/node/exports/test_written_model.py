"""The files of an export beside its weights: one mode, where to stop, and a tokenizer for bytes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.kit.older_transformers import install_oldest, run_with
from tests.node.exports.test_export import make_foreign
from touchstone.node.exports.byte_tokenizer import make_byte_tokenizer
from touchstone.node.exports.model_note import ModelNote
from touchstone.node.exports.written_model import write_model
from touchstone.scripts.data.tokenizing import ByteTokens

BYTES = Tokenizer.from_str(make_byte_tokenizer().decode())


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_all_files_of_an_export_have_one_mode(tmp_path: Path, mask: int) -> None:
    """That of any file that this account writes."""
    before = os.umask(mask)
    try:
        step = make_foreign(config='{"model_type": "llama", "eos_token_id": 2}')
        write_model(tmp_path / "out", torch.ones(8), step, ModelNote(8), make_byte_tokenizer())
    finally:
        os.umask(before)
    modes = {one.name: one.stat().st_mode & 0o777 for one in (tmp_path / "out").iterdir()}
    assert set(modes.values()) == {0o666 & ~mask} and len(modes) == 7, modes


@pytest.mark.parametrize(("config", "expected"), [
    ({"eos_token_id": 2}, {"eos_token_id": 2}),
    ({"eos_token_id": [2, 3], "bos_token_id": 1, "pad_token_id": None},
     {"eos_token_id": [2, 3], "bos_token_id": 1}),
    ({"bos_token_id": 1}, None), ({"eos_token_id": None}, None), ({}, None), ({"eos_token_id": "2"}, None),
    ({"eos_token_id": True}, None), ({"eos_token_id": [2, "a"]}, None), ({"eos_token_id": []}, None),
    ({"eos_token_id": 2, "bos_token_id": {"a": 1}}, {"eos_token_id": 2}),
])  # fmt: skip
def test_generation_stops_where_the_config_says(
    tmp_path: Path, config: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    write_model(tmp_path, torch.ones(8), make_foreign(config=json.dumps(config)))
    path = tmp_path / "generation_config.json"
    assert (json.loads(path.read_text()) if path.exists() else None) == expected


@given(st.text())
def test_the_tokenizer_of_bytes_gives_each_byte_its_number(text: str) -> None:
    assert BYTES.encode(text, add_special_tokens=False).ids == list(text.encode())
    assert BYTES.decode(list(text.encode())) == text


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_as_bytes_are(data: bytes) -> None:
    """Also those that are no valid text."""
    assert BYTES.decode(list(data)) == ByteTokens().decode(list(data))


ROUND_TRIP = """
import json, sys
from transformers import AutoTokenizer, PreTrainedTokenizerFast
folder, text = json.loads(sys.stdin.read())
made = [
    AutoTokenizer.from_pretrained(folder), PreTrainedTokenizerFast(tokenizer_file=folder + "/tokenizer.json")
]
ids = [one(text)["input_ids"] for one in made]
texts = [one.decode(list(text.encode()), clean_up_tokenization_spaces=False) for one in made]
print(json.dumps([ids, texts, [len(one) for one in made]]))
"""


@pytest.mark.parametrize("is_oldest", [False, True])
def test_transformers_loads_the_tokenizer_of_bytes(tmp_path: Path, is_oldest: bool) -> None:
    out, script = tmp_path / "out", tmp_path / "script.py"
    write_model(out, torch.ones(8), make_foreign(), ModelNote(8), make_byte_tokenizer())
    script.write_text(ROUND_TRIP)
    text = "".join(map(chr, range(300))) + " naïve\r\n\t  \N{GRINNING FACE} ,. n't"
    site = install_oldest() if is_oldest else None
    found = json.loads(run_with(site, script, json.dumps([str(out), text])).splitlines()[-1])
    assert found == [[list(text.encode())] * 2, [text] * 2, [256] * 2]
