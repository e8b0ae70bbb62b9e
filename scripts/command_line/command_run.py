"""Runs a command: opens its output and its log, and ends it with a document and an exit status."""

import sys
import time
import traceback
from functools import partial
from typing import Any

import click
from msgspec.structs import asdict

from touchstone.protocol.spec.errors import EnvironmentFault, TouchstoneError
from touchstone.scripts.command_line.command_errors import (
    ExitCode,
    NotNeeded,
    describe_error,
    explain_bug,
    explain_disk,
    is_of_disk,
    render_error,
)
from touchstone.scripts.command_line.command_guesses import UnknownCommand, explain_unknown
from touchstone.scripts.command_line.command_names import ALIASES, SECTIONS
from touchstone.scripts.command_line.command_results import FaultFound, JsonOutput, open_output
from touchstone.scripts.command_line.json_log import make_line
from touchstone.scripts.command_line.log_lines import open_logs

STOPPED = EnvironmentFault(
    what="stopped", expected="the end of the command", actual="an interrupt", remedy="Run it again."
)

MAX_SHORT_HELP = 1000
"""The help wraps what it says of a command, and cuts nothing off."""


class Command(click.Command):
    """A command of touchstone, with an example under its help. Its function returns the document of the
    result. If it goes on running, it returns None, and passes the document to the `JsonOutput` of
    `click.pass_obj`."""

    def __init__(self, name: str, *, example: str, **settings: Any) -> None:
        super().__init__(name, epilog=f"\b\nExample:\n  {example}", **settings)
        self.example = example
        self.short_help = " ".join((self.help or "").split())
        self.params += [
            click.Option(
                ["--json", "is_json"], is_flag=True, help="one JSON object on standard output, no more"
            ),
            click.Option(["--debug", "is_debug"], is_flag=True, help="show the traceback of an error"),
        ]

    def invoke(self, ctx: click.Context) -> int:
        """Runs the function; returns the exit status. Errors are printed, not raised."""
        is_json, is_debug = ctx.params.pop("is_json"), ctx.params.pop("is_debug")
        level, path = ctx.params.pop("log_level", None), ctx.params.pop("log_file", None)
        form = ctx.params.pop("log_format", "text")
        with open_output(is_json=is_json) as output:
            ctx.obj = output
            fail = partial(_fail, output=output, is_debug=is_debug, is_logged=form == "json")
            try:
                with open_logs(level, path, is_debug=is_debug, is_json=form == "json"):
                    found = super().invoke(ctx)
                    is_fault = isinstance(found, FaultFound)
                    document = found.document if is_fault else found
                    if document is not None:
                        output.put(document)
                    return ExitCode.FOUND if is_fault else ExitCode.DONE
            except TouchstoneError as error:
                status = ExitCode.NOT_NEEDED if isinstance(error, NotNeeded) else ExitCode.REFUSED
                return fail(error, status)
            except KeyboardInterrupt:
                return fail(STOPPED, ExitCode.INTERRUPTED)
            except click.UsageError:
                raise
            except Exception as error:
                if isinstance(error, OSError) and is_of_disk(error):
                    return fail(explain_disk(error), ExitCode.REFUSED)
                return fail(explain_bug(error), ExitCode.BUG)


class Group(click.Group):
    """Commands that begin with the same word, in the order in which they were added."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the commands."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the name of the typed command, the command, and the words after it. Raises UnknownCommand,
        which says what is meant."""
        name = args[0]
        if name in self.commands or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        before = ctx.command_path.partition(" ")[2]
        raise UnknownCommand(explain_unknown(args, self.commands, before), ctx)


class RootGroup(Group):
    """The command `touchstone`: the help has headings, and some commands have a second name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Does the same as that of a group. A second name is told as one on standard error."""
        name = args[0]
        if name in ALIASES and name not in self.commands and not ctx.resilient_parsing:
            known, note = ALIASES[name]
            more = f". {note}" if note else ""
            print(f"touchstone {name} is touchstone {known}{more}", file=sys.stderr)
            args = [known, *args[1:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands under their headings. Without one they come last."""
        listed = {name for names in SECTIONS.values() for name in names}
        other = tuple(name for name in self.commands if name not in listed)
        longest = max(map(len, self.commands))
        for heading, names in {**SECTIONS, "Other": other}.items():
            rows = [
                (name.ljust(longest), self.commands[name].get_short_help_str(MAX_SHORT_HELP))
                for name in names
                if name in self.commands
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def _fail(
    error: TouchstoneError, status: ExitCode, *, output: JsonOutput, is_debug: bool, is_logged: bool
) -> int:
    """Says an error in four lines, or in one JSON object if the log is JSON."""
    trace = {"traceback": traceback.format_exc()} if is_debug else {}
    document = describe_error(error, status)
    if is_logged:
        facts: dict[str, object] = {} if error is STOPPED else {"error": asdict(document.error)}
        level = "INFO" if error is STOPPED else "ERROR"
        print(make_line(time.time(), level, error.what, {**facts, **trace}), file=sys.stderr)
    else:
        print(*trace.values(), sep="", end="", file=sys.stderr)
        print(STOPPED.what if error is STOPPED else render_error(error), file=sys.stderr)
    output.put(document)
    return status
