"""Reads what operators type: paths, keys, and environment variables."""

import os.path
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput

PREFIX = "TOUCHSTONE_"
"""`TOUCHSTONE_THREADS=2` stands for `threads = 2`."""
OTHERS = frozenset({"HOME", "PORT"})
"""Variables with this prefix that do not stand for a key. Kubernetes sets PORT for a service of this name."""
SECRET = re.compile(r"PASSWORD$|PASSPHRASE|SECRET|MNEMONIC|SEED|(^|_)KEY$")


def find_nearest(name: str, known: Iterable[str]) -> str:
    """Returns the known key that a mistyped name probably means; empty if none is similar."""
    return next(iter(get_close_matches(name, list(known), 1)), "")


def expect_known(name: str, known: Iterable[str]) -> str:
    """Says which key was expected instead of an unknown one."""
    keys = list(known)
    nearest = find_nearest(name, keys)
    return f"one of {', '.join(keys)}" + (f"; the nearest is {nearest}" if nearest else "")


def read_overrides(environment: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """Returns the known keys that environment variables stand for, with their texts. Raises InvalidInput for
    a variable that looks like a secret, or like a misspelled known one, without showing its value. Other ones
    are ignored, because whatever starts a container may set some with this prefix."""
    keys, found = {key.upper(): key for key in known}, dict[str, str]()
    for variable, text in sorted(environment.items()):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in OTHERS:
            continue
        if name in keys:
            found[keys[name]] = text
        elif SECRET.search(name):
            raise _secret_in_environment(variable)
        elif nearest := find_nearest(name, keys):
            raise _unknown_variable(variable, nearest)
    return found


def _secret_in_environment(variable: str) -> InvalidInput:
    return InvalidInput(
        what="an environment variable holds a secret",
        expected=f"a password in a file of mode 0600, named by {PREFIX}PASSWORD_FILE",
        actual="a variable that every process of this account can read",
        where=variable,
        remedy="Unset it, and change that secret if others may have seen it.",
    )


def _unknown_variable(variable: str, nearest: str) -> InvalidInput:
    return InvalidInput(
        what="an environment variable names no key of the configuration",
        expected=f"{PREFIX}{nearest}, or another key of config.toml in capitals",
        actual="an unknown name",
        where=variable,
        remedy="Correct its name, or unset it.",
    )


def read_path(text: str) -> Path:
    """Returns a path as it was typed. `~` means the operator's home folder, even if no shell has replaced it.
    The name of an unknown user stays as it is."""
    return Path(os.path.expanduser(text))
