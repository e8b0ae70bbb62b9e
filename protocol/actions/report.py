"""What an auditor saw, said in public and signed: for whistleblowers to read, and for nobody to be convicted
by.

A report is a JSON blob under its own SHA-256: a body and the auditor's EIP-712 signature over the body's
digest, bound to chain, registry, task and place. Its numbers are the auditor's word. What a stranger sends is
bounded in size, parsed field by field, and judged before anything of it is used.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import isfinite
from typing import Any, TypeVar

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from protocol.adapters.keys import AccountKey
from protocol.adapters.wire.auth import WireDomain
from protocol.compute.screens import TensorDistance
from protocol.spec.errors import InvalidInput, ProtocolFault
from protocol.spec.json_text import parse_json
from protocol.spec.ledger import QUANTITIES, SKETCH_BUCKETS, Projection
from protocol.spec.tolerance import Judgement

VERSION = 2
MAX_REPORT_BYTES = 32 * 1024
MAX_TENSORS = 16
"""Parameter tensors that a report names: those that lie farthest off."""
MAX_STEPS = 64
MAX_TEXT = 200
"""Characters of a name."""
LARGEST = 1e300
"""Stands for infinity, which JSON does not have."""

T = TypeVar("T")

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


# --- Writing ------------------------------------------------------------------------------------------------
def sign_report(report: AuditReport, key: AccountKey, domain: WireDomain) -> bytes:
    """The report's blob. Raises InvalidInput where it is of another account, or too large."""
    if key.address.lower() != report.auditor:
        raise _unfit("an auditor signs its own reports", key.address.lower(), report.auditor)
    body = _encode(report)
    signature = key.sign_typed_data(domain.to_typed_data(), REPORT_TYPE, _make_message(report, body))
    blob = _dump({"body": body, "signature": signature.hex()})
    if len(blob) > MAX_REPORT_BYTES:
        raise _unfit("a report is too large", f"{MAX_REPORT_BYTES} bytes", len(blob))
    return blob


def _make_message(report: AuditReport, body: Mapping[str, Any]) -> dict[str, Any]:
    where = {"task": report.task, "round": report.round, "slot": report.slot, "segment": report.segment}
    return {**where, "content": sha256(_dump(body)).digest()}


def _encode(report: AuditReport) -> dict[str, Any]:
    fields = asdict(report)
    fields["task"] = report.task.hex()
    fields["judgement"] = None if report.judgement is None else report.judgement.name
    body: dict[str, Any] = _bound({"version": VERSION, **fields})
    return body


def _bound(value: Any) -> Any:
    """The same with lists for tuples, and a large number for what is not finite."""
    if isinstance(value, float):
        return value if isfinite(value) else LARGEST
    if isinstance(value, dict):
        return {name: _bound(item) for name, item in value.items()}
    return [_bound(item) for item in value] if isinstance(value, list | tuple) else value


def _dump(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


# --- Reading ------------------------------------------------------------------------------------------------
def read_report(blob: bytes, domain: WireDomain, source: str = "") -> AuditReport:
    """The report in a stranger's blob. Raises ProtocolFault, with `source` as culprit, for one that is too
    large, malformed or not signed by the auditor that it names."""
    try:
        if len(blob) > MAX_REPORT_BYTES:
            raise ValueError(f"{len(blob)} bytes are more than {MAX_REPORT_BYTES}")
        whole = _read_object(parse_json(blob), {"body", "signature"})
        report = _decode(whole["body"])
        signer = _recover(domain, report, whole["body"], _read_text(whole["signature"]))
        if signer != report.auditor:
            raise ValueError(f"signed by {signer}, not by {report.auditor}")
    except (ValueError, TypeError, KeyError, OverflowError, InvalidInput) as error:
        raise ProtocolFault(
            what="an audit report cannot be used",
            expected="a report signed by the auditor that it names",
            actual=f"{type(error).__name__}: {str(error)[:MAX_TEXT]}",
            culprit=source,
            remedy="Leave it out.",
        ) from error
    return report


def _recover(domain: WireDomain, report: AuditReport, body: Mapping[str, Any], signature: str) -> str:
    message = _make_message(report, body)
    signable = encode_typed_data(domain.to_typed_data(), REPORT_TYPE, message)
    try:
        return str(Account.recover_message(signable, signature=bytes.fromhex(signature))).lower()
    except (BadSignature, ValidationError) as error:
        raise ValueError(f"the signature is malformed: {type(error).__name__}") from error


def _decode(data: object) -> AuditReport:
    body = _read_object(data, {"version", *AuditReport.__dataclass_fields__})
    if body["version"] != VERSION:
        raise ValueError(f"version {VERSION} was expected, not {body['version']!r}")
    judgement = body["judgement"]
    return AuditReport(
        task=_read_task(body["task"]),
        round=_read_count(body["round"]),
        slot=_read_count(body["slot"]),
        segment=_read_count(body["segment"]),
        solver=_read_address(body["solver"]),
        auditor=_read_address(body["auditor"]),
        hardware=_read_text(body["hardware"]),
        judgement=None if judgement is None else Judgement[_read_text(judgement)],
        excess=_read_size(body["excess"]),
        distances=_read_all(body["distances"], _read_size, len(QUANTITIES)),
        tensors=_read_all(body["tensors"], _read_tensor, MAX_TENSORS),
        screens=_read_all(body["screens"], _read_screen, MAX_STEPS),
        projections=_read_all(body["projections"], _read_projection, len(QUANTITIES)),
    )


def _read_all(data: object, read: Callable[[Any], T], most: int) -> tuple[T, ...]:
    if not isinstance(data, list) or len(data) > most:
        raise ValueError(f"a list of at most {most} was expected")
    return tuple(map(read, data))


def _read_object(data: object, names: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != names:
        raise ValueError(f"an object with {sorted(names)} was expected")
    return data


def _read_tensor(data: object) -> TensorDistance:
    found = _read_object(data, set(TensorDistance.__dataclass_fields__))
    return TensorDistance(_read_text(found["name"]), *(_read_size(found[name]) for name in QUANTITIES))


def _read_screen(data: object) -> StepScreen:
    found = _read_object(data, set(StepScreen.__dataclass_fields__))
    first, steps = _read_count(found["first"]), _read_count(found["steps"])
    weights, moments = _read_count(found["wrong_weights"]), _read_count(found["wrong_moments"])
    if not isinstance(found["is_consistent"], bool):
        raise ValueError("yes or no was expected")
    return StepScreen(
        first, steps, weights, moments, _read_size(found["implied_norm"]), found["is_consistent"]
    )


def _read_projection(data: object) -> Projection:
    found = _read_object(data, set(Projection.__dataclass_fields__))
    past = None if found["past"] is None else _read_number(found["past"])
    rms, mean, update, gradient = (_read_number(found[n]) for n in ("rms", "mean", "update", "gradient"))
    sketch = _read_all(found["sketch"], _read_number, SKETCH_BUCKETS)
    return Projection(_read_text(found["quantity"]), rms, mean, update, gradient, past, sketch)


def _read_text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable():
        raise ValueError(f"a line of at most {MAX_TEXT} characters was expected")
    return value


def _read_address(value: object) -> str:
    text = _read_text(value)
    if len(text) != 42 or text[:2] != "0x" or not set(text[2:]) <= set("0123456789abcdef"):
        raise ValueError(f"an address in lower case was expected, not {text!r}")
    return text


def _read_task(value: object) -> bytes:
    task = bytes.fromhex(_read_text(value))
    if len(task) != 32:
        raise ValueError("a task id of 32 bytes was expected")
    return task


def _read_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(f"a count was expected, not {str(value)[:20]}")
    return value


def _read_number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise ValueError(f"a finite number was expected, not {str(value)[:20]}")
    return float(value)


def _read_size(value: object) -> float:
    number = _read_number(value)
    if number < 0:
        raise ValueError(f"a size was expected, not {number}")
    return number


def _unfit(what: str, expected: object, actual: object) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, remedy="Make the report anew.")
