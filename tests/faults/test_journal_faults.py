"""A journal after a crash, a bad disk and a full one."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from protocol.adapters.journal import Journal
from protocol.adapters.records import RECORDS, RoundEnded
from protocol.spec.errors import EnvironmentFault

TASK = b"t" * 32
WRITER = """
import sys
from pathlib import Path
from protocol.adapters.journal import Journal
from protocol.adapters.records import RECORDS, RoundEnded
with Journal(Path(sys.argv[1]), RECORDS) as journal:
    for number in range(10**9):
        journal.append(RoundEnded(bytes(32), number))
        print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    with Journal(path, RECORDS) as journal:
        for number in range(3):
            journal.append(RoundEnded(TASK, number))
    return path


def read_rounds(path: Path) -> list[int]:
    with Journal(path, RECORDS) as journal:
        return [record.round for record in journal.replay()]


def test_a_cut_anywhere_loses_only_the_unfinished_record(path: Path) -> None:
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for length in range(last + 1, len(whole), 5):
        path.write_bytes(whole[:length])
        assert read_rounds(path) == [0, 1]
        assert path.read_bytes() == whole[:last]


def test_after_a_cut_the_journal_goes_on(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])
    with Journal(path, RECORDS) as journal:
        journal.append(RoundEnded(TASK, 7))
    assert read_rounds(path) == [0, 1, 7]


def test_what_was_cut_off_is_kept_aside(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    read_rounds(path)
    (aside,) = path.parent.glob("journal.torn-*")
    assert whole[:-5] == path.read_bytes() + aside.read_bytes()
    assert aside.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "garbage", [b"\0" * 4096, b"\0\n\0\r\n\0", b"\n\n", b'{"fields":{}}\n', b"[]\n", b"\xff"]
)
def test_garbage_at_the_end_is_set_aside(path: Path, garbage: bytes) -> None:
    path.write_bytes(path.read_bytes() + garbage)
    assert read_rounds(path) == [0, 1, 2]


def test_damage_before_the_end_stops_the_node(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"7474")] ^= 1
    path.write_bytes(whole)
    with pytest.raises(EnvironmentFault, match="record 0.*backup") as caught:
        read_rounds(path)
    assert not caught.value.retryable
    assert path.read_bytes() == whole


def test_a_removed_or_repeated_record_is_found(path: Path) -> None:
    first, second, third = path.read_bytes().splitlines(keepends=True)
    for lines in ([first, third, third], [second, third, first], [first, first, second, third]):
        path.write_bytes(b"".join(lines))
        with pytest.raises(EnvironmentFault, match="damaged"):
            read_rounds(path)


def test_a_record_of_another_journal_is_found(path: Path, tmp_path: Path) -> None:
    with Journal(tmp_path / "other", RECORDS) as other:
        for number in range(10, 13):
            other.append(RoundEnded(TASK, number))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = (tmp_path / "other").read_bytes().splitlines(keepends=True)[1]
    path.write_bytes(b"".join(lines))
    with pytest.raises(EnvironmentFault, match="record 1"):
        read_rounds(path)


def test_a_full_disk_leaves_no_partial_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write, before = os.write, path.read_bytes()

    def write_half(handle: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(handle, data[: len(data) // 2 + 1])

    with Journal(path, RECORDS) as journal:
        monkeypatch.setattr(os, "write", write_half)
        with pytest.raises(EnvironmentFault, match="No space left"):
            journal.append(RoundEnded(TASK, 3))
        monkeypatch.undo()
        with pytest.raises(EnvironmentFault, match="an earlier write failed"):
            journal.append(RoundEnded(TASK, 3))
    assert path.read_bytes() == before


def test_a_record_that_append_returned_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    while int(writer.stdout.readline()) < 20:
        pass
    writer.send_signal(signal.SIGKILL)
    promised = int(([*writer.stdout.read().split()] or ["20"])[-1])
    writer.wait()
    writer.stdout.close()
    rounds = read_rounds(path)
    assert rounds == list(range(len(rounds)))
    assert len(rounds) > promised
