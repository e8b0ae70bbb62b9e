"""Defines how statements are signed: EIP-712, with one type for each statement class.

The classes are in `statements.py` and `node_statements.py`. The hash of EIP-712 is Keccak-256, which Python's
standard library lacks. `to_typed_data` makes the object that a wallet takes (`eth_signTypedData_v4`);
`protocol/adapters/keys.py` hashes, signs and recovers. Hashes, nonces and ids are 32 bytes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.hashing import WORD_BYTES
from touchstone.protocol.spec.node_statements import NodeStatement
from touchstone.protocol.spec.params import PROTOCOL_VERSION
from touchstone.protocol.spec.statements import Statement

TypedFields = tuple[tuple[str, str], ...]

_SEALED: TypedFields = (
    ("domain", "bytes32"), ("round", "uint32"), ("baseRoot", "bytes32"), ("seed", "bytes32"),
    ("slot", "uint32"), ("claimRoot", "bytes32"), ("draw", "uint32"), ("rank", "uint32"),
    ("segment", "uint32"), ("startLeaf", "bytes32"), ("seal", "bytes32"),
)  # fmt: skip
STATEMENT_TYPES: Mapping[str, TypedFields] = {
    "Sealed": _SEALED,
    "Vote": (*_SEALED, ("endLeaf", "bytes32"), ("word", "uint8"), ("namedLeaf", "uint32")),
    "VoteOpening": (
        ("vote", "Vote"), ("claimEndRoot", "bytes32"), ("boundarySalt", "bytes32"),
        ("ownEndRoot", "bytes32"), ("sealSalt", "bytes32"),
    ),
    "MergeSignature": (
        ("domain", "bytes32"), ("round", "uint32"), ("baseRoot", "bytes32"), ("merged", "uint64"),
        ("mergedHash", "bytes32"), ("root", "bytes32"),
    ),
}  # fmt: skip
"""The EIP-712 types of statements that a contract checks: the fields of the class of that name, in order."""
NODE_TYPES: Mapping[str, TypedFields] = {
    "Request": (
        ("method", "string"), ("path", "string"), ("server", "address"), ("issuedAt", "uint64"),
        ("nonce", "bytes32"),
    ),
    "Calibration": (("profile", "bytes32"),),
    "LossReport": (
        ("domain", "bytes32"), ("round", "uint32"), ("slot", "uint32"), ("claimRoot", "bytes32"),
        ("steps", "uint32"), ("firstMicronats", "uint64"), ("lastMicronats", "uint64"),
        ("meanMicronats", "uint64"),
    ),
    "HeldoutReport": (
        ("domain", "bytes32"), ("roundsDone", "uint32"), ("root", "bytes32"), ("batches", "uint32"),
        ("meanMicronats", "uint64"), ("errorMicronats", "uint64"),
    ),
    "DistanceReport": (
        *_SEALED[:9], ("word", "uint8"), ("comparison", "uint8"), ("weightsMicrolimits", "uint64"),
        ("firstMomentMicrolimits", "uint64"), ("secondMomentMicrolimits", "uint64"),
    ),
}  # fmt: skip
"""The EIP-712 types of statements that only nodes check."""
_TYPES = {**STATEMENT_TYPES, **NODE_TYPES}
DOMAIN_TYPE: TypedFields = (
    ("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address"),
)  # fmt: skip
UNSIGNED_BITS = {"uint8": 8, "uint32": 32, "uint64": 64}
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


@dataclass(frozen=True)
class SigningDomain:
    """Where a signature is valid: on one chain, for one contract (its address) that checks it."""

    chain_id: int
    contract: str


ANYWHERE = SigningDomain(0, "0x" + "00" * 20)
"""The domain of statements about no chain: they are valid anywhere."""


def to_typed_data(statement: Statement | NodeStatement, domain: SigningDomain) -> dict[str, Any]:
    """Returns the statement as an EIP-712 object of plain JSON values. Raises InvalidInput if a value does
    not fit its type, because a short word would be signed as if zeros followed."""
    name = type(statement).__name__
    types = {"EIP712Domain": DOMAIN_TYPE, **{used: _TYPES[used] for used in _list_types(name)}}
    return {
        "types": {used: [{"name": n, "type": t} for n, t in typed] for used, typed in types.items()},
        "primaryType": name,
        "domain": {
            "name": "Touchstone",
            "version": str(PROTOCOL_VERSION),
            "chainId": domain.chain_id,
            "verifyingContract": domain.contract,
        },
        "message": _to_message(statement),
    }


def _list_types(name: str) -> list[str]:
    inner = [kind for _, kind in _TYPES[name] if kind in _TYPES]
    return [name, *(used for kind in inner for used in _list_types(kind))]


def _to_message(statement: Statement | NodeStatement) -> dict[str, Any]:
    typed, own = _TYPES[type(statement).__name__], fields(statement)
    values = [getattr(statement, field.name) for field in own]
    return {name: _to_json(name, kind, value) for (name, kind), value in zip(typed, values, strict=True)}


def _to_json(name: str, kind: str, value: Any) -> Any:
    if kind in _TYPES:
        return _to_message(value)
    if not _fits(kind, value):
        raise InvalidInput(
            what="a statement's field does not fit its type",
            expected=kind,
            actual=repr(value),
            where=name,
            remedy="Take it from the chain or from the claim's openings.",
        )
    if kind in UNSIGNED_BITS:
        return int(value)
    return "0x" + value.hex() if kind == "bytes32" else value


def _fits(kind: str, value: Any) -> bool:
    if kind == "bytes32":
        return isinstance(value, bytes) and len(value) == WORD_BYTES
    if kind in UNSIGNED_BITS:
        return isinstance(value, int) and 0 <= value < 1 << UNSIGNED_BITS[kind]
    return isinstance(value, str) and (kind == "string" or _ADDRESS.fullmatch(value) is not None)
