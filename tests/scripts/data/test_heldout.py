"""Enough tokens are held out to measure with, of whole documents from everywhere in the inputs."""

import json
import re
from pathlib import Path

from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.data.heldout import LEAST_TOKENS
from touchstone.scripts.data.packed_dataset import DatasetNote

DOCUMENT = re.compile(rb"<(\d+)[^>]*>")


def write_documents(path: Path, count: int, size: int, first: int = 0) -> Path:
    """JSONL of documents of so many bytes: `<17 xxx>`."""
    texts = [f"<{number} ".ljust(size - 1, "x") + ">" for number in range(first, first + count)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def split(out: Path, note: DatasetNote) -> tuple[bytes, bytes]:
    data = (out / "tokens.bin").read_bytes()
    assert len(data) == note.token_count + note.heldout_tokens
    return data[: note.token_count], data[note.token_count :]


def list_numbers(data: bytes) -> list[int]:
    """The numbers of the documents that the bytes consist of; each must be whole."""
    assert not DOCUMENT.sub(b"", data)
    return [int(one) for one in DOCUMENT.findall(data)]


def test_a_small_dataset_holds_a_tenth_out_in_whole_documents(tmp_path: Path) -> None:
    note = pack(PackPlan([write_documents(tmp_path / "d.jsonl", 600, 31)], tmp_path / "out"))
    train, held = (list_numbers(part) for part in split(tmp_path / "out", note))
    assert 60 <= len(held) <= 75
    assert note.heldout == note.heldout_tokens / (note.token_count + note.heldout_tokens)
    assert train == sorted(train) and held == sorted(held) and sorted(train + held) == list(range(600))
    assert min(held) < 100 and max(held) > 500, "they come from everywhere"


def test_a_larger_dataset_holds_a_hundred_rows_out(tmp_path: Path) -> None:
    note = pack(PackPlan([write_documents(tmp_path / "d.jsonl", 2_000, 1_500)], tmp_path / "out"))
    assert LEAST_TOKENS == 100 * 1024 <= note.heldout_tokens < 1.25 * LEAST_TOKENS
    train, held = (list_numbers(part) for part in split(tmp_path / "out", note))
    assert len(held) == note.heldout_tokens / 1_500 and len(train) + len(held) == 2_000


def test_a_share_that_is_named_is_kept(tmp_path: Path) -> None:
    source = write_documents(tmp_path / "d.jsonl", 2_000, 500)
    for number, share in enumerate((0.001, 0.02, 0.5)):
        note = pack(PackPlan([source], tmp_path / str(number), heldout=share))
        assert 0 <= note.heldout_tokens - share * 1_000_000 < 0.25 * share * 1_000_000 + 500
        assert note.heldout == share


def test_every_file_may_give_some(tmp_path: Path) -> None:
    sources = [write_documents(tmp_path / f"{number}.jsonl", 300, 40, 300 * number) for number in range(4)]
    note = pack(PackPlan(sources, tmp_path / "out"))
    held = list_numbers(split(tmp_path / "out", note)[1])
    assert {number // 300 for number in held} == {0, 1, 2, 3}


def test_of_a_long_document_parts_are_held_out(tmp_path: Path) -> None:
    text = "".join(f"<{number:06}>" for number in range(50_000))
    (tmp_path / "a.txt").write_text(text)
    note = pack(PackPlan([tmp_path / "a.txt"], tmp_path / "out"))
    train, held = split(tmp_path / "out", note)
    assert 40_000 <= len(held) < 50_000
    assert sorted(train + held) == sorted(text.encode())
    assert text.encode()[-1000:] not in held or text.encode()[:-1000] != train, "not the end alone"
    parts = [number for number in range(0, len(held) - 8, 8) if held[number : number + 8] not in train]
    assert parts


def test_a_long_document_is_not_held_out_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("y" * 900_000)
    sources = [tmp_path / "a.txt", write_documents(tmp_path / "d.jsonl", 100, 1_000)]
    note = pack(PackPlan(sources, tmp_path / "out", heldout=0.01))
    assert 10_000 <= note.heldout_tokens <= 12_500


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    source = write_documents(tmp_path / "d.jsonl", 500, 70)
    notes = [pack(PackPlan([source], tmp_path / name)) for name in ("one", "two")]
    assert notes[0] == notes[1]
    files = [(tmp_path / name / "tokens.bin").read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]


def test_the_least_input_has_one_token_of_each_part(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab")
    note = pack(PackPlan([tmp_path / "a.txt"], tmp_path / "out"))
    assert (note.token_count, note.heldout_tokens) == (1, 1)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["dataset.json", "tokens.bin"]
