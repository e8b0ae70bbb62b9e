"""Checks a home's own files: its configuration, its disk, its key."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from touchstone.protocol.adapters.files.private_files import require_private_file
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.command_line.command_errors import explain_disk
from touchstone.scripts.doctor.patient import NotTested, Patient
from touchstone.scripts.home.home_config import HomeConfig, read_config
from touchstone.scripts.home.home_files import KEYSTORE_FILE, has_key
from touchstone.scripts.home.home_folder import unlock_key


async def check_configuration(patient: Patient) -> str:
    """Checks that config.toml, and the environment variables that replace its keys, can be read."""
    patient.config = read_config(patient.home)
    return f"account {patient.config.account}"


async def check_writing(patient: Patient) -> str:
    """Checks that a file can be written in the home."""
    patient.get_config()
    with _disk_words():
        try_to_write(patient.home)
    return "a file was written and removed"


def try_to_write(folder: Path) -> None:
    """Makes and removes a file. Raises OSError if it cannot."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        file.write(b"x" * 4096)
        file.flush()


@contextmanager
def _disk_words() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain_disk(error) from error


async def check_key(patient: Patient) -> str:
    """Checks that the keystore and the password file are private, and that the password opens the
    keystore."""
    config = patient.get_config()
    if has_key(patient.home):
        require_private_file(patient.home / KEYSTORE_FILE)
    path = patient.password_file or (Path(config.password_file) if config.password_file else None)
    if path is None:
        raise NotTested("no password file is named: a node asks at its start")
    key = await asyncio.to_thread(unlock_key, patient.home, path)
    if key.address.lower() != config.account.lower():
        raise _other_keystore(config, key, patient)
    patient.key = key
    return "the password opens the keystore"


def _other_keystore(config: HomeConfig, key: AccountKey, patient: Patient) -> InvalidInput:
    return InvalidInput(
        what="the keystore is of another account than the configuration",
        expected=config.account,
        actual=key.address,
        where=str(patient.home / KEYSTORE_FILE),
        remedy="Put the right keystore back.",
    )
