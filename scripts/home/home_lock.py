"""Looks whether another process works with a home, before anything else of a command is loaded."""

from pathlib import Path

from touchstone.protocol.adapters.journal import FILE_NAME, require_free


def require_free_home(home: Path) -> None:
    """Raises as `require_free` does if a node of this home runs already."""
    require_free(home / FILE_NAME)
