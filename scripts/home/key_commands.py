"""The commands about the key of a home: a new password, and the key for another program."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.scripts.command_line.command_run import Group
from touchstone.scripts.command_line.option_types import FILE, PATH
from touchstone.scripts.command_line.shared_options import with_unlocked_home

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.home_documents import KeysExportDocument, KeysPasswordDocument


@click.group("keys", cls=Group)
def keys() -> None:
    """The key of a home: its password, and a copy for another program."""


@keys.command("password", example="touchstone keys password --home ~/alice")
@click.option(
    "--new-password-file",
    type=FILE,
    help="file with the new password, mode 0600; left out: you type it twice",
)
@with_unlocked_home
def password(
    new_password_file: Path | None, home: Path, password_file: Path | None
) -> "KeysPasswordDocument":
    """Give the keystore of a home a new password; the key stays the same."""
    from touchstone.scripts.command_line.console import Console
    from touchstone.scripts.home.own_key import change_own_password

    return change_own_password(home, password_file, new_password_file, Console())


@keys.command("export", example="touchstone keys export --out keystore.json --home ~/alice")
@click.option("--out", type=PATH, help="keystore to write, under a password of its own")
@click.option(
    "--new-password-file",
    type=FILE,
    help="file with the password of that keystore, mode 0600; left out: you type it twice",
)
@click.option(
    "--plain", "is_plain", is_flag=True, help="show the key itself, at a terminal and after a question"
)
@with_unlocked_home
@click.pass_context
def export(
    context: click.Context,
    out: Path | None,
    new_password_file: Path | None,
    is_plain: bool,
    home: Path,
    password_file: Path | None,
) -> "KeysExportDocument":
    """Say where the keystore of a home lies, or write its key into another keystore."""
    from touchstone.scripts.command_line.console import Console
    from touchstone.scripts.home.own_key import export_own_key, locate_own_key, show_own_key

    if is_plain and out is not None:
        raise click.UsageError("Give --out or --plain: no file gets the key itself.", context)
    if out is not None:
        return export_own_key(home, password_file, out, new_password_file, Console())
    if is_plain:
        return show_own_key(home, password_file, Console())
    return locate_own_key(home, Console())
