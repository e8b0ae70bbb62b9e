"""Finds out whether another process uses a home, before a command loads anything else."""

from pathlib import Path

from touchstone.protocol.adapters.journal import FILE_NAME, require_free


def require_free_home(home: Path) -> None:
    """Raises as `require_free` does if a node of this home already runs."""
    require_free(home / FILE_NAME)
