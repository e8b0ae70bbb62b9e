"""Names the files of a party's home, and tells whether they exist."""

from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput

CONFIG_FILE = "config.toml"
KEYSTORE_FILE = "keystore.json"
LEFT_FILE = "left-for-good"
"""Ids of tasks, one a line, whose seat the operator has given up. A node that asks nobody (`--yes`) takes no
seat there again."""
BEGIN = "Run `touchstone init`, or pass --home or set TOUCHSTONE_HOME."
FINISH = "Run `touchstone init` with the same --home: it goes on with the key that is there."


def has_key(home: Path) -> bool:
    """Returns whether a home has a key, even if the home is otherwise incomplete."""
    return (home / KEYSTORE_FILE).exists()


def is_whole(home: Path) -> bool:
    """Returns whether a home has both a key and a configuration."""
    return has_key(home) and (home / CONFIG_FILE).exists()


def require_folder(home: Path) -> None:
    """Raises InvalidInput if the home's path is not a folder."""
    if home.exists() and not home.is_dir():
        raise InvalidInput(
            what="the home is no folder",
            expected="a folder",
            actual="a file",
            where=str(home),
            remedy="Choose another --home.",
        )
