"""What an auditor saw, said in public and signed: for whistleblowers to read, and for nobody to be convicted
by.

A report is a JSON blob under its own SHA-256: a body and the auditor's EIP-712 signature over the body's
digest, bound to chain, registry, task and place. Its numbers are the auditor's word. What a stranger sends is
read by its type and within limits before anything of it is used.
"""

from dataclasses import asdict, dataclass
from hashlib import sha256
from math import isfinite
from typing import Annotated, Any, Literal

import msgspec
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError
from msgspec import Meta

from protocol.adapters.keys import AccountKey
from protocol.adapters.messages import Address, Count, Form, Line, Message, Size, Word, encode_message
from protocol.adapters.wire.answers import MAX_REPORT_BYTES
from protocol.adapters.wire.auth import WireDomain
from protocol.compute.screens import TensorDistance
from protocol.spec.errors import InvalidInput, ProtocolFault
from protocol.spec.ledger import QUANTITIES, SKETCH_BUCKETS, Projection
from protocol.spec.tolerance import Judgement

VERSION = 3
MAX_TENSORS = 16
"""Parameter tensors that a report names: those that lie farthest off."""
MAX_STEPS = 64
LARGEST = 1e300
"""Stands for infinity, which JSON does not have."""

REPORT_TYPE = {
    "AuditReport": [
        {"name": "task", "type": "bytes32"},
        {"name": "round", "type": "uint64"},
        {"name": "slot", "type": "uint64"},
        {"name": "segment", "type": "uint64"},
        {"name": "content", "type": "bytes32"},
    ]
}


@dataclass(frozen=True)
class StepScreen:
    """What a screen said of `steps` steps of the segment from its step `first` on: of the whole segment
    (`screen_segment`, from the two ends alone), or of one step whose states the solver showed
    (`screen_step`)."""

    first: int
    steps: int
    wrong_weights: int
    wrong_moments: int
    implied_norm: float
    is_consistent: bool


@dataclass(frozen=True)
class AuditReport:
    """One audit of a solver's segment, as the auditor measured it.

    task: 32 bytes; solver, auditor: addresses in lower case; hardware: the kernels of solver and auditor, in
    their own words; judgement: of the whole end state, None where a state was not served; excess: its worst
    element in reject limits; distances: the largest of W, m and v, in accept limits; tensors: the farthest
    ones, farthest first; screens: of the whole segment, then of single steps; projections: for the ledger, of
    W, m and v."""

    task: bytes
    round: int
    slot: int
    segment: int
    solver: str
    auditor: str
    hardware: str
    judgement: Judgement | None
    excess: float
    distances: tuple[float, ...] = ()
    tensors: tuple[TensorDistance, ...] = ()
    screens: tuple[StepScreen, ...] = ()
    projections: tuple[Projection, ...] = ()

    @property
    def place(self) -> tuple[int, int, int]:
        """(round, slot, segment)"""
        return self.round, self.slot, self.segment

    @property
    def is_inconsistent(self) -> bool:
        """Whether a screened step cannot be what the optimizer makes of any gradient."""
        return any(not screen.is_consistent for screen in self.screens)


# --- As it is sent ------------------------------------------------------------------------------------------
Sketch = Annotated[tuple[float, ...], Meta(min_length=SKETCH_BUCKETS, max_length=SKETCH_BUCKETS)]


class _Tensor(Message, frozen=True):
    name: Line
    weights: Size
    first_moment: Size
    second_moment: Size


class _Screen(Message, frozen=True):
    first: Count
    steps: Count
    wrong_weights: Count
    wrong_moments: Count
    implied_norm: Size
    is_consistent: bool


class _Projection(Message, frozen=True):
    quantity: Literal[QUANTITIES]  # type: ignore[valid-type]
    rms: Size
    mean: float
    update: float
    gradient: float
    past: float | None
    sketch: Sketch


class _Body(Message, frozen=True):
    """The fields of `AuditReport`, within limits."""

    version: Literal[3]
    task: Word
    round: Count
    slot: Count
    segment: Count
    solver: Address
    auditor: Address
    hardware: Line
    judgement: Judgement | None
    excess: Size
    distances: Annotated[tuple[Size, ...], Meta(max_length=len(QUANTITIES))]
    tensors: Annotated[tuple[_Tensor, ...], Meta(max_length=MAX_TENSORS)]
    screens: Annotated[tuple[_Screen, ...], Meta(max_length=MAX_STEPS)]
    projections: Annotated[tuple[_Projection, ...], Meta(max_length=len(QUANTITIES))]


class _Signed(Message, frozen=True):
    body: _Body
    signature: Annotated[bytes, Meta(min_length=65, max_length=65)]


_FORM = Form(_Signed, MAX_REPORT_BYTES, "an audit report cannot be used")


def sign_report(report: AuditReport, key: AccountKey, domain: WireDomain) -> bytes:
    """The report's blob. Raises InvalidInput where it is of another account, or beyond the limits."""
    if key.address.lower() != report.auditor:
        raise _unfit("an auditor signs its own reports", key.address.lower(), report.auditor)
    try:
        body = msgspec.convert(_bound({"version": VERSION, **asdict(report)}), _Body)
    except msgspec.ValidationError as error:
        raise _unfit("a report is beyond its limits", "what every reader takes", error) from error
    signature = key.sign_typed_data(domain.to_typed_data(), REPORT_TYPE, _make_message(body))
    return encode_message(_Signed(body, signature))


def read_report(blob: bytes, domain: WireDomain, source: str = "") -> AuditReport:
    """The report in a stranger's blob. Raises ProtocolFault, with `source` as culprit, for one that is too
    large, malformed or not signed by the auditor that it names."""
    signed = _FORM.decode(blob, source)
    signer = _recover(domain, signed, source)
    if signer != signed.body.auditor:
        raise _unsigned(f"signed by {signer}, not by {signed.body.auditor}", source)
    return msgspec.convert(signed.body, AuditReport, from_attributes=True)


def _make_message(body: _Body) -> dict[str, Any]:
    where = {"task": body.task, "round": body.round, "slot": body.slot, "segment": body.segment}
    return {**where, "content": sha256(encode_message(body)).digest()}


def _recover(domain: WireDomain, signed: _Signed, source: str) -> str:
    message = _make_message(signed.body)
    signable = encode_typed_data(domain.to_typed_data(), REPORT_TYPE, message)
    try:
        return str(Account.recover_message(signable, signature=signed.signature)).lower()
    except (BadSignature, ValidationError, ValueError) as error:
        raise _unsigned(f"a malformed signature: {type(error).__name__}", source) from error


def _bound(value: Any) -> Any:
    """The same with a large number for what is not finite."""
    if isinstance(value, float):
        return value if isfinite(value) else LARGEST
    if isinstance(value, dict):
        return {name: _bound(item) for name, item in value.items()}
    return tuple(map(_bound, value)) if isinstance(value, list | tuple) else value


def _unsigned(actual: str, source: str) -> ProtocolFault:
    return ProtocolFault(
        what="an audit report cannot be used",
        expected="a report signed by the auditor that it names",
        actual=actual,
        culprit=source,
        remedy="Leave it out.",
    )


def _unfit(what: str, expected: object, actual: object) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, remedy="Make the report anew.")
