"""Paths as people write them."""

import os.path
from pathlib import Path


def read_path(text: str) -> Path:
    """A path as it was typed; `~` is the home folder of the operator also where no shell has replaced it. A
    user that the system does not know is left as it stands."""
    return Path(os.path.expanduser(text))
