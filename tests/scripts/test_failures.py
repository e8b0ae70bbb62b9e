"""What a command says when it fails, and whose fault an error of the system is."""

import errno
import os
import ssl

import pytest

from scripts.failures import explain_bug, explain_disk, is_of_disk, render_error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EFBIG, errno.EIO])
def test_a_disk_that_takes_nothing_is_no_bug(number: int) -> None:
    assert is_of_disk(OSError(number, os.strerror(number)))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EEXIST, errno.ENOTDIR, errno.ENOENT])
def test_a_path_that_cannot_be_used_is_no_bug(number: int) -> None:
    assert is_of_disk(OSError(number, os.strerror(number), "/somewhere"))
    assert not is_of_disk(OSError(number, os.strerror(number))), "a port, for instance"


def test_other_errors_of_the_system_are_not_taken_for_the_disks() -> None:
    assert not is_of_disk(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
    assert not is_of_disk(ssl.SSLError(1, "no handshake")), "1 is EPERM too"


def test_a_disk_is_told_in_four_lines_with_its_path() -> None:
    lines = render_error(explain_disk(OSError(errno.ENOSPC, "No space left", "/full/file"))).splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
    assert "/full/file" in lines[0] and lines[2].endswith("No space left") and "--out" in lines[3]


def test_a_bug_is_told_in_four_lines_too() -> None:
    lines = render_error(explain_bug(KeyError("name"))).splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
    assert "KeyError" in lines[2] and "--debug" in lines[3]
