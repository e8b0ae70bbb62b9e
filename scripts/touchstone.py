"""The `touchstone` command: runs one of the subcommands of the table.

Each subcommand names the function that does it, imported only when it runs: `--help` must not wait for torch.
"""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import Any

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
from touchstone.scripts.command_line.command_form import Command, Option
from touchstone.scripts.command_line.command_results import Document, JsonOutput, open_output
from touchstone.scripts.command_line.command_table import COMMANDS, GROUPS
from touchstone.scripts.command_line.log_lines import open_logs
from touchstone.scripts.command_line.typed_input import read_path

DEFAULT_HOME = "~/.touchstone"
STOPPED = EnvironmentFault(
    what="stopped", expected="the end of the command", actual="an interrupt", remedy="Run it again."
)
Act = Callable[[argparse.Namespace], Document | None]


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="touchstone",
        description="Strangers train one model together; cheats are caught, convicted on chain and slashed.",
        epilog="Example: touchstone devnet --port 8545",
    )
    parser.add_argument("--version", action="version", version=f"touchstone {find_version()}")
    groups = {"": parser.add_subparsers(required=True, metavar="COMMAND")}
    for command in COMMANDS:
        *path, name = command.words.split()
        group = _find_group(groups, " ".join(path))
        _add_command(group, name, command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; return the exit status (`ExitCode`)."""
    options = make_parser().parse_args(arguments)
    options.home = options.home if getattr(options, "home", None) else find_home()
    _hear_signals()
    with open_output(is_json=options.json) as output:
        return _run(options, output)


def _run(options: argparse.Namespace, output: JsonOutput) -> int:
    level, path = getattr(options, "log_level", None), getattr(options, "log_file", None)
    try:
        with open_logs(level, path, is_debug=options.debug):
            options.put = output.put
            if options.first:
                resolve_name(options.first)(options)
            act: Act = resolve_name(options.act)
            document = act(options)
            if document is not None:
                output.put(document)
    except TouchstoneError as error:
        refused = ExitCode.NOT_NEEDED if isinstance(error, NotNeeded) else ExitCode.REFUSED
        return _fail(error, refused, options, output)
    except KeyboardInterrupt:
        return _fail(STOPPED, ExitCode.INTERRUPTED, options, output)
    except Exception as error:
        if isinstance(error, OSError) and is_of_disk(error):
            return _fail(explain_disk(error), ExitCode.REFUSED, options, output)
        return _fail(explain_bug(error), ExitCode.BUG, options, output)
    status: int = getattr(options, "exit_status", ExitCode.DONE)
    return status


def find_version() -> str:
    """The version of the installed package."""
    try:
        return version("touchstone")
    except PackageNotFoundError:
        return "of a checkout that is not installed"


def find_home() -> Path:
    """$TOUCHSTONE_HOME, else ~/.touchstone."""
    return read_path(os.environ.get("TOUCHSTONE_HOME", DEFAULT_HOME))


def _fail(error: TouchstoneError, status: int, options: argparse.Namespace, output: JsonOutput) -> int:
    if options.debug:
        traceback.print_exc()
    print(STOPPED.what if error is STOPPED else render_error(error), file=sys.stderr)
    output.put(describe_error(error, status))
    return status


def _hear_signals() -> None:
    """Asked to end, end as with Ctrl-C: children are stopped and files closed. A script's shell has a command
    in the background ignore SIGINT: it goes on doing so, but asyncio has to know how to be interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """SIGTERM does what SIGINT does, even where that is blocked: asyncio takes it between two callbacks, so
    nothing is left half done and nothing is printed."""
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


def _find_group(groups: dict[str, Any], path: str) -> Any:
    if path not in groups:
        parser = groups[""].add_parser(
            path, help=GROUPS[path], description=GROUPS[path].capitalize().split(":")[0] + "."
        )
        groups[path] = parser.add_subparsers(required=True, metavar="COMMAND")
    return groups[path]


def _tell_default(option: Option) -> str:
    """What an option is where it is left out, unless that is nothing."""
    default = option.settings.get("default")
    return "" if default in (None, "", []) else f" (default: {default})"


def _add_command(group: Any, name: str, command: Command) -> None:
    parser = group.add_parser(
        name,
        # A slip must not be taken for another option.
        allow_abbrev=False,
        help=command.summary,
        description=command.summary[0].upper() + command.summary[1:] + ".",
        epilog=f"Example:\n  {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option in command.options:
        parser.add_argument(option.name, help=option.help + _tell_default(option), **option.settings)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, no more")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(act=command.act, first=command.first)


if __name__ == "__main__":
    sys.exit(main())
