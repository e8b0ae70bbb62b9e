"""What operators type: a path may begin with the home folder."""

from pathlib import Path

import pytest

from touchstone.scripts.command_line.typed_input import read_path


def test_a_path_may_begin_with_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert read_path("~/alice") == Path("/somewhere/alice")
    assert read_path("alice/~") == Path("alice/~")


def test_a_user_that_is_not_known_is_no_traceback() -> None:
    assert read_path("~no-such-user/alice") == Path("~no-such-user/alice")
