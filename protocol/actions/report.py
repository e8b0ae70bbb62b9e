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
from msgspec import Meta

from protocol.adapters.keys import AccountKey
from protocol.adapters.messages import (
    Address,
    Count,
    Form,
    Line,
    Message,
    Signature,
    Size,
    Word,
    encode_message,
)
from protocol.adapters.signing import recover_signer, sign_statement
from protocol.adapters.wire.answers import MAX_REPORT_BYTES
from protocol.compute.screens import TensorDistance
from protocol.spec.errors import InvalidInput, ProtocolFault
from protocol.spec.ledger import QUANTITIES, SKETCH_BUCKETS, Projection
from protocol.spec.node_statements import Report
from protocol.spec.tolerance import Judgement
from protocol.spec.typed_data import SigningDomain

VERSION = 3
MAX_TENSORS = 16
"""Parameter tensors that a report names: those that lie farthest off."""
MAX_STEPS = 64
LARGEST = 1e300
"""Stands for infinity, which JSON does not have."""


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


class SignedReport(Message, frozen=True):
    """What a report's blob holds."""

    body: _Body
    signature: Signature


REPORT = Form(SignedReport, MAX_REPORT_BYTES, "an audit report cannot be used")


def sign_report(report: AuditReport, key: AccountKey, domain: SigningDomain) -> bytes:
    """The report's blob. Raises InvalidInput where it is of another account, or beyond the limits."""
    if key.address.lower() != report.auditor:
        raise _unfit("an auditor signs its own reports", key.address.lower(), report.auditor)
    try:
        body = msgspec.convert(_bound({"version": VERSION, **asdict(report)}), _Body)
    except msgspec.ValidationError as error:
        raise _unfit("a report is beyond its limits", "what every reader takes", error) from error
    return encode_message(SignedReport(body, sign_statement(key, _state(body), domain)))


def read_report(blob: bytes, domain: SigningDomain, source: str = "") -> AuditReport:
    """The report in a stranger's blob. Raises ProtocolFault, with `source` as culprit, for one that is too
    large, malformed or not signed by the auditor that it names."""
    signed = REPORT.decode(blob, source)
    signer = recover_signer(_state(signed.body), signed.signature, domain, source)
    if signer != signed.body.auditor:
        raise ProtocolFault(
            what="an audit report is not its auditor's",
            expected=f"signed by {signed.body.auditor}",
            actual=f"signed by {signer}",
            culprit=source,
            remedy="Leave it out.",
        )
    return msgspec.convert(signed.body, AuditReport, from_attributes=True)


def _state(body: _Body) -> Report:
    """What is signed of a report."""
    return Report(body.task, body.round, body.slot, body.segment, sha256(encode_message(body)).digest())


def _bound(value: Any) -> Any:
    """The same with a large number for what is not finite."""
    if isinstance(value, float):
        return value if isfinite(value) else LARGEST
    if isinstance(value, dict):
        return {name: _bound(item) for name, item in value.items()}
    return tuple(map(_bound, value)) if isinstance(value, list | tuple) else value


def _unfit(what: str, expected: object, actual: object) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, remedy="Make the report anew.")
