"""Signs statements, and recovers the signers of statements (EIP-712).

Everything but transactions is signed and recovered here alone.

A signature has one form: the 64 bytes r || vs of EIP-2098. The highest bit of vs says which of two keys it
is, and s is the lower of two possible values. So each signature is one string of bytes, of fixed length on
chain, and takes two words of calldata instead of five.
"""

from eth_account import Account
from eth_account.messages import SignableMessage, encode_typed_data
from eth_keys.constants import SECPK1_N
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.node_statements import NodeStatement
from touchstone.protocol.spec.statements import Statement
from touchstone.protocol.spec.typed_data import SigningDomain, to_typed_data

SIGNATURE_BYTES = 64
PARITY_BIT = 1 << 255
"""The bit of vs that says whether v is 28 (set) or 27."""
Signed = Statement | NodeStatement


def hash_statement(statement: Signed, domain: SigningDomain) -> bytes:
    """Returns the 32-byte digest that is signed: Keccak-256 over the hashes of the domain and the
    statement."""
    signable = _make_signable(statement, domain)
    return bytes(keccak(b"\x19" + signable.version + signable.header + signable.body))


def sign_statement(key: AccountKey, statement: Signed, domain: SigningDomain) -> bytes:
    """Returns the signature of a statement, SIGNATURE_BYTES long. Raises InvalidInput if a field does not
    fit its type."""
    return _compact(key.sign_typed_data(to_typed_data(statement, domain)))


def recover_signer(statement: Signed, signature: bytes, domain: SigningDomain, source: str = "") -> str:
    """Returns the account, in lower case, that signed the statement. Raises ProtocolFault, with `source` as
    culprit, for a malformed signature or statement.

    Any well-formed signature recovers to some account, so the caller must compare it with the expected
    one."""
    v, r, s = _split(signature, source)
    try:
        signable = _make_signable(statement, domain)
        return str(Account.recover_message(signable, vrs=(v, r, s))).lower()
    except (BadSignature, ValidationError, InvalidInput, ValueError) as error:
        raise _refuse("a statement and its signature", f"{type(error).__name__}: {error}", source) from error


def _make_signable(statement: Signed, domain: SigningDomain) -> SignableMessage:
    return encode_typed_data(full_message=to_typed_data(statement, domain))


def _compact(signature: bytes) -> bytes:
    """Returns r || vs for the 65 bytes r || s || v of a wallet."""
    v, s = signature[64], int.from_bytes(signature[32:64], "big")
    return signature[:32] + (s | PARITY_BIT * (v - 27)).to_bytes(32, "big")


def _split(signature: bytes, source: str) -> tuple[int, int, int]:
    """Returns v, r and s. Refuses a signature of another length or with the higher s; the library refuses
    numbers outside the group."""
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
