"""Packing: every token arrives, what is malformed is named, and no half-made folder looks whole."""

import json
import tracemalloc
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from touchstone.protocol.adapters.machine import extra_libraries
from touchstone.protocol.compute.batches import dataset_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data import data_pack, documents, tokenizing
from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.data.documents import Fields, read_documents
from touchstone.scripts.data.input_files import list_inputs
from touchstone.scripts.data.packed_dataset import open_dataset
from touchstone.scripts.data.tokenizing import read_tokenizer
from touchstone.scripts.touchstone import main

END = "<|end|>"


def make_tokenizer(path: Path, size: int = 400) -> Path:
    """Trained here, on a few words: byte level, so that it takes every text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    words = [f"{a}{b} the quick {b}{a}" for a in ("ab", "cd", "ef", "gh") for b in ("ing", "er", "ly", "ed")]
    tokenizer.train_from_iterator(words * 5, trainer)
    tokenizer.save(str(path))
    return path


def write_jsonl(path: Path, texts: list[str], field: str = "text") -> Path:
    path.write_text("".join(json.dumps({"id": 1, field: text}) + "\n" for text in texts))
    return path


def read_all(path: Path, fields: Fields | None = None) -> list[str]:
    """The texts of a file's documents."""
    (file,) = list_inputs([path]).files
    return ["".join(one.read()) for one in read_documents(file, fields or Fields())]


def read_tokens(out: Path) -> list[int]:
    dataset = open_dataset(out)
    return [int(one) for one in np.fromfile(dataset.tokens, f"<u{dataset.token_bytes}")]


def test_bytes_are_tokens_and_none_is_lost(tmp_path: Path) -> None:
    text = "".join(f"line {number} of a text, naïve\n" for number in range(20_000))
    (tmp_path / "text.txt").write_text(text)
    note = pack(PackPlan([tmp_path / "text.txt"], tmp_path / "out", heldout=0.2))
    data = (tmp_path / "out/tokens.bin").read_bytes()
    assert sorted(data) == sorted(text.encode()) and len(data) == note.token_count + note.heldout_tokens
    assert note.root == dataset_root(data).hex() and note.vocabulary_size == 256 and note.documents == 1
    assert 0 < note.heldout_tokens < len(data) / 2, "pieces of it are held out, not one end"
    assert text.encode().startswith(data[:1000])
    assert open_dataset(tmp_path / "out").note == note


def test_a_small_input_holds_its_end_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 1000)
    note = pack(PackPlan([tmp_path / "a.txt"], tmp_path / "out", heldout=0.1))
    assert (note.token_count, note.heldout_tokens) == (900, 100)


def test_jsonl_with_a_tokenizer_comes_back_as_text(tmp_path: Path) -> None:
    texts = [f"quick document {number} with {END} inside" for number in range(300)]
    source, file = write_jsonl(tmp_path / "d.jsonl", texts, "body"), make_tokenizer(tmp_path / "t.json")
    plan = PackPlan([source], tmp_path / "out", Fields(field="body"), file, END, 0.1)
    note = pack(plan)
    tokenizer, _ = read_tokenizer(tmp_path / "out")
    end = tokenizer.find(END)
    assert end is not None
    found, tokens, start = [], read_tokens(tmp_path / "out"), 0
    for place, token in enumerate(tokens):
        if token == end:
            found.append(tokenizer.decode(tokens[start:place]))
            start = place + 1
    assert sorted(found) == sorted(texts) and start == len(tokens), "no document can end itself"
    assert (note.token_bytes, note.documents, note.end_of_text) == (2, 300, END)
    assert note.tokenizer_sha256 == sha256(file.read_bytes()).hexdigest()
    assert (tmp_path / "out/tokenizer.json").read_bytes() == file.read_bytes()
    assert note.heldout_tokens and 256 <= max(tokens) < note.vocabulary_size == 312


def test_parquet_of_a_named_column(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"body": ["one ", "two "], "n": [1, 2]})
    parquet.write_table(table, tmp_path / "d.parquet")
    assert read_all(tmp_path / "d.parquet", Fields(column="body")) == ["one ", "two "]
    for column, reason in (("text", "no such column"), ("n", "holds no texts")):
        with pytest.raises(InvalidInput, match=reason):
            read_all(tmp_path / "d.parquet", Fields(column=column))
    (tmp_path / "e.parquet").write_bytes(b"PAR1 no parquet PAR1")
    with pytest.raises(InvalidInput, match="no Parquet"):
        read_all(tmp_path / "e.parquet")


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(extra_libraries, "import_module", fail)
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidInput, match=r"pyarrow, of the extra \[data\]"):
        pack(PackPlan([tmp_path / "d.parquet"], tmp_path / "out"))
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"tokenizers, of the extra \[data\]"):
        read_tokenizer(tmp_path / "t.json")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2.*no JSON|no JSON.*line 2"),
        ("[" * 100_000, "no JSON"),
        ('{"other": 1}', "--field"),
        ('{"text": 7}', "no such text"),
        ("[1]", "no such text"),
    ],
)
def test_a_malformed_line_is_named_and_nothing_is_left(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "d.jsonl").write_text('{"text": "good"}\n' + line + "\n")
    with pytest.raises(InvalidInput, match=reason):
        pack(PackPlan([tmp_path / "d.jsonl"], tmp_path / "out"))
    assert [one.name for one in tmp_path.iterdir()] == ["d.jsonl"]


def test_other_inputs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\xfe")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "good.txt").write_text("good")
    (tmp_path / "hollow").mkdir()
    out, good = tmp_path / "out", [tmp_path / "good.txt"]
    for plan, reason in (
        (PackPlan([tmp_path / "bad.txt"], out), "not UTF-8.*byte 5|byte 5.*not UTF-8"),
        (PackPlan([tmp_path / "empty.txt"], out), "no tokens"),
        (PackPlan([tmp_path / "none"], out), "not there"),
        (PackPlan([tmp_path / "hollow"], out), "nothing to read"),
        (PackPlan(good, tmp_path / "hollow"), "replace"),
        (PackPlan(good, out, heldout=0.0), "share"),
        (PackPlan(good, out, end_of_text=END), "no such token"),
        (
            PackPlan(good, out, tokenizer=make_tokenizer(tmp_path / "t.json"), end_of_text="<no>"),
            r"special ones are '<\|end\|>'.*no such token",
        ),
        (PackPlan(good, out, tokenizer=tmp_path / "good.txt"), "not a tokenizer"),
        (PackPlan(good, out, tokenizer=tmp_path / "none"), "not a tokenizer"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            pack(plan)
        assert not out.exists()


def test_a_long_line_is_refused_before_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MAX_LINE_BYTES", 100_000)
    write_jsonl(tmp_path / "d.jsonl", ["x" * 100_000])
    (tmp_path / "d.txt").write_text("x" * 200_000)
    for name in ("d.jsonl", "d.txt"):
        with pytest.raises(InvalidInput, match="too long"):
            read_all(tmp_path / name)


def test_a_killed_run_leaves_no_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("x" * 1000)

    def fail(path: Path) -> bytes:
        assert not (tmp_path / "out").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(data_pack, "compute_file_root", fail)
    with pytest.raises(KeyboardInterrupt):
        pack(PackPlan([tmp_path / "a.txt"], tmp_path / "out"))
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def test_memory_stays_flat(tmp_path: Path) -> None:
    line = json.dumps({"text": "word " * 400}) + "\n"
    with (tmp_path / "d.jsonl").open("w") as file:
        for _ in range(10_000):
            file.write(line)
    size = (tmp_path / "d.jsonl").stat().st_size
    tracemalloc.start()
    try:
        pack(PackPlan([tmp_path / "d.jsonl"], tmp_path / "out"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 20_000_000 and peak < size / 2


def test_files_of_a_folder_come_by_name_and_hidden_ones_stay(tmp_path: Path) -> None:
    for name in ("b.txt", "a/c.jsonl", ".git/x", "a/.y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert [str(one.path.relative_to(tmp_path)) for one in list_inputs([tmp_path]).files] == [
        "a/c.jsonl",
        "b.txt",
    ]


@pytest.mark.parametrize("name", ["tokens.bin", "dataset.json", "tokenizer.json"])
def test_a_folder_that_is_not_what_its_note_says_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.txt").write_text("quick " * 1000)
    file, out = make_tokenizer(tmp_path / "t.json"), tmp_path / "out"
    pack(PackPlan([tmp_path / "a.txt"], out, tokenizer=file))
    open_dataset(out)
    whole = (out / name).read_bytes()
    for changed in (whole[:-3], b"[" * 100_000, None):
        (out / name).write_bytes(changed) if changed is not None else (out / name).unlink()
        with pytest.raises(InvalidInput, match="not a packed dataset"):
            open_dataset(out)


def test_the_tokenizer_is_data(tmp_path: Path) -> None:
    for text in ("", "null", "[]", '{"model": {"type": "os.system"}}', "\0", '{"model":' * 10_000):
        (tmp_path / "t.json").write_text(text)
        with pytest.raises(InvalidInput, match="not a tokenizer"):
            read_tokenizer(tmp_path / "t.json")
    (tmp_path / "t.json").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="not a tokenizer"):
        read_tokenizer(tmp_path / "t.json")


def test_the_command_packs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("text " * 1000)
    assert main(["data", "pack", str(tmp_path / "a.txt"), "--out", str(tmp_path / "out")]) == 0
    assert "tokens to train on" in capsys.readouterr().out
    assert open_dataset(tmp_path / "out").note is not None
    assert tokenizing.ByteTokens().decode(read_tokens(tmp_path / "out"))[:5] == "text "
