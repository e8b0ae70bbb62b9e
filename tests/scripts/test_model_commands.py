"""`touchstone eval` and `sample` on an exported folder; what `replay` says of what it found."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.scripts.schemas import read_one
from tests.scripts.test_data_pack import make_tokenizer
from tests.task_models import init_parameters, make_step
from touchstone.node.exports.model_note import CONFIG_NAME, NOTE_NAME, TOKENIZER_NAME, ModelNote
from touchstone.node.exports.model_use import measure_rows
from touchstone.node.exports.published_model import read_published
from touchstone.node.exports.written_model import write_model
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.documents.model_documents import ReplayDocument, ReplayResult
from touchstone.scripts.home import node_config
from touchstone.scripts.models import segment_replay
from touchstone.scripts.models.sampling import show_text
from touchstone.scripts.models.segment_replay import describe_replayed
from touchstone.scripts.touchstone import main
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.verifier.seatless_audit import Replayed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fresh model on a packed dataset with a tokenizer: `model` and `packed`."""
    (tmp_path / "words.txt").write_text("the quick ing er ly ed " * 20_000)
    file = make_tokenizer(tmp_path / "t.json")
    note = pack(PackPlan([tmp_path / "words.txt"], tmp_path / "packed", tokenizer=file))
    model = DecoderConfig(note.vocabulary_size, 32, 48, 1, 2, 2, 16)
    named = ModelNote(16, note.tokenizer_sha256)
    write_model(tmp_path / "model", init_parameters(model, 1), make_step(model), named, file.read_bytes())
    return tmp_path


@pytest.fixture
def published(folder: Path) -> Path:
    """The same model as transformers saves it: without our note. `hollow` has no tokenizer, `odd` is of no
    family."""
    (folder / "model" / NOTE_NAME).rename(folder / NOTE_NAME)
    shutil.copytree(folder / "model", folder / "hollow")
    (folder / "hollow" / TOKENIZER_NAME).unlink()
    (folder / "odd").mkdir()
    (folder / "odd" / CONFIG_NAME).write_text('{"model_type": "unheard-of"}')
    return folder


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


def test_a_fresh_model_is_as_good_as_chance(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source in (("--dataset", folder / "packed"), ("--text", folder / "words.txt")):
        assert run("eval", folder / "model", *source, "--tokens", "640") == 0
        said = capsys.readouterr().out
        loss = float(said.split("loss ")[1].split()[0])
        assert 5 < loss < 6.5 and "perplexity" in said and "over 640 tokens" in said, "ln 312 is 5.74"
        assert run("eval", folder / "model", *source, "--tokens", "640", "--json") == 0
        found = read_one("eval", capsys.readouterr().out)
        assert round(found["loss_nats"], 4) == loss and found["tokens"] == 640
        assert f"(standard error {found['standard_error']:.4f})" in said and found["standard_error"] > 0


def test_one_row_has_no_standard_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("eval", folder / "model", "--text", folder / "words.txt", "--tokens", "16")
    assert run(*words) == 0
    assert "(standard error unknown: measured once)" in capsys.readouterr().out
    assert run(*words, "--json") == 0
    assert read_one("eval", capsys.readouterr().out)["standard_error"] is None


def test_the_standard_error_is_that_of_the_mean_over_rows(folder: Path) -> None:
    """The last row of a text is shorter, and counts by its tokens."""
    model = read_published(folder / "model", with_weights=True)
    chance = torch.Generator().manual_seed(5)
    rows = [torch.randint(0, 312, (length,), generator=chance) for length in (17, 17, 17, 9, 17, 17, 5)]
    found = measure_rows(model, rows)
    each = [measure_rows(model, [row]).loss for row in rows]
    tokens = [len(row) - 1 for row in rows]
    assert found.tokens == sum(tokens)
    mean = sum(a * b for a, b in zip(each, tokens, strict=True)) / sum(tokens)
    assert found.loss == pytest.approx(mean, rel=1e-6)
    spread = sum((b * (a - mean)) ** 2 for a, b in zip(each, tokens, strict=True)) * 7 / 6
    assert found.standard_error == pytest.approx(spread**0.5 / sum(tokens), rel=1e-4)


def test_a_published_folder_is_read_as_an_export_of_it(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for _ in range(2):
        for source in (("--dataset", published / "packed"), ("--text", published / "words.txt")):
            assert run("eval", published / "model", *source, "--tokens", "640") == 0
        assert run("sample", published / "model", "--prompt", "the quick", "--tokens", "5") == 0
        said.append(re.sub(r"\d\d:\d\d:\d\d", "", capsys.readouterr().out))
        (published / NOTE_NAME).replace(published / "model" / NOTE_NAME) if not said[1:] else None
    assert said[0] == said[1]


def test_a_sample_begins_with_the_prompt_and_is_the_same_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for _ in range(2):
        assert run("sample", folder / "model", "--prompt", "the quick", "--tokens", "20", "--seed", "3") == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and said[0].startswith("the quick")
    words = ("sample", folder / "model", "--prompt", "the quick", "--tokens", "20", "--seed", "3")
    assert run(*words, "--json") == 0
    assert read_one("sample", capsys.readouterr().out) == {"text": said[0].removesuffix("\n")}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("eval", "model"), "--dataset"),
        (("eval", "model", "--text", "none"), "'--text': there is no file none"),
        (("eval", "model", "--dataset", "words.txt"), "another tokenizer"),
        (("sample", "packed", "--prompt", "x"), "config.json"),
        (("eval", "hollow", "--text", "words.txt"), "tokenizer.json, or a vocabulary of 256"),
        (("eval", "odd", "--text", "words.txt"), "model_type"),
        (("sample", "model", "--prompt", ""), "cannot read"),
    ],
)
def test_what_cannot_be_done_is_said(
    published: Path, words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(published)
    assert run(*words) == 2
    assert reason in capsys.readouterr().err


def test_another_tokenizer_in_the_folder_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "model" / "tokenizer.json"
    file.write_bytes(file.read_bytes() + b"\n")
    assert run("sample", folder / "model", "--prompt", "x") == 2
    assert "not the tokenizer" in capsys.readouterr().err


def test_no_model_steers_a_terminal() -> None:
    assert show_text("a\x1b[2Jb\n\tc\x00") == "a\N{REPLACEMENT CHARACTER}[2Jb\n\tc\N{REPLACEMENT CHARACTER}"


# A replay without a seat
@pytest.mark.parametrize("word", [VoteWord.ACCEPT, VoteWord.REJECT_START, VoteWord.REJECT_STATE])
def test_the_exit_status_tells_what_a_replay_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: VoteWord
) -> None:
    root, result = f"0x{'ab' * 32}", ReplayResult(word.name)

    async def find(*_: object) -> ReplayDocument:
        return ReplayDocument(root, 0, 0, f"0x{'cd' * 20}", 1, result, root, None, [])

    monkeypatch.setattr(node_config, "open_config", lambda *_: None)
    monkeypatch.setattr(segment_replay, "replay_segment", find)
    assert main(["replay", "0x3fa9", "0", "0", "1", "--json"]) == (word != VoteWord.ACCEPT)
    assert read_one("replay", capsys.readouterr().out)["result"] == word.name


def test_a_replay_is_told_with_its_distances() -> None:
    far = Replayed("0xab", VoteWord.REJECT_STATE, b"c" * 32, b"o" * 32, (("weights", 2e-3, 1e-3),))
    assert list(describe_replayed(far)) == [
        "largest distance of the weights: 0.002, limit 0.001",
        "REJECT_STATE: the claimed end differs from what this machine computed. A dispute would show "
        "who is wrong, by computing one number of the segment",
    ]
    same = Replayed("0xab", VoteWord.ACCEPT, b"c" * 32, b"c" * 32)
    assert list(describe_replayed(same)) == [
        f"ACCEPT: this machine's end has the claimed root, 0x{'63' * 32}"
    ]
