"""Makes a party's home folder: its keystore, its TLS certificate, its configuration."""

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from touchstone.protocol.adapters.files.private_files import replace_private_file
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.keystore import (
    create_devnet_keystore,
    create_keystore,
    import_keystore,
    load_keystore,
)
from touchstone.protocol.adapters.keys.passwords import read_password
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.home.config_keys import render_config
from touchstone.scripts.home.home_config import TABLES, HomeConfig, read_config
from touchstone.scripts.home.home_files import (
    CONFIG_FILE,
    KEYSTORE_FILE,
    LEFT_FILE,
    has_key,
    is_whole,
    require_folder,
)


def create_home(
    home: Path, config: HomeConfig, password: str, *, is_devnet: bool, key_file: Path | None = None
) -> AccountKey:
    """Makes keystore, certificate and configuration in `home`. A key is never overwritten: a home with a key
    but no configuration is completed, if the password is right. Raises InvalidInput if the home is complete.
    `is_devnet` uses a quick key derivation, for play money only. `key_file` is a keystore that the password
    opens, or a bare key, to use instead of a new one; a home that has a key refuses it."""
    refuse_whole(home)
    create = create_devnet_keystore if is_devnet else create_keystore
    if key_file is not None:
        key = import_keystore(key_file, home / KEYSTORE_FILE, password, is_devnet=is_devnet)
    else:
        key = (load_keystore if has_key(home) else create)(home / KEYSTORE_FILE, password)
    load_or_create_identity(home)
    values = structs.asdict(structs.replace(config, account=key.address))
    text = render_config({name: value for name, value in values.items() if name not in TABLES})
    replace_private_file(home / CONFIG_FILE, text.encode())
    return key


def list_left(home: Path) -> set[str]:
    """Returns the ids of the tasks that this home's node has left for good, 64 digits each, and ignores other
    lines. Raises OSError if the file cannot be read, because a stake would be locked again."""
    with suppress(FileNotFoundError):
        return {one.decode() for one in re.findall(rb"\b[0-9a-f]{64}\b", (home / LEFT_FILE).read_bytes())}
    return set()


def note_left(home: Path, task: bytes, *, is_left: bool = True) -> None:
    """Writes down whether the node leaves a task for good. Two commands at once lose nothing."""
    handle = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        left = list_left(home)
        if (task.hex() in left) != is_left:
            lines = sorted(left ^ {task.hex()})
            replace_private_file(home / LEFT_FILE, "".join(f"{one}\n" for one in lines).encode())
    finally:
        os.close(handle)


def refuse_whole(home: Path) -> None:
    """Raises InvalidInput if a home is already complete, or if its path cannot become a home."""
    require_folder(home)
    if is_whole(home):
        raise InvalidInput(
            what="this home exists already",
            expected=f"a folder without {KEYSTORE_FILE} and {CONFIG_FILE}",
            actual="both are there",
            where=str(home),
            remedy="Use it as it is, or choose another --home.",
        )


def unlock_key(home: Path, password_file: Path | None = None) -> AccountKey:
    """Returns the key of `home`, unlocked by `password_file`, the configured one, or a prompt. Raises
    InvalidInput if there is no key, or the password is wrong."""
    configured = read_config(home).password_file
    path = password_file or (Path(configured) if configured else None)
    if not has_key(home):
        raise InvalidInput(
            what="this home has no key",
            expected=KEYSTORE_FILE,
            actual="no such file",
            where=str(home),
            remedy=f"Put it back; or `touchstone init` makes a new key and writes {CONFIG_FILE} again.",
        )
    return load_keystore(home / KEYSTORE_FILE, read_password(path))
