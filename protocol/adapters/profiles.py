"""Calibration profiles as files: signed by the operator's account (EIP-712), read with suspicion.

    {"profile": {...}, "signature": "0x..."}

The signature is of the SHA-256 of the profile's canonical bytes (`protocol/spec/profile.py`). It says who
measured, so that whoever merges profiles can ask; it does not say that the figures are true.
"""

import json
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from protocol.adapters.keys import AccountKey
from protocol.spec.errors import InvalidInput
from protocol.spec.json_text import parse_json
from protocol.spec.profile import (
    MAX_PROFILE_BYTES,
    Profile,
    compute_profile_digest,
    decode_profile,
    encode_profile,
)

DOMAIN = {"name": "Touchstone calibration", "version": "1"}
"""No chain and no contract: a profile is of a machine and a task's training, wherever that is posted."""
PROFILE_TYPE = {"Calibration": [{"name": "profile", "type": "bytes32"}]}
SIGNATURE_BYTES = 65
MAX_FILE_BYTES = 2 * MAX_PROFILE_BYTES


def write_profile(path: Path, profile: Profile, key: AccountKey) -> None:
    """Sign and write it. Raises InvalidInput where `key` is not the operator's, or `path` exists."""
    if key.address.lower() != profile.operator:
        raise _refuse(path, f"the key of {profile.operator}", key.address.lower())
    signature = key.sign_typed_data(DOMAIN, PROFILE_TYPE, {"profile": compute_profile_digest(profile)})
    content = {"profile": json.loads(encode_profile(profile)), "signature": "0x" + signature.hex()}
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=1, sort_keys=True) + "\n")
    except FileExistsError:
        raise _refuse(path, "a new path", "a file is there") from None


def read_profile(path: Path) -> Profile:
    """The profile in a file. Raises InvalidInput unless it is well formed and signed by its operator."""
    value = _read_json(path)
    if not isinstance(value, dict) or sorted(value) != ["profile", "signature"]:
        raise _refuse(path, "keys profile and signature", "another shape")
    text = json.dumps(value["profile"], sort_keys=True, separators=(",", ":"))
    profile = decode_profile(text.encode())
    signer = _recover(path, profile, _read_signature(path, value["signature"]))
    if signer != profile.operator:
        raise _refuse(path, f"the signature of {profile.operator}", f"that of {signer}")
    return profile


def _read_json(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _refuse(path, "a file to read", type(error).__name__) from error
    if len(data) > MAX_FILE_BYTES:
        raise _refuse(path, f"at most {MAX_FILE_BYTES} bytes", "more")
    try:
        return parse_json(data)
    except ValueError as error:
        raise _refuse(path, "JSON", str(error)) from error


def _read_signature(path: Path, text: object) -> bytes:
    try:
        signature = bytes.fromhex(str(text).removeprefix("0x"))
    except ValueError:
        signature = b""
    if len(signature) != SIGNATURE_BYTES:
        raise _refuse(path, f"a signature of {SIGNATURE_BYTES} bytes", str(text)[:140])
    return signature


def _recover(path: Path, profile: Profile, signature: bytes) -> str:
    message = {"profile": compute_profile_digest(profile)}
    signable = encode_typed_data(DOMAIN, PROFILE_TYPE, message)
    try:
        return str(Account.recover_message(signable, signature=signature)).lower()
    except (BadSignature, ValidationError, ValueError) as error:
        raise _refuse(path, "a signature that names its account", type(error).__name__) from error


def _refuse(path: Path, expected: object, actual: object) -> InvalidInput:
    return InvalidInput(
        what="not a signed calibration profile",
        expected=expected,
        actual=actual,
        where=str(path),
        remedy="Have its operator write it anew with `touchstone calibrate`.",
    )
