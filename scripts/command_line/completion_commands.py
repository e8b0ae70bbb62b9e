"""`touchstone completion`: writes a script by which bash, zsh or fish completes commands."""

import sys
from typing import get_args

import click
from click.shell_completion import get_completion_class

from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.documents.home_documents import CompletionDocument, Shell

SHELLS = get_args(Shell)
VARIABLE = "_TOUCHSTONE_COMPLETE"
"""The variable by which the script asks `touchstone` for completions; click reads it."""


@click.command("completion", cls=Command, example="touchstone completion bash")
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL", help="whose script")
@click.pass_context
def completion(context: click.Context, shell: Shell) -> CompletionDocument:
    """Write a script by which bash, zsh or fish completes commands and options."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    script = kind(context.find_root().command, {}, "touchstone", VARIABLE).source()
    sys.stdout.write(script)
    return CompletionDocument(shell, script)
