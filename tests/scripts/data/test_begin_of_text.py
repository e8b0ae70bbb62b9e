"""A dataset begins and ends its documents as it is told, and tells where the tokenizer would not."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, processors

from tests.scripts.test_data_pack import END, make_tokenizer, read_tokens, write_jsonl
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.data_pack import PackPlan, pack, pack_and_report
from touchstone.scripts.data.packed_dataset import open_dataset
from touchstone.scripts.touchstone import main

BEGIN = "<|begin|>"


def make_with_template(path: Path, template: str | None = None) -> Path:
    tokenizer = Tokenizer.from_file(str(make_tokenizer(path)))
    tokenizer.add_special_tokens([BEGIN])
    if template is not None:
        special = [(name, tokenizer.token_to_id(name)) for name in (BEGIN, END)]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    tokenizer.save(str(path))
    return path


def test_each_document_begins_with_the_token(tmp_path: Path) -> None:
    texts = [f"the quick {BEGIN} document {number}" for number in range(50)]
    (tmp_path / "long.txt").write_text("the quick ing er\n" * 40_000)
    file = make_with_template(tmp_path / "t.json")
    sources = [write_jsonl(tmp_path / "d.jsonl", texts), tmp_path / "long.txt"]
    plan = PackPlan(
        sources, tmp_path / "out", tokenizer=file, end_of_text=END, begin_of_text=BEGIN, heldout=1e-4
    )
    report = pack_and_report(plan)
    tokenizer = Tokenizer.from_file(str(file))
    begin, end = (int(tokenizer.token_to_id(name) or 0) for name in (BEGIN, END))
    tokens = read_tokens(tmp_path / "out")
    assert tokens.count(begin) == tokens.count(end) == 51 == report.note.documents
    borders = [token for token in tokens if token in (begin, end)]
    assert borders[:20] == [begin, end] * 10 and tokens[0] == begin, "they come in turn"
    assert sum(file.tokens for file in report.files) == len(tokens)
    note = open_dataset(tmp_path / "out").note
    assert note is not None and (note.begin_of_text, note.end_of_text) == (BEGIN, END)


def test_a_dataset_without_the_token_has_no_word_of_it(tmp_path: Path) -> None:
    """Earlier versions refuse a field that they do not know."""
    (tmp_path / "a.txt").write_text("text" * 100)
    pack(PackPlan([tmp_path / "a.txt"], tmp_path / "out"))
    assert "begin_of_text" not in json.loads((tmp_path / "out/dataset.json").read_text())


def test_another_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    plan: dict[str, Any] = {"inputs": [tmp_path / "a.txt"], "out": tmp_path / "out"}
    with pytest.raises(InvalidInput, match="begin a document.*tokens are bytes") as caught:
        pack(PackPlan(**plan, begin_of_text=BEGIN))
    assert caught.value.where == "--begin-of-text"
    file = make_with_template(tmp_path / "t.json")
    with pytest.raises(InvalidInput, match=r"special ones are .*<\|begin\|>.*no such token"):
        pack(PackPlan(**plan, tokenizer=file, begin_of_text="<no>"))


@pytest.mark.parametrize(
    ("template", "begin", "end", "missing"),
    [
        (None, "", "", []),
        (f"{BEGIN} $A", "", "", [("begins", BEGIN, "--begin-of-text")]),
        (f"{BEGIN} $A", BEGIN, "", []),
        (f"{BEGIN} $A", END, "", [("begins", BEGIN, "--begin-of-text")]),
        (f"{BEGIN} $A {END}", BEGIN, END, []),
        (f"{BEGIN} $A {END}", BEGIN, "", [("ends", END, "--end-of-text")]),
        (f"$A {END}", "", "", [("ends", END, "--end-of-text")]),
        (
            f"{BEGIN} $A {END}",
            "",
            "",
            [("begins", BEGIN, "--begin-of-text"), ("ends", END, "--end-of-text")],
        ),
    ],
)
def test_a_template_that_is_not_followed_is_told(
    tmp_path: Path,
    template: str | None,
    begin: str,
    end: str,
    missing: list[tuple[str, str, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = make_with_template(tmp_path / "t.json", template)
    (tmp_path / "a.txt").write_text("the quick " * 100)
    command = ["data", "pack", str(tmp_path / "a.txt"), "--tokenizer", str(file), "--json"]
    options = ["--begin-of-text", begin] * bool(begin) + ["--end-of-text", end] * bool(end)
    assert main([*command, *options, "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr()
    notices = json.loads(output.out)["notices"]
    assert len(notices) == len(missing)
    for notice, words in zip(notices, missing, strict=True):
        assert all(word in notice for word in words) and notice in output.err
