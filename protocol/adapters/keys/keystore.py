"""Reads and writes keys in encrypted files.

Keystores are the Ethereum ones (Web3 Secret Storage, version 3), so that a wallet reads them too.
"""

import json
import re
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_keys.constants import SECPK1_N

from touchstone.protocol.adapters.files.private_files import (
    replace_private_file,
    require_private_file,
    write_private_file,
)
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import InvalidInput

SCRYPT_WORK_FACTOR = 1 << 18
"""The N of scrypt: about a second and 256 MiB for each guess of a password."""
DEVNET_SCRYPT_WORK_FACTOR = 1 << 10
"""The N of scrypt for play money, where a demo starts a dozen nodes at once."""
MAX_KEYSTORE_BYTES = 16 * 1024
_BARE_KEY = re.compile(rb"[0-9a-fA-F]{64}")


def create_keystore(path: Path, password: str) -> AccountKey:
    """Makes a new key and writes it encrypted to `path` (mode 0600). Raises InvalidInput if `path` exists,
    because a key is never overwritten."""
    return _write_keystore(path, Account.create(), password, SCRYPT_WORK_FACTOR)


def create_devnet_keystore(path: Path, password: str) -> AccountKey:
    """Does the same as create_keystore, with a key derivation that is too weak for real money: for local
    chains only."""
    return _write_keystore(path, Account.create(), password, DEVNET_SCRYPT_WORK_FACTOR)


def load_keystore(path: Path, password: str) -> AccountKey:
    """Returns the key in the keystore at `path`. Raises InvalidInput if the file is missing, open to others
    or malformed, or the password is wrong."""
    require_private_file(path)
    try:
        text = path.read_bytes()[:MAX_KEYSTORE_BYTES]
        return AccountKey(Account.from_key(Account.decrypt(json.loads(text), password)))
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        # The cause is not chained, because a library's message may quote its input.
        raise InvalidInput(
            what="the keystore does not open",
            expected="a version 3 keystore and its password",
            actual=_describe_reason(error),
            where=str(path),
            remedy="Check the path and the password.",
        ) from None


def is_keystore(path: Path) -> bool:
    """Returns whether a file looks like a keystore, and not like a bare key. Raises InvalidInput if it is
    absent, or open to others."""
    require_private_file(path)
    with path.open("rb") as file:
        return file.read(MAX_KEYSTORE_BYTES).lstrip().startswith(b"{")


def import_keystore(source: Path, path: Path, password: str, *, is_devnet: bool = False) -> AccountKey:
    """Writes the key of another file encrypted to `path`. `source` is a keystore that `password` opens, or a
    file with the bare key as 64 hexadecimal digits. `is_devnet` weakens the encryption as
    create_devnet_keystore does. Raises InvalidInput as load_keystore does, and if the file holds no key or
    `path` exists; the message shows no contents."""
    account = load_keystore(source, password)._account if is_keystore(source) else _read_bare_key(source)
    work_factor = DEVNET_SCRYPT_WORK_FACTOR if is_devnet else SCRYPT_WORK_FACTOR
    return _write_keystore(path, account, password, work_factor)


def change_keystore_password(path: Path, password: str, new: str) -> AccountKey:
    """Encrypts the keystore at `path` under a new password, and returns its key. The file is replaced whole
    or not at all, once the new password has opened its text. Raises InvalidInput as load_keystore does, or if
    the new password is empty."""
    key = load_keystore(path, password)
    text = _encrypt(key._account, new, _choose_work_factor(path))
    Account.decrypt(json.loads(text), new)
    replace_private_file(path, text)
    return key


def copy_keystore(path: Path, out: Path, password: str, new: str) -> AccountKey:
    """Writes the key of a keystore encrypted under the password `new` to `out`, and returns it. Raises
    InvalidInput as load_keystore does, or if `out` exists or the new password is empty."""
    key = load_keystore(path, password)
    return _write_keystore(out, key._account, new, _choose_work_factor(path))


def reveal_key(path: Path, password: str) -> tuple[str, str]:
    """Returns the address of a keystore, and its key itself as 64 hexadecimal digits, for a person who has
    asked for it. Raises InvalidInput as load_keystore does."""
    account = load_keystore(path, password)._account
    return str(account.address), bytes(account.key).hex()


def _choose_work_factor(path: Path) -> int:
    """Returns the N of scrypt for a new text of a keystore: weak for one of a test network alone."""
    found = {name.lower(): part for name, part in json.loads(path.read_bytes()).items()}
    factor = found["crypto"].get("kdfparams", {}).get("n")
    return DEVNET_SCRYPT_WORK_FACTOR if factor == DEVNET_SCRYPT_WORK_FACTOR else SCRYPT_WORK_FACTOR


def _read_bare_key(path: Path) -> LocalAccount:
    with path.open("rb") as file:
        text = file.read(MAX_KEYSTORE_BYTES).strip().removeprefix(b"0x")
    number = int(text, 16) if _BARE_KEY.fullmatch(text) else 0
    if not 0 < number < SECPK1_N:
        raise InvalidInput(
            what="this file holds no key",
            expected="64 hexadecimal digits of a key of secp256k1, or a keystore",
            actual="something else",
            where=str(path),
            remedy="Name another file.",
        )
    account: LocalAccount = Account.from_key(number.to_bytes(32, "big"))
    return account


def _write_keystore(path: Path, account: LocalAccount, password: str, work_factor: int) -> AccountKey:
    write_private_file(path, _encrypt(account, password, work_factor))
    return AccountKey(account)


def _encrypt(account: LocalAccount, password: str, work_factor: int) -> bytes:
    if not password:
        raise InvalidInput(
            what="a keystore needs a password",
            expected="one character or more",
            actual="none",
            remedy="Choose a password.",
        )
    # Name the key derivation: eth-account would otherwise take it from an environment variable.
    encrypted = Account.encrypt(account.key, password, kdf="scrypt", iterations=work_factor)
    return json.dumps(encrypted).encode()


def _describe_reason(error: Exception) -> str:
    return "another password" if "MAC mismatch" in str(error) else f"{type(error).__name__} while reading it"
