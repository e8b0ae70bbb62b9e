"""Looks whether another process works with a home, before anything else of a command is loaded."""

import argparse

from touchstone.protocol.adapters.journal import FILE_NAME, require_free


def require_free_home(options: argparse.Namespace) -> None:
    """Raises as `require_free` does where a node of this home runs already."""
    require_free(options.home / FILE_NAME)
