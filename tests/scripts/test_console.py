"""What the operator types and is asked."""

import io
import logging
import re
from pathlib import Path

import pytest
import rich.console

from protocol.spec.errors import InvalidInput
from scripts.console import Console, open_logs, parse_tokens
from tests.scripts.network import fail


@pytest.mark.parametrize(("typed", "is_agreed"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_only_yes_is_yes(typed: str, is_agreed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert Console(rich.console.Console(file=io.StringIO())).confirm("Post it?") is is_agreed


def test_a_file_keeps_a_line_whole() -> None:
    """Where an output is not a terminal its width is a guess: an id broken in two cannot be copied."""
    file, line = io.StringIO(), "posted 0x" + "ab" * 32 + ", and serving its dataset"
    Console(rich.console.Console(file=file, width=80)).say(line)
    assert line in file.getvalue().splitlines()[0]


@pytest.mark.parametrize(
    ("text", "amount_wei"),
    [("1", 10**18), ("12.5", 125 * 10**17), (".5", 5 * 10**17), ("0.000000000000000001", 1)],
)
def test_amounts_are_exact(text: str, amount_wei: int) -> None:
    assert parse_tokens(text) == amount_wei


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1e3", "1,5", "x", "1.0000000000000000001", "٣", "0.0", "1" * 60]
)
def test_other_amounts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="amount of tokens"):
        parse_tokens(text)


def test_an_amount_of_thousands_of_digits_is_refused_and_not_shown() -> None:
    """Python reads and writes no integer of so many digits."""
    assert parse_tokens("1" * 59) < 1 << 256
    with pytest.raises(InvalidInput, match="amount of tokens") as error:
        parse_tokens("1" * 5000)
    assert error.value.actual == "5000 characters"


STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d "
log = logging.getLogger("protocol.somewhere")


def say(line: str) -> str:
    file = io.StringIO()
    Console(rich.console.Console(file=file)).say(line)
    return file.getvalue()


def test_a_file_gets_what_is_said_and_what_is_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    with open_logs(None, path):
        assert re.fullmatch(STAMP + "round 3: done\n", say("round 3: done"))
        log.info("Rounds.commit is mined in block %d", 7, extra={"round": 4, "transaction": "ab" * 32})
        log.warning("late")
        log.debug("detail")
        logging.getLogger("library").info("noise")
    said, mined, late = path.read_text().splitlines()
    assert re.fullmatch(STAMP + "INFO round 3: done round=3", said)
    assert re.fullmatch(
        STAMP + f"INFO Rounds.commit is mined in block 7 round=4 transaction=0x{'ab' * 32}", mined
    )
    assert re.fullmatch(STAMP + "WARNING late", late)
    # Without a level, standard error has warnings alone.
    assert re.fullmatch(STAMP + "WARNING late\n", capsys.readouterr().err)


def test_a_level_holds_for_what_is_shown_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    with open_logs("warning", path):
        assert say("round 3: done") == ""
        assert "beware" in say("WARNING: beware")
        log.info("unwanted")
    assert re.fullmatch(STAMP + "WARNING beware\n", path.read_text())
    assert capsys.readouterr().err == "", "what the console has shown is not shown twice"
    with open_logs("debug", path):
        log.debug("detail")
    assert "DEBUG detail" in path.read_text()
    assert "again" in say("again"), "an earlier command's level is forgotten"


def test_what_a_peer_sends_makes_no_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_logs(None, path):
        log.warning("refused: %s", "x\n2027-01-01T00:00:00+00:00 INFO all is well\r\x0bso\u2028it")
        try:
            raise ValueError("one\ntwo")
        except ValueError:
            log.exception("failed")
    lines = path.read_text().splitlines()
    assert len(lines) == 2 and "ValueError: one | two" in lines[1]


def test_a_file_that_was_moved_away_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_logs(None, path):
        log.warning("one")
        path.rename(tmp_path / "log.1")
        log.warning("two")
    assert "one" in (tmp_path / "log.1").read_text() and "two" in path.read_text()


def test_a_log_file_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "log"
    error, *_ = fail(capsys, "solve", "0x12", "--home", str(tmp_path), "--log-file", str(path))
    assert "the disk refuses" in error and str(path) in error
