"""What a foreign library raises is told with the file, the document and the library's words."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data import tokenizing
from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.data.foreign_calls import guard
from touchstone.scripts.data.tokenizing import read_tokenizer
from touchstone.scripts.touchstone import main


def save(path: Path, model: Any) -> Path:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(path))
    return path


BROKEN = (
    (models.BPE(vocab={"a": 0, "b": 1}, merges=[], unk_token="<unk>"), "Unk token `<unk>` not found"),
    (models.WordPiece(vocab={"a": 0, "b": 1}), r"Missing \[UNK\] token"),
    (models.WordLevel(vocab={"a": 0, "b": 1}), r"Missing \[UNK\] token"),
    (models.Unigram([("a", -1.0), ("b", -2.0)]), "unk_id"),
)


@pytest.mark.parametrize(("model", "words"), BROKEN)
def test_a_tokenizer_that_fails_on_a_text_is_refused_when_it_is_opened(
    tmp_path: Path, model: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = save(tmp_path / "t.json", model)
    with pytest.raises(InvalidInput, match=words) as caught:
        read_tokenizer(file)
    assert caught.value.where == str(file)
    (tmp_path / "a.txt").write_text("a b")
    command = ["data", "pack", str(tmp_path / "a.txt"), "--tokenizer", str(file), "--out"]
    assert main([*command, str(tmp_path / "out")]) == 2
    assert "bug" not in capsys.readouterr().err


@pytest.mark.parametrize(("model", "words"), BROKEN)
def test_a_document_that_cannot_be_encoded_is_named(
    tmp_path: Path, model: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizing, "PROBES", ("a",))
    monkeypatch.setattr(tokenizing, "TEMPLATE_TEXT", "a")
    texts = ["a b", "b", "a snowman: ☃", "b a"]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    plan = PackPlan([tmp_path / "d.jsonl"], tmp_path / "out", tokenizer=save(tmp_path / "t.json", model))
    with pytest.raises(InvalidInput, match=words) as caught:
        pack(plan)
    assert caught.value.where == f"{tmp_path / 'd.jsonl'}, line 3"
    assert not (tmp_path / "out").exists()


def make_invalid_strings() -> Any:
    """A column of strings with bytes that are not UTF-8, as some writers leave them."""
    arrow = pytest.importorskip("pyarrow")
    found = arrow.array([b"good", b"\xff\xfe", b"good too"], type=arrow.binary())
    bits, offsets, data = found.buffers()
    return arrow.table({"text": arrow.StringArray.from_buffers(3, offsets, data, bits, 0)})


def test_a_row_of_parquet_that_is_no_text_is_named(tmp_path: Path) -> None:
    table, parquet = make_invalid_strings(), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table, tmp_path / "d.parquet")
    with pytest.raises(InvalidInput, match="not UTF-8") as caught:
        pack(PackPlan([tmp_path / "d.parquet"], tmp_path / "out"))
    assert caught.value.where == f"{tmp_path / 'd.parquet'}, row 2, byte 0"


def test_a_broken_page_of_parquet_is_told_with_its_file(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = ["x" * 1000 + str(number) for number in range(5_000)]
    parquet.write_table(arrow.table({"text": texts}), tmp_path / "d.parquet", row_group_size=1000)
    data = bytearray((tmp_path / "d.parquet").read_bytes())
    data[5_000:6_500] = bytes(byte ^ 0x5A for byte in data[5_000:6_500])
    (tmp_path / "d.parquet").write_bytes(data)
    with pytest.raises(InvalidInput, match=r"d\.parquet.*Corrupt"):
        pack(PackPlan([tmp_path / "d.parquet"], tmp_path / "out"))


class Panic(BaseException):
    """Rust's panics come as such."""


def refuse(words: str) -> InvalidInput:
    return InvalidInput(what="it fails", expected="a result", actual=words, remedy="None.")


@pytest.mark.parametrize("kind", [Panic, ValueError, OSError, RecursionError])
def test_whatever_is_raised_is_told_with_its_words(kind: type[BaseException]) -> None:
    with pytest.raises(InvalidInput, match="it fails.*words"), guard(refuse):
        raise kind("words")


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), MemoryError(), OSError(errno.ENOSPC, "full"), refuse("inner")]
)
def test_what_is_not_the_library_s_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, guard(lambda words: refuse("outer")):
        raise error
    assert caught.value is error
