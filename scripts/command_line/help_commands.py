"""The commands that explain the others, and that say which version is installed."""

from importlib.metadata import version as read_version
from typing import TYPE_CHECKING

import click

from touchstone.protocol.spec.params import PROTOCOL_VERSION
from touchstone.scripts.command_line.command_run import Command

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.home_documents import HelpDocument, VersionDocument


@click.command("help", cls=Command, example="touchstone help task create")
@click.argument(
    "words",
    nargs=-1,
    metavar="[COMMAND]",
    help="a command, such as solve or task create; left out: all commands",
)
@click.pass_context
def show_help(context: click.Context, words: tuple[str, ...]) -> "HelpDocument":
    """Explain a command, as its --help does."""
    from touchstone.scripts.documents.home_documents import HelpDocument

    context = context.find_root()
    rest = list(words)
    while rest:
        if not isinstance(context.command, click.Group):
            raise click.UsageError(f"{context.command_path} has no further command.", context)
        name, command, rest = context.command.resolve_command(context, rest)
        assert name is not None and command is not None
        context = click.Context(command, context, name, **command.context_settings)
    text = context.get_help()
    click.echo(text)
    return HelpDocument(context.command_path, text)


@click.command("version", cls=Command, example="touchstone version")
def version() -> "VersionDocument":
    """Say which version of Touchstone is installed."""
    from touchstone.scripts.documents.home_documents import VersionDocument

    installed = read_version("touchstone")
    click.echo(f"touchstone {installed}")
    return VersionDocument(installed, PROTOCOL_VERSION)
