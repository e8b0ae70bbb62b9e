"""Lists the files that are packed, each with what it holds."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.dataset_splits import (
    find_reason,
    is_markdown,
    refuse_several_splits,
    show_names,
)
from touchstone.scripts.data.file_kinds import (
    ENDINGS,
    Kind,
    check_kind,
    find_file_compression,
    get_kind_by_name,
)

AS = "Say what it is with --as text, --as jsonl or --as parquet, or leave it out."


@dataclass(frozen=True)
class InputFile:
    """A file, and what its documents are."""

    path: Path
    kind: Kind


@dataclass(frozen=True)
class Inputs:
    """The files to read, in order, and those of folders that are left out, with the reason."""

    files: Sequence[InputFile]
    left_out: Sequence[tuple[Path, str]] = ()


def list_inputs(inputs: Iterable[Path], read_as: Kind | None = None) -> Inputs:
    """Returns the files, and those in the folders, by name, without hidden ones. `read_as` is the kind of all
    files, whatever their names. Raises InvalidInput if a path does not exist, if there is no file at all, if
    a folder holds several splits, or if a file is of no kind that is read."""
    given = list(inputs)
    singly = {path.resolve() for path in given if path.is_file()}
    paths: list[Path] = []
    left_out: list[tuple[Path, str]] = []
    for path in given:
        if path.is_dir():
            inside, left = _list_folder(path, singly, read_as)
            paths, left_out = [*paths, *inside], [*left_out, *left]
        elif path.is_file():
            paths.append(path)
        else:
            raise _refuse("an input is not there", "a file or a folder", "nothing", str(path))
    if not paths:
        actual = show_names([f"{path} ({reason})" for path, reason in left_out]) or "none"
        raise _refuse("there is nothing to read", "one file or more", actual, ", ".join(map(str, given)))
    return Inputs(_find_kinds(paths, read_as), left_out)


def _list_folder(
    folder: Path, singly: Collection[Path], read_as: Kind | None
) -> tuple[list[Path], list[tuple[Path, str]]]:
    """Returns the files of a folder that are not named singly, and those that are left out."""
    inside = (one for one in sorted(folder.rglob("*")) if one.is_file())
    paths = [one for one in inside if not _is_hidden(one.relative_to(folder)) and one.resolve() not in singly]
    read = [one for one in paths if not find_reason(one, has_data=False)]
    has_data = read_as is None and not all(map(is_markdown, read))
    reasons = [(one, find_reason(one, has_data=has_data)) for one in paths]
    read = [path for path, reason in reasons if not reason]
    refuse_several_splits(folder, read)
    return read, [(path, reason) for path, reason in reasons if reason]


def _find_kinds(paths: Sequence[Path], read_as: Kind | None) -> list[InputFile]:
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


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _refuse(
    what: str,
    expected: str,
    actual: str,
    where: str = "",
    remedy: str = "Correct the input, or leave it out.",
) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, where=where, remedy=remedy)
