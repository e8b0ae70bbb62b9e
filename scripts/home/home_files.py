"""The files of a party's home, and whether they are there."""

from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput

CONFIG_FILE = "config.toml"
KEYSTORE_FILE = "keystore.json"
LEFT_FILE = "left-for-good"
"""Ids of tasks, one a line, whose seat the operator has given up: a node that asks nobody (`--yes`) takes
none there again."""
BEGIN = "Run `touchstone init`, or pass --home or set TOUCHSTONE_HOME."
FINISH = "Run `touchstone init` with the same --home: it goes on with the key that is there."


def has_key(home: Path) -> bool:
    """Returns whether a home has a key, whole or half-made as it may be."""
    return (home / KEYSTORE_FILE).exists()


def is_whole(home: Path) -> bool:
    """Returns whether a home has both a key and a configuration."""
    return has_key(home) and (home / CONFIG_FILE).exists()


def require_folder(home: Path) -> None:
    """Raises InvalidInput if something else has the home's path."""
    if home.exists() and not home.is_dir():
        raise InvalidInput(
            what="the home is no folder",
            expected="a folder",
            actual="a file",
            where=str(home),
            remedy="Choose another --home.",
        )
