"""The commands as they are declared, and what a command line comes to before anything runs."""

import io
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import click

from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.touchstone import cli, main


def _walk(group: click.Group, before: tuple[str, ...]) -> Iterator[tuple[str, Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _walk(command, (*before, name))
        else:
            assert isinstance(command, Command)
            yield " ".join((*before, name)), command


COMMANDS = dict(_walk(cli, ()))
"""By their words: `task create`."""


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The words of the command that is typed, and its parameters."""
    command: click.Command = cli
    path, rest = list[str](), list(arguments)
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(click.Context(command), rest)
        assert name is not None and found is not None
        path, command = [*path, name], found
    return " ".join(path), command.make_context(path[-1], rest).params


def run(*arguments: str) -> tuple[int, str, str]:
    """The exit status of a command, and what it writes to its two outputs."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(arguments)
        except SystemExit as exit:
            status = exit.code if isinstance(exit.code, int) else 1
    return status, out.getvalue(), err.getvalue()
