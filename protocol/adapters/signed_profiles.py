"""Calibration profiles as files: signed by the operator's account (EIP-712), read with suspicion.

    {"profile": {...}, "signature": "..."}

The signature is of the SHA-256 of the profile's canonical bytes (`spec/calibration_profile.py`). It says
which operator measured, so that the account that merges profiles can ask. It does not say that the figures
are true.
"""

from pathlib import Path

from touchstone.protocol.adapters.files.durable_files import replace_file
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.signatures import recover_signer, sign_statement
from touchstone.protocol.adapters.messages import Form, Message, Signature, encode_message
from touchstone.protocol.spec.calibration_profile import MAX_PROFILE_BYTES, Profile, compute_profile_digest
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.node_statements import Calibration
from touchstone.protocol.spec.typed_data import ANYWHERE

MAX_FILE_BYTES = 2 * MAX_PROFILE_BYTES
WHAT = "not a signed calibration profile"
REMEDY = "Ask its operator to write it again with `touchstone calibrate`."


class SignedProfile(Message, frozen=True):
    """The contents of the file."""

    profile: Profile
    signature: Signature


FORM = Form(SignedProfile, MAX_FILE_BYTES, WHAT, is_exact=True)


def write_profile(path: Path, profile: Profile, key: AccountKey) -> None:
    """Signs a profile and writes it to `path`. Raises InvalidInput if `key` is not the operator's, or `path`
    exists."""
    if key.address.lower() != profile.operator:
        raise _refuse(path, f"the key of {profile.operator}", key.address.lower())
    signature = sign_statement(key, Calibration(compute_profile_digest(profile)), ANYWHERE)
    if path.exists():
        raise _refuse(path, "a new path", "a file is there", "Choose another --out.")
    replace_file(path, encode_message(SignedProfile(profile, signature)))


def read_profile(path: Path) -> Profile:
    """Returns the profile in a file. Raises InvalidInput unless it is well formed and signed by its
    operator."""
    if not path.is_file():
        raise _refuse(path, "a file that `touchstone calibrate` wrote", "no such file", "Check the path.")
    signed = FORM.read_file(path, REMEDY)
    statement = Calibration(compute_profile_digest(signed.profile))
    try:
        signer = recover_signer(statement, signed.signature, ANYWHERE)
    except ProtocolFault as fault:
        raise _refuse(path, fault.expected, fault.actual) from fault
    if signer != signed.profile.operator:
        raise _refuse(path, f"the signature of {signed.profile.operator}", f"that of {signer}")
    return signed.profile


def _refuse(path: Path, expected: object, actual: object, remedy: str = REMEDY) -> InvalidInput:
    return InvalidInput(what=WHAT, expected=expected, actual=actual, where=str(path), remedy=remedy)
