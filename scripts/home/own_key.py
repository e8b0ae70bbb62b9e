"""Changes the password of a home's key, and copies the key for another program."""

import sys
from pathlib import Path

from touchstone.protocol.adapters.files.private_files import require_private_file
from touchstone.protocol.adapters.keys.keystore import change_keystore_password, copy_keystore, reveal_key
from touchstone.protocol.adapters.keys.passwords import read_new_password, read_password
from touchstone.protocol.spec.errors import Declined, InvalidInput
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.home_documents import KeysExportDocument, KeysPasswordDocument
from touchstone.scripts.home.home_config import read_config
from touchstone.scripts.home.home_files import CONFIG_FILE, KEYSTORE_FILE

DANGER = (
    "WARNING: whoever has the key has all money of the account. A second node with it signs other "
    "statements, and the stake is lost"
)


def change_own_password(
    home: Path, password_file: Path | None, new_file: Path | None, console: Console
) -> KeysPasswordDocument:
    """Encrypts the keystore of a home under a new password. Raises InvalidInput if the old one is wrong, or
    the new one is the same; the keystore is unchanged then."""
    path, configured = home / KEYSTORE_FILE, read_config(home).password_file
    password = _read_own_password(home, password_file)
    new = read_new_password(new_file, "New password: ")
    if new == password:
        raise InvalidInput(
            what="the new password is the old one",
            expected="another password",
            actual="the same",
            where=str(path),
            remedy="Choose another password. Nothing was changed.",
        )
    address = change_keystore_password(path, password, new).address
    console.notify(f"the keystore of {address} has the new password. Back up both again: {path}")
    if configured and (new_file is None or new_file.absolute() != Path(configured)):
        console.notify(
            f"WARNING: {CONFIG_FILE} names {configured}, which has the old password: put the new one into "
            "it, or the node cannot start by itself"
        )
    return KeysPasswordDocument(address, str(path))


def locate_own_key(home: Path, console: Console) -> KeysExportDocument:
    """Says where the keystore of a home is; wallets of Ethereum read the file as it is."""
    address, path = read_config(home).account, home / KEYSTORE_FILE
    require_private_file(path)
    console.notify(f"the encrypted key of {address} is {path}")
    return KeysExportDocument(address, str(path))


def export_own_key(
    home: Path, password_file: Path | None, out: Path, new_file: Path | None, console: Console
) -> KeysExportDocument:
    """Writes the key of a home into another keystore, under a password of its own. Raises InvalidInput if
    `out` exists or the password is wrong."""
    password = _read_own_password(home, password_file)
    new = read_new_password(new_file, f"Password for {out}: ")
    address = copy_keystore(home / KEYSTORE_FILE, out, password, new).address
    console.notify(f"the encrypted key of {address} is in {out}")
    console.notify(DANGER)
    return KeysExportDocument(address, str(out))


def show_own_key(home: Path, password_file: Path | None, console: Console) -> KeysExportDocument:
    """Shows the key itself at a terminal, after a question. Neither a log nor a JSON document gets it. Raises
    InvalidInput without a terminal, Declined if the operator does not agree."""
    # With --json standard output leads to standard error: that a person reads it is not certain.
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stdout is not sys.stderr):
        raise InvalidInput(
            what="the key itself is shown at a terminal alone",
            expected="a person at a terminal",
            actual="a pipe or a file",
            remedy="Write a keystore for the other program: touchstone keys export --out FILE.",
        )
    console.notify(DANGER)
    if not console.confirm("Show the key itself?"):
        raise Declined(
            what="the key was not shown",
            expected="your agreement",
            actual="none",
            remedy="Write a keystore for the other program: touchstone keys export --out FILE.",
        )
    address, text = reveal_key(home / KEYSTORE_FILE, _read_own_password(home, password_file))
    print(text)
    return KeysExportDocument(address, str(home / KEYSTORE_FILE))


def _read_own_password(home: Path, password_file: Path | None) -> str:
    """Returns the password from its file, the configured one, or a prompt."""
    configured = read_config(home).password_file
    return read_password(password_file or (Path(configured) if configured else None))
