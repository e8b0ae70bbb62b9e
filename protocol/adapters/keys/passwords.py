"""Reads passwords.

A password comes from a prompt or from a file that only its owner may read, never from an argument or the
environment: other users see both.
"""

import getpass
import warnings
from pathlib import Path

from touchstone.protocol.adapters.files.private_files import require_private_file
from touchstone.protocol.spec.errors import InvalidInput


def read_password(path: Path | None, prompt: str = "Keystore password: ") -> str:
    """Returns the first line of the password file at `path`, or, without a path, what is typed at the
    terminal. Raises InvalidInput if there is neither, or the file is empty or open to others."""
    if path is None:
        return _ask_password(prompt)
    require_private_file(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0]:
        raise InvalidInput(
            what="the password file is empty",
            expected="the password on the first line",
            actual="nothing",
            where=str(path),
            remedy="Write the password into it.",
        )
    return lines[0]


def read_new_password(path: Path | None, prompt: str) -> str:
    """Returns a password for a new keystore; at a terminal it is typed twice. Raises InvalidInput if the two
    differ."""
    password = read_password(path, prompt)
    if path is None and _ask_password("The same again: ") != password:
        raise InvalidInput(
            what="two different passwords were typed",
            expected="the same password twice",
            actual="another one the second time",
            remedy="Nothing was made. Run the command again.",
        )
    return password


def _ask_password(prompt: str) -> str:
    try:
        with warnings.catch_warnings():
            # Without a terminal, getpass would read with echo.
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(prompt)
    except (EOFError, getpass.GetPassWarning):
        raise InvalidInput(
            what="no password was typed",
            expected="a password, typed at a terminal or in a file",
            actual="no terminal",
            remedy="Pass --password-file FILE: the password on its first line, mode 0600.",
        ) from None
