"""Audit reports: read as they were written, bound to their auditor, and nothing else is taken."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from eth_account import Account

from protocol.actions.report import (
    LARGEST,
    MAX_TENSORS,
    AuditReport,
    StepScreen,
    read_report,
    sign_report,
)
from protocol.adapters.keys import AccountKey
from protocol.adapters.wire.answers import MAX_REPORT_BYTES
from protocol.compute.screens import TensorDistance
from protocol.spec.errors import InvalidInput, ProtocolFault
from protocol.spec.ledger import QUANTITIES, SKETCH_BUCKETS, Projection
from protocol.spec.tolerance import Judgement
from protocol.spec.typed_data import SigningDomain

KEY = AccountKey(Account.from_key(bytes(31) + b"\7"))
DOMAIN = SigningDomain(31337, "0x" + "5b" * 20)
SKETCH = tuple(index / 100 for index in range(SKETCH_BUCKETS))


def make_report(**changes: Any) -> AuditReport:
    whole = AuditReport(
        task=b"t" * 32,
        round=3,
        slot=1,
        segment=2,
        solver="0x" + "ab" * 20,
        auditor=KEY.address.lower(),
        hardware="avx2/avx512",
        judgement=Judgement.GREY,
        excess=0.5,
        distances=(1.0, 2.0, 3.0),
        tensors=(TensorDistance("lm_head.weight", 1e-3, 1e-4, 1e-5),),
        screens=(StepScreen(0, 10, 0, 0, 0.9, True), StepScreen(1, 1, 5, 0, 0.9, False)),
        projections=tuple(Projection(name, 0.1, 1.0, -2.0, 3.0, None, SKETCH) for name in QUANTITIES),
    )
    return replace(whole, **changes)


def test_read_report_gives_what_was_signed() -> None:
    for report in (make_report(), make_report(judgement=None, excess=0.0, tensors=(), projections=())):
        assert read_report(sign_report(report, KEY, DOMAIN), DOMAIN) == report


def test_read_report_infinite_is_a_large_number() -> None:
    report = make_report(excess=float("inf"), tensors=(TensorDistance("a", float("inf"), 0.0, 0.0),))
    found = read_report(sign_report(report, KEY, DOMAIN), DOMAIN)
    assert found.excess == LARGEST == found.tensors[0].worst


def test_sign_report_only_one_s_own() -> None:
    with pytest.raises(InvalidInput, match="its own reports"):
        sign_report(make_report(auditor="0x" + "01" * 20), KEY, DOMAIN)


def test_sign_report_of_a_full_report_fits() -> None:
    tensors = tuple(TensorDistance("n" * 80, 1 / 3, 1 / 7, 1 / 9) for _ in range(MAX_TENSORS))
    screens = tuple(StepScreen(step, 1, 10**9, 10**9, 1 / 3, False) for step in range(64))
    sketch = tuple(1 / (index + 3) for index in range(SKETCH_BUCKETS))
    projections = tuple(Projection(name, 1 / 3, 1 / 7, 1 / 9, 1 / 11, 1 / 13, sketch) for name in QUANTITIES)
    blob = sign_report(make_report(tensors=tensors, screens=screens, projections=projections), KEY, DOMAIN)
    assert 8_000 < len(blob) <= MAX_REPORT_BYTES


@pytest.mark.parametrize("change", [{"hardware": "x" * 999}, {"distances": (1.0,) * 9}, {"task": b"short"}])
def test_sign_report_what_no_reader_takes_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="beyond its limits"):
        sign_report(make_report(**change), KEY, DOMAIN)


def sign(data: bytes) -> str:
    return base64.b64encode(data).decode()


def forge(**changes: object) -> bytes:
    whole = json.loads(sign_report(make_report(), KEY, DOMAIN))
    whole["body"].update(changes)
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"excess": 0.4},
        {"slot": 0},
        {"task": base64.b64encode(bytes(32)).decode()},
        {"solver": "0x" + "cd" * 20},
        {"judgement": 2},
        {"auditor": "0x" + "01" * 20},
    ],
)
def test_read_report_a_changed_field_breaks_the_signature(changes: dict[str, object]) -> None:
    with pytest.raises(ProtocolFault, match="signed by"):
        read_report(forge(**changes), DOMAIN, "peer")


def test_read_report_of_another_chain_is_refused() -> None:
    with pytest.raises(ProtocolFault, match="signed by"):
        read_report(sign_report(make_report(), KEY, DOMAIN), replace(DOMAIN, chain_id=1))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"more": 1},
        {"round": -1},
        {"round": True},
        {"round": 1.5},
        {"slot": 10**30},
        {"solver": "0xAB"},
        {"task": "zz"},
        {"task": "00"},
        {"judgement": "FINE"},
        {"judgement": 9},
        {"excess": -1.0},
        {"excess": float("nan")},
        {"excess": "1"},
        {"hardware": "a\x1b[0m"},
        {"hardware": "a" * 999},
        {"distances": [1.0] * 4},
        {"distances": {}},
        {"tensors": [{"name": "a", "weights": 1.0}]},
        {"tensors": [{"name": "a", "weights": 1.0, "first_moment": 1.0, "second_moment": 1.0}] * 17},
        {"screens": [5]},
        {"projections": [{"quantity": "weights"}]},
    ],
)
def test_read_report_malformed_is_refused_by_name(changes: dict[str, object]) -> None:
    with pytest.raises(ProtocolFault, match="peer: an audit report cannot be used"):
        read_report(forge(**changes), DOMAIN, "peer")


def test_read_report_a_projection_of_wrong_size_is_refused() -> None:
    body = json.loads(sign_report(make_report(), KEY, DOMAIN))["body"]
    body["projections"][0]["sketch"].pop()
    with pytest.raises(ProtocolFault, match="cannot be used"):
        read_report(forge(projections=body["projections"]), DOMAIN)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 20_000,
        b" " * (MAX_REPORT_BYTES + 1),
        b'{"body":{},"signature":""}',
        json.dumps({"body": json.loads(forge())["body"], "signature": sign(bytes(65))}).encode(),
        json.dumps({"body": json.loads(forge())["body"], "signature": sign(bytes(64))}).encode(),
        json.dumps({"body": json.loads(forge())["body"], "signature": "zz"}).encode(),
    ],
    ids=range(10),
)
def test_read_report_what_is_none_is_refused(blob: bytes) -> None:
    with pytest.raises(ProtocolFault, match="cannot be used|signature is malformed"):
        read_report(blob, DOMAIN)
