"""Tells what a folder holds beside texts to train on: files about the data, and splits to measure on."""

import re
from collections.abc import Sequence
from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.file_kinds import Kind, get_kind_by_name

SHOWN = 5
"""The most names that an error shows."""
SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""The splits of a dataset, with the words that name them in a path."""
ABOUT = re.compile(
    r"readme([^a-z].*)?|(licen[sc]e|copying|notice|citation|authors|changelog|contributing"
    r"|dataset_infos?|dataset_dict)(\.[a-z]+)?"
)
"""Names of files that tell about a dataset."""


def find_reason(path: Path, *, has_data: bool) -> str:
    """Returns why a file of a folder is left out; empty if it is read. `has_data` says that Markdown lies
    beside files of data."""
    kind = get_kind_by_name(path)
    if kind in (None, Kind.TEXT) and ABOUT.fullmatch(path.name.lower()):
        return "about the data"
    return "Markdown beside other files" if has_data and is_markdown(path) else ""


def is_markdown(path: Path) -> bool:
    """Returns whether a file is Markdown by its name."""
    return path.suffix.lower() == ".md"


def find_split(path: Path) -> str:
    """Returns the split that a path below a folder names, nearest to its end; empty if it names none. A name
    of several splits is one to measure on."""
    for part in reversed(path.parts):
        words = set(re.findall(r"[a-z]+", part.lower()))
        found = [split for split, names in SPLITS.items() if words & set(names)]
        if found:
            return found[-1]
    return ""


def refuse_several_splits(folder: Path, paths: Sequence[Path]) -> None:
    """Raises InvalidInput if the files of a folder name several splits. Files that name none count as of any
    split."""
    splits = {path: find_split(path.relative_to(folder)) for path in paths}
    if len({split for split in splits.values() if split}) < 2:
        return
    others = [f"{path} ({split})" for path, split in splits.items() if split not in ("", "train")]
    raise InvalidInput(
        what="a folder holds several splits of a dataset",
        expected="files to train on",
        actual=show_names(others),
        where=str(folder),
        remedy="Name the files to train on. A file that is named singly is read, whatever its split.",
    )


def show_names(names: Sequence[str]) -> str:
    """Returns the first names, and how many more there are."""
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
