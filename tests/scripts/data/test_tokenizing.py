"""Tokens are what the tokenizer's file says, and nothing else."""

import json
from pathlib import Path

from tests.scripts.test_data_pack import make_tokenizer
from touchstone.scripts.data.tokenizing import read_tokenizer


def test_the_same_text_has_the_same_tokens_though_the_file_has_dropout(tmp_path: Path) -> None:
    content = json.loads(make_tokenizer(tmp_path / "t.json").read_text())
    tokens, _ = read_tokenizer(tmp_path / "t.json")
    expected = tokens.encode(["the quick " * 50])
    content["model"]["dropout"] = 0.5
    (tmp_path / "t.json").write_text(json.dumps(content))
    tokens, _ = read_tokenizer(tmp_path / "t.json")
    assert [tokens.encode(["the quick " * 50]) for _ in range(3)] == [expected] * 3
