"""Defines types of options: paths, numbers of a range, amounts, addresses, URLs."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.command_line.typed_amounts import parse_tokens
from touchstone.scripts.command_line.typed_input import read_path

MAX_SHOWN_CHARACTERS = 40
MAX_SHOWN_PATH = 200


class TypedPath(click.Path):
    """A path as `read_path` reads it. A shell completes the names of files and folders."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Returns the path, whether or not the file exists."""
        return read_path(str(value))


class ExistingPath(TypedPath):
    """A path of a file or a folder that must be there. A default is not checked: a command may not need it,
    and who reads it says what is missing."""

    def __init__(self, *, is_file: bool = True, is_folder: bool = True) -> None:
        super().__init__(file_okay=is_file, dir_okay=is_folder)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Returns the path. Fails if nothing is there, or a file in place of a folder. A folder that may not
        be searched is left to who opens the file."""
        path = read_path(str(value))
        name = "" if param is None else str(param.name)
        if ctx is not None and ctx.get_parameter_source(name) is ParameterSource.DEFAULT:
            return path
        kinds = [name for name, is_one in (("file", self.file_okay), ("folder", self.dir_okay)) if is_one]
        with suppress(OSError):
            if not path.exists():
                self.fail(f"there is no {' or '.join(kinds)} {_shorten(str(path))}", param, ctx)
            if not (self.dir_okay if path.is_dir() else self.file_okay):
                found = "folder" if path.is_dir() else "file"
                self.fail(f"expected a {kinds[0]}, got the {found} {_shorten(str(path))}", param, ctx)
        return path


class Number(click.ParamType[int | float]):
    """A number from `least` to `most`, both included. With `kind` int, only whole numbers."""

    name = "number"

    def __init__(self, least: int, most: int, kind: type[int] | type[float] = int) -> None:
        self.least, self.most, self.kind = least, most, kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """Returns the number. Fails for any other text, and shows it unless it is long."""
        with suppress(ValueError):
            number = self.kind(value)
            if self.least <= number <= self.most:
                return number
        what = "a whole number" if self.kind is int else "a number"
        shown = value if len(value) <= MAX_SHOWN_CHARACTERS else f"{len(value)} characters"
        self.fail(f"expected {what} from {self.least} to {self.most}, got {shown!r}", param, ctx)


class Amount(click.ParamType[int]):
    """An amount of whole tokens, as an operator types it."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the amount in wei."""
        if isinstance(value, int):
            return value
        try:
            return parse_tokens(value)
        except InvalidInput as error:
            self.fail(f"expected {error.expected} (whole tokens, not wei), got {error.actual}", param, ctx)


class Address(click.ParamType[str]):
    """An address of an account."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the address as it was typed."""
        if not re.fullmatch("0x[0-9a-fA-F]{40}", str(value)):
            self.fail(f"expected 0x and 40 hexadecimal digits, got {_shorten(str(value))!r}", param, ctx)
        return str(value)


class Url(click.ParamType[str]):
    """A URL of a server. A wrong one is not shown, because it may hold the key of a provider."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the URL as it was typed."""
        with suppress(ValueError):
            place = urlsplit(str(value))
            # A port that can be none raises ValueError.
            if place.scheme in ("http", "https") and place.hostname and place.port != 0:
                return str(value)
        self.fail("expected http:// or https://, a host, and perhaps a port", param, ctx)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_PATH else f"...{text[-MAX_SHOWN_PATH:]}"


PATH = TypedPath()
FILE = ExistingPath(is_folder=False)
FOLDER = ExistingPath(is_file=False)
FILE_OR_FOLDER = ExistingPath()
AMOUNT, ADDRESS, URL = Amount(), Address(), Url()
PORT = Number(0, 65_535)
COUNT = Number(1, 2**31 - 1)
"""A count of at least one."""
NUMBER = Number(0, 2**31 - 1)
"""A number from 0 on, or a count for which 0 has a special meaning."""
