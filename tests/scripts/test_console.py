"""What the operator types and is asked."""

import io

import pytest
import rich.console

from protocol.spec.errors import InvalidInput
from scripts.console import Console, parse_tokens


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
