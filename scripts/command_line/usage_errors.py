"""Says in one line or two what is wrong with a typed command."""

import sys

import click

from touchstone.scripts.command_line.command_guesses import UnknownCommand

MAX_SHOWN_CHARACTERS = 400


def print_usage_error(error: click.UsageError) -> None:
    """Prints what is wrong and what to do, to standard error: of an unknown command which one is meant. The
    input may be a whole file with control characters, so it is shortened and escaped."""
    said = error.format_message()
    said = said if len(said) <= MAX_SHOWN_CHARACTERS else f"{said[:MAX_SHOWN_CHARACTERS]}..."
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in said)
    if isinstance(error, UnknownCommand):
        print(shown, file=sys.stderr)
        return
    path = "touchstone" if error.ctx is None else error.ctx.command_path
    print(f"error:    {shown}\ndo:       See `{path} --help`.", file=sys.stderr)
