"""Defines types of options: paths, and numbers of a range."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from touchstone.scripts.command_line.typed_input import read_path

MAX_SHOWN_CHARACTERS = 40


class TypedPath(click.Path):
    """A path as `read_path` reads it. A shell completes the names of files and folders."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Returns the path, whether or not the file exists."""
        return read_path(str(value))


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


PATH = TypedPath()
PORT = Number(0, 65_535)
COUNT = Number(1, 2**31 - 1)
"""A count of at least one."""
NUMBER = Number(0, 2**31 - 1)
"""A number from 0 on, or a count for which 0 has a special meaning."""
