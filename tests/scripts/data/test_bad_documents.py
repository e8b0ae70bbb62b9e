"""Bad documents are skipped up to a number, counted and named, the same in all formats."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data import documents
from touchstone.scripts.data.data_pack import PackPlan, pack_and_report
from touchstone.scripts.touchstone import main

GOOD = [f"text {number} " * 5 for number in range(20)]


def write_jsonl(folder: Path, bad: int) -> list[Path]:
    """Twenty good lines, and bad ones from line 3 on."""
    lines = [json.dumps({"text": text}) for text in GOOD]
    ways = ["{", '{"other": 1}', '{"text": null}', "[" * 50_000, '"x"']
    lines[2:2] = [ways[number % len(ways)] for number in range(bad)]
    (folder / "d.jsonl").write_text("\n".join(lines))
    return [folder / "d.jsonl"]


def write_parquet(folder: Path, bad: int) -> list[Path]:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts: list[bytes | None] = [text.encode() for text in GOOD]
    texts[2:2] = [(None, b"\xff")[number % 2] for number in range(bad)]
    found = arrow.array(texts, type=arrow.binary())
    bits, offsets, data = found.buffers()
    column = arrow.StringArray.from_buffers(len(texts), offsets, data, bits, found.null_count)
    parquet.write_table(arrow.table({"text": column}), folder / "d.parquet")
    return [folder / "d.parquet"]


def write_texts(folder: Path, bad: int) -> list[Path]:
    """The last byte of a long text may be bad: all of it is skipped, what was written too."""
    texts = [text.encode() for text in GOOD]
    texts[2:2] = [b"long line\n" * 30_000 + b"\xff" for _ in range(bad)]
    paths = [folder / f"{number:02}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    return paths


PLACES = {write_jsonl: "d.jsonl, line 3", write_parquet: "d.parquet, row 3", write_texts: "02.txt"}


@pytest.mark.parametrize(("write", "place"), PLACES.items())
def test_bad_documents_are_skipped_counted_and_named(
    tmp_path: Path, write: Callable[[Path, int], list[Path]], place: str
) -> None:
    sources, out = write(tmp_path, 5), tmp_path / "out"
    with pytest.raises(InvalidInput, match=f"{place}.*--skip-bad"):
        pack_and_report(PackPlan(sources, out))
    with pytest.raises(InvalidInput, match=f"more.*bad.*at most 4.*{place}.*--skip-bad"):
        pack_and_report(PackPlan(sources, out, skip_bad=4))
    assert not out.exists()
    report = pack_and_report(PackPlan(sources, out, skip_bad=5))
    assert report.note.documents == len(GOOD) == sum(file.documents for file in report.files)
    data = (out / "tokens.bin").read_bytes()
    assert sorted(data) == sorted("".join(GOOD).encode())
    assert sum(file.tokens for file in report.files) == len(data)
    assert report.bad.count == 5 and len(report.bad.first) == 5
    assert place in report.bad.first[0][0] and all(reason for _, reason in report.bad.first)


def test_the_command_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = write_jsonl(tmp_path, 30)
    command = ["data", "pack", str(source), "--out", str(tmp_path / "out"), "--skip-bad"]
    assert main([*command, "29"]) == 2
    capsys.readouterr()
    assert main([*command, "30", "--json"]) == 0
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert found["bad_documents"] == 30
    assert found["first_bad"][0] == {"path": f"{source}, line 3", "reason": "a line is no JSON"}
    assert len(found["first_bad"]) < 30
    assert "skipped 30 bad documents" in output.err and "line 3 (a line is no JSON)" in output.err


def test_all_of_a_long_line_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_LINE_BYTES", 1_000)
    lines = [json.dumps({"text": text}) for text in ("one", "x" * 5_000, "two")]
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    report = pack_and_report(PackPlan([tmp_path / "d.jsonl"], tmp_path / "out", skip_bad=1))
    assert sorted((tmp_path / "out/tokens.bin").read_bytes()) == sorted(b"onetwo")
    assert report.bad.first == [(f"{tmp_path / 'd.jsonl'}, line 2", "a line is too long")]


def test_a_file_without_the_field_at_all_is_not_skipped_document_by_document(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"body": ["one"]}), tmp_path / "d.parquet")
    with pytest.raises(InvalidInput, match="--column"):
        pack_and_report(PackPlan([tmp_path / "d.parquet"], tmp_path / "out", skip_bad=10))
