"""Lists the files that are packed, each with what it holds."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.file_kinds import (
    ENDINGS,
    Kind,
    check_kind,
    find_file_compression,
    get_kind_by_name,
)

SHOWN = 5
"""The most names that an error shows."""
AS = "Say what it is with --as text, --as jsonl or --as parquet, or leave it out."


@dataclass(frozen=True)
class InputFile:
    """A file, and what its documents are."""

    path: Path
    kind: Kind


def list_inputs(inputs: Iterable[Path], read_as: Kind | None = None) -> list[InputFile]:
    """Returns the files, and those in the folders, by name, without hidden ones. `read_as` is the kind of all
    files, whatever their names. Raises InvalidInput if a path does not exist, if there is no file at all, or
    if a file is of no kind that is read."""
    paths = _list_paths(list(inputs))
    kinds = [(path, read_as or get_kind_by_name(path)) for path in paths]
    for path in paths:
        find_file_compression(path)
    unknown = [str(path) for path, kind in kinds if kind is None]
    if unknown:
        endings = f"a name that ends in {', '.join(ENDINGS)}, or so with .gz, .bz2 or .xz behind"
        raise _refuse("the kind of an input is not known", endings, show_names(unknown), remedy=AS)
    files = [InputFile(path, kind) for path, kind in kinds if kind is not None]
    for file in files:
        check_kind(file.path, file.kind, is_chosen=read_as is not None)
    return files


def _list_paths(inputs: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in inputs:
        if path.is_dir():
            inside = (one for one in sorted(path.rglob("*")) if one.is_file())
            found += [one for one in inside if not _is_hidden(one.relative_to(path))]
        elif path.is_file():
            found.append(path)
        else:
            raise _refuse("an input is not there", "a file or a folder", "nothing", str(path))
    if not found:
        raise _refuse("there is nothing to read", "one file or more", "none", ", ".join(map(str, inputs)))
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def show_names(names: list[str]) -> str:
    """Returns the first names, and how many more there are."""
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _refuse(
    what: str,
    expected: str,
    actual: str,
    where: str = "",
    remedy: str = "Correct the input, or leave it out.",
) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, where=where, remedy=remedy)
