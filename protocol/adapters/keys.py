"""The staked key, which is never shown; signing statements, and finding out who signed one (EIP-712).

Keystores are the Ethereum ones (Web3 Secret Storage, version 3), so that a wallet reads them too. A password
comes from a prompt or from a file that only its owner may read, never from an argument or the environment:
other users see both.

Whatever is no transaction is signed here, and who signed it is found here, and nowhere else.

A signature has one form: the 64 bytes r || vs of EIP-2098, where the highest bit of vs says which of two keys
it is, and s is the lower of the two that would do. So there is one string of bytes for one signature, nothing
of variable length to decode on chain, and two words of calldata instead of five.
"""

import getpass
import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from eth_account import Account
from eth_account.datastructures import SignedTransaction
from eth_account.messages import SignableMessage, encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_keys.constants import SECPK1_N
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from touchstone.protocol.adapters.files import require_private_file, write_private_file
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.statements import NodeStatement, SigningDomain, Statement, to_typed_data

SCRYPT_WORK_FACTOR = 1 << 18
"""N of scrypt: about a second and 256 MiB for each guess of a password."""
DEVNET_SCRYPT_WORK_FACTOR = 1 << 10
"""N where the money is play money and a demo starts a dozen nodes at once."""
MAX_KEYSTORE_BYTES = 16 * 1024
_BARE_KEY = re.compile(rb"[0-9a-fA-F]{64}")


class AccountKey:
    """A private key that signs for its owner. No method, no repr and no pickle gives the key away."""

    __slots__ = ("_account",)

    def __init__(self, account: LocalAccount) -> None:
        self._account = account

    @property
    def address(self) -> str:
        """The account's address with checksum."""
        return str(self._account.address)

    def sign_transaction(self, transaction: Mapping[str, Any]) -> SignedTransaction:
        """The transaction with its signature and hash, ready for `eth_sendRawTransaction`. It carries its
        nonce and chain id."""
        return self._account.sign_transaction(dict(transaction))

    def sign_typed_data(self, data: Mapping[str, Any]) -> bytes:
        """The 65-byte signature (r, s, v) of an EIP-712 object. `keys.py` alone asks for it."""
        return bytes(self._account.sign_typed_data(full_message=dict(data)).signature)

    def __repr__(self) -> str:
        return f"AccountKey({self.address})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            what="a key does not leave its process",
            expected="the path of a keystore",
            actual=repr(self),
            remedy="Load the keystore in the other process.",
        )


def create_keystore(path: Path, password: str) -> AccountKey:
    """Make a fresh key and keep it encrypted at `path` (mode 0600). Raises InvalidInput when `path` exists:
    a key is never overwritten."""
    return _write_keystore(path, Account.create(), password, SCRYPT_WORK_FACTOR)


def create_devnet_keystore(path: Path, password: str) -> AccountKey:
    """As create_keystore, with a key derivation too weak for real money: for local chains only."""
    return _write_keystore(path, Account.create(), password, DEVNET_SCRYPT_WORK_FACTOR)


def load_keystore(path: Path, password: str) -> AccountKey:
    """The key in the keystore at `path`. Raises InvalidInput when it is absent, open to others, malformed, or
    the password is wrong."""
    require_private_file(path)
    try:
        text = path.read_bytes()[:MAX_KEYSTORE_BYTES]
        return AccountKey(Account.from_key(Account.decrypt(json.loads(text), password)))
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        # The cause stays unchained: a library's message may quote what it was given.
        raise InvalidInput(
            what="the keystore does not open",
            expected="a version 3 keystore and its password",
            actual=_tell_reason(error),
            where=str(path),
            remedy="Check the path and the password.",
        ) from None


def is_keystore(path: Path) -> bool:
    """Whether a file looks like a keystore, and not like a bare key. Raises InvalidInput where it is absent,
    or open to others."""
    require_private_file(path)
    with path.open("rb") as file:
        return file.read(MAX_KEYSTORE_BYTES).lstrip().startswith(b"{")


def import_keystore(source: Path, path: Path, password: str, *, is_devnet: bool = False) -> AccountKey:
    """Keep the key of another file encrypted at `path`. source: a keystore that `password` opens, or a file
    with the bare key as 64 hexadecimal digits. is_devnet: as create_devnet_keystore. Raises InvalidInput as
    load_keystore does, where the file holds no key, and when `path` exists; what was in it is not shown."""
    account = load_keystore(source, password)._account if is_keystore(source) else _read_bare_key(source)
    work_factor = DEVNET_SCRYPT_WORK_FACTOR if is_devnet else SCRYPT_WORK_FACTOR
    return _write_keystore(path, account, password, work_factor)


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


def read_password(path: Path | None, prompt: str = "Keystore password: ") -> str:
    """The first line of the password file at `path`; without a path, what the person at the terminal types.
    Raises InvalidInput where there is neither, or the file is empty or open to others."""
    if path is None:
        return _ask_password(prompt)
    require_private_file(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0]:
        raise InvalidInput(
            what="the password file is empty",
            expected="the password on the first line",
            actual="nothing",
            where=str(path),
            remedy="Write the password into it.",
        )
    return lines[0]


def read_new_password(path: Path | None, prompt: str) -> str:
    """The same for a keystore that is to be made: at a terminal it is typed twice. Raises InvalidInput where
    the two differ."""
    password = read_password(path, prompt)
    if path is None and _ask_password("The same again: ") != password:
        raise InvalidInput(
            what="two different passwords were typed",
            expected="the same password twice",
            actual="another one the second time",
            remedy="Nothing was made. Run the command again.",
        )
    return password


def _ask_password(prompt: str) -> str:
    try:
        with warnings.catch_warnings():
            # Without a terminal getpass warns, and would read with echo.
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(prompt)
    except (EOFError, getpass.GetPassWarning):
        raise InvalidInput(
            what="no password was typed",
            expected="a password, typed at a terminal or in a file",
            actual="no terminal",
            remedy="Pass --password-file FILE: the password on its first line, mode 0600.",
        ) from None


def _write_keystore(path: Path, account: LocalAccount, password: str, work_factor: int) -> AccountKey:
    if not password:
        raise InvalidInput(
            what="a keystore needs a password",
            expected="one character or more",
            actual="none",
            remedy="Choose a password.",
        )
    # The derivation is named: eth-account would otherwise take it from an environment variable.
    encrypted = Account.encrypt(account.key, password, kdf="scrypt", iterations=work_factor)
    write_private_file(path, json.dumps(encrypted).encode())
    return AccountKey(account)


def _tell_reason(error: Exception) -> str:
    return "another password" if "MAC mismatch" in str(error) else f"{type(error).__name__} while reading it"


# --- Signatures of statements -------------------------------------------------------------------------------
SIGNATURE_BYTES = 64
PARITY_BIT = 1 << 255
"""Of vs: whether v is 28 rather than 27."""


Signed = Statement | NodeStatement


def hash_statement(statement: Signed, domain: SigningDomain) -> bytes:
    """The digest that is signed (32 bytes): Keccak-256 over the domain's and the statement's hashes."""
    signable = _make_signable(statement, domain)
    return bytes(keccak(b"\x19" + signable.version + signable.header + signable.body))


def sign_statement(key: AccountKey, statement: Signed, domain: SigningDomain) -> bytes:
    """The signature of a statement, SIGNATURE_BYTES long. Raises InvalidInput where a field does not fit its
    type."""
    return _compact(key.sign_typed_data(to_typed_data(statement, domain)))


def recover_signer(statement: Signed, signature: bytes, domain: SigningDomain, source: str = "") -> str:
    """The account, in lower case, that signed the statement. Raises ProtocolFault, with `source` as culprit,
    for a malformed signature or statement.

    Any well-formed signature recovers to some account: compare it with the one whose statement it should
    be."""
    v, r, s = _split(signature, source)
    try:
        signable = _make_signable(statement, domain)
        return str(Account.recover_message(signable, vrs=(v, r, s))).lower()
    except (BadSignature, ValidationError, InvalidInput, ValueError) as error:
        raise _refuse("a statement and its signature", f"{type(error).__name__}: {error}", source) from error


def _make_signable(statement: Signed, domain: SigningDomain) -> SignableMessage:
    return encode_typed_data(full_message=to_typed_data(statement, domain))


def _compact(signature: bytes) -> bytes:
    """r || vs of the 65 bytes r || s || v that a wallet gives."""
    v, s = signature[64], int.from_bytes(signature[32:64], "big")
    return signature[:32] + (s | PARITY_BIT * (v - 27)).to_bytes(32, "big")


def _split(signature: bytes, source: str) -> tuple[int, int, int]:
    """v, r and s. Refuses another length and the higher s; the library refuses numbers outside the group."""
    if len(signature) != SIGNATURE_BYTES:
        raise _refuse(f"{SIGNATURE_BYTES} bytes", f"{len(signature)} bytes", source)
    r, vs = (int.from_bytes(signature[start : start + 32], "big") for start in (0, 32))
    s = vs % PARITY_BIT
    if s > SECPK1_N // 2:
        raise _refuse("the lower s of two", signature.hex(), source)
    return 27 + vs // PARITY_BIT, r, s


def _refuse(expected: str, actual: str, source: str) -> ProtocolFault:
    return ProtocolFault(
        what="a signature is malformed",
        expected=expected,
        actual=actual,
        culprit=source,
        remedy="Leave the statement out: no account can be held to it.",
    )
