"""Text that does not come back from its tokens is noticed, before hours of packing."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tests.scripts.test_data_pack import make_tokenizer, write_jsonl
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.data_pack import PackPlan, pack_and_report
from touchstone.scripts.data.packing import Packer
from touchstone.scripts.touchstone import main

KNOWN = ("red", "green", "blue", "black")


def save_words(path: Path) -> Path:
    """Knows a few words, and no other."""
    vocabulary = {name: number for number, name in enumerate(("[UNK]", *KNOWN))}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))
    return path


def save_letters(path: Path, letters: str) -> Path:
    """Knows these characters, and drops all others without a word."""
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(path))
    return path


def save_changed(path: Path, **parts: Any) -> Path:
    """A byte-level tokenizer with other parts."""
    tokenizer = Tokenizer.from_file(str(make_tokenizer(path)))
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.save(str(path))
    return path


def write_words(path: Path, count: int = 300, third: str = "colour") -> Path:
    return write_jsonl(path, [f"red green {third} " * 40] * count)


def forbid_packing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise AssertionError("it packs already")

    monkeypatch.setattr(Packer, "take", fail)


def test_unknown_tokens_are_refused_before_anything_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, file = write_words(tmp_path / "d.jsonl"), save_words(tmp_path / "t.json")
    plan = PackPlan([source], tmp_path / "out", tokenizer=file)
    with monkeypatch.context() as patch:
        forbid_packing(patch)
        with pytest.raises(InvalidInput, match=r"lost.*33\.3 %.*'\[UNK\]'.*--lossy") as caught:
            pack_and_report(plan)
    assert caught.value.where == str(source)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["d.jsonl", "t.json"]
    report = pack_and_report(PackPlan([source], tmp_path / "out", tokenizer=file, is_lossy=True))
    assert report.loss.unknown_share == pytest.approx(1 / 3, abs=0.01)
    assert report.loss.lost_share == pytest.approx(7 / 17, abs=0.01)


def test_later_files_are_looked_at_first_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = write_words(tmp_path / "a.jsonl", third="blue")
    bad = write_words(tmp_path / "b.jsonl", third="colour")
    forbid_packing(monkeypatch)
    with pytest.raises(InvalidInput, match="lost") as caught:
        pack_and_report(PackPlan([good, bad], tmp_path / "out", tokenizer=save_words(tmp_path / "t.json")))
    assert caught.value.where == str(bad)


def test_what_a_later_part_of_a_file_loses_is_noticed(tmp_path: Path) -> None:
    texts = ["red green blue " * 400] * 600 + ["red green colour " * 400] * 600
    source, file = write_jsonl(tmp_path / "d.jsonl", texts), save_words(tmp_path / "t.json")
    with pytest.raises(InvalidInput, match="lost"):
        pack_and_report(PackPlan([source], tmp_path / "out", tokenizer=file))
    assert not (tmp_path / "out").exists()
    (tmp_path / "long.txt").write_text("red green blue \n" * 60_000 + "red green colour \n" * 60_000)
    with pytest.raises(InvalidInput, match="lost"):
        pack_and_report(PackPlan([tmp_path / "long.txt"], tmp_path / "out", tokenizer=file))


def test_characters_that_vanish_are_refused_and_shown(tmp_path: Path) -> None:
    file = save_letters(tmp_path / "t.json", "abcdefghijklmnopqrstuvwxyz ")
    source = write_jsonl(tmp_path / "d.jsonl", ["plain words, and some ☃☃ between"] * 100)
    with pytest.raises(InvalidInput, match=r"9\.4 %.*'☃', ','"):
        pack_and_report(PackPlan([source], tmp_path / "out", tokenizer=file))


def test_a_small_loss_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = save_letters(tmp_path / "t.json", "abcdefghijklmnopqrstuvwxyz ")
    source = write_jsonl(tmp_path / "d.jsonl", ["plain words without signs " * 20 + "☃"] * 100)
    command = ["data", "pack", str(source), "--tokenizer", str(file), "--out", str(tmp_path / "out")]
    assert main([*command, "--json"]) == 0
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert found["lost_share"] == pytest.approx(1 / 521, abs=0.0001) and found["unknown_share"] == 0
    assert found["sampled_characters"] > 10_000
    assert "0.19 % do not come back" in output.err


@pytest.mark.parametrize("text", ["naïve ☃ 漢字\n\tand code:  x = 1\r\n", "e\u0301 <|end|> \0 \ufffd"])
def test_a_tokenizer_that_loses_nothing_passes(tmp_path: Path, text: str) -> None:
    source, file = write_jsonl(tmp_path / "d.jsonl", [text * 50] * 50), make_tokenizer(tmp_path / "t.json")
    report = pack_and_report(PackPlan([source], tmp_path / "out", tokenizer=file))
    assert report.loss.lost_share == report.loss.unknown_share == 0


def test_composed_characters_are_the_same_text(tmp_path: Path) -> None:
    text = unicodedata.normalize("NFD", "élève à l'école, où ça? ") * 100
    assert text != unicodedata.normalize("NFC", text)
    source = write_jsonl(tmp_path / "d.jsonl", [text] * 20)
    file = save_changed(tmp_path / "t.json", normalizer=normalizers.NFC())
    assert pack_and_report(PackPlan([source], tmp_path / "out", tokenizer=file)).loss.lost_share == 0


def test_lower_case_is_a_loss(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "d.jsonl", ["The Quick Brown Fox "] * 200)
    file = save_changed(tmp_path / "t.json", normalizer=normalizers.Lowercase())
    with pytest.raises(InvalidInput, match=r"20\.0 %"):
        pack_and_report(PackPlan([source], tmp_path / "out", tokenizer=file))


def test_one_odd_file_among_many_small_ones_is_not_refused(tmp_path: Path) -> None:
    file = save_letters(tmp_path / "t.json", "abcdefghijklmnopqrstuvwxyz ")
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(100):
        (texts / f"{number}.txt").write_text("plain words " * 50)
    (texts / "odd.txt").write_text("☃")
    report = pack_and_report(PackPlan([texts], tmp_path / "out", tokenizer=file))
    assert 0 < report.loss.lost_share < 0.01


def test_bytes_lose_nothing_and_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("☃" * 1000)
    command = ["data", "pack", str(tmp_path / "a.txt"), "--out", str(tmp_path / "out"), "--json"]
    assert main(command) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["sampled_characters"] == 0 and "come back" not in output.err


def test_what_is_wrong_with_a_later_file_is_told_before_anything_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = write_jsonl(tmp_path / "a.jsonl", ["text"])
    bad = write_jsonl(tmp_path / "b.jsonl", ["text"], "body")
    forbid_packing(monkeypatch)
    with pytest.raises(InvalidInput, match="--field"):
        pack_and_report(PackPlan([good, bad], tmp_path / "out"))
