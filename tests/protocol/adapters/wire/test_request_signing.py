"""Signed requests: whose they are, and which ones count."""

import base64
import json
from collections.abc import Callable

import pytest

from tests.protocol.adapters.parties import DOMAIN, make_key
from tests.protocol.adapters.wire.test_request_handler import PATH, SERVER
from touchstone.protocol.adapters.wire import request_signing
from touchstone.protocol.adapters.wire.request_signing import (
    HEADER,
    MAX_AGE_SECONDS,
    PROOF,
    RequestSigner,
    RequestVerifier,
)
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.typed_data import SigningDomain


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def signer(clock: Clock) -> RequestSigner:
    return RequestSigner(make_key(1), DOMAIN, clock)


def make_verifier(
    clock: Clock, server: str = SERVER, is_staked: Callable[[str], bool] = lambda _: True
) -> RequestVerifier:
    return RequestVerifier(server, DOMAIN, is_staked, clock)


def test_a_signed_request_tells_its_account(clock: Clock, signer: RequestSigner) -> None:
    headers = signer.sign("GET", PATH, SERVER)
    assert make_verifier(clock).verify("GET", PATH, headers) == make_key(1).address.lower()


def test_case_of_the_server_does_not_matter(clock: Clock, signer: RequestSigner) -> None:
    assert SERVER.lower() != SERVER
    for server in (SERVER, SERVER.lower()):
        make_verifier(clock, SERVER).verify("GET", PATH, signer.sign("GET", PATH, server))


def change(headers: dict[str, str], **fields: object) -> dict[str, str]:
    return {HEADER: json.dumps(json.loads(headers[HEADER]) | fields)}


def test_a_replay_is_refused(clock: Clock, signer: RequestSigner) -> None:
    headers, verifier = signer.sign("GET", PATH, SERVER), make_verifier(clock)
    verifier.verify("GET", PATH, headers)
    with pytest.raises(ProtocolFault, match="used before"):
        verifier.verify("GET", PATH, headers)


@pytest.mark.parametrize("skew", [-MAX_AGE_SECONDS, 0, MAX_AGE_SECONDS])
def test_a_replay_never_passes_however_the_clocks_differ(
    clock: Clock, signer: RequestSigner, skew: int
) -> None:
    headers, verifier = signer.sign("GET", PATH, SERVER), make_verifier(clock)
    clock.seconds += skew
    verifier.verify("GET", PATH, headers)
    for _ in range(4 * MAX_AGE_SECONDS):
        clock.seconds += 1
        with pytest.raises(ProtocolFault):
            verifier.verify("GET", PATH, headers)
        # Other requests make the verifier forget what has expired.
        verifier.verify("GET", PATH, RequestSigner(make_key(1), DOMAIN, clock).sign("GET", PATH, SERVER))


@pytest.mark.parametrize("skew", [-MAX_AGE_SECONDS - 1, MAX_AGE_SECONDS + 1])
def test_a_stale_request_is_refused_with_both_times(clock: Clock, signer: RequestSigner, skew: int) -> None:
    headers = signer.sign("GET", PATH, SERVER)
    clock.seconds += skew
    with pytest.raises(ProtocolFault, match=f"stale.*{int(clock.seconds)}.*1700000000"):
        make_verifier(clock).verify("GET", PATH, headers)


def test_a_signature_for_another_server_is_refused(clock: Clock, signer: RequestSigner) -> None:
    headers = signer.sign("GET", PATH, make_key(3).address)
    with pytest.raises(ProtocolFault, match="does not belong to this request"):
        make_verifier(clock).verify("GET", PATH, headers)


@pytest.mark.parametrize(
    "domain", [SigningDomain(1, DOMAIN.contract), SigningDomain(DOMAIN.chain_id, "0x" + "00" * 20)]
)
def test_a_signature_for_another_deployment_is_refused(clock: Clock, domain: SigningDomain) -> None:
    headers = RequestSigner(make_key(1), domain, clock).sign("GET", PATH, SERVER)
    with pytest.raises(ProtocolFault, match="does not belong to this request"):
        make_verifier(clock).verify("GET", PATH, headers)


def test_a_signature_for_another_blob_or_method_is_refused(clock: Clock, signer: RequestSigner) -> None:
    for method, path in [("GET", PATH[:-2] + "ac"), ("HEAD", PATH), ("GET", PATH + "?x=1")]:
        with pytest.raises(ProtocolFault, match="does not belong to this request"):
            make_verifier(clock).verify(method, path, signer.sign("GET", PATH, SERVER))


def test_nobody_signs_for_another(clock: Clock, signer: RequestSigner) -> None:
    headers = change(signer.sign("GET", PATH, SERVER), account=make_key(4).address.lower())
    with pytest.raises(ProtocolFault, match=make_key(4).address.lower()):
        make_verifier(clock).verify("GET", PATH, headers)


def test_an_unstaked_account_costs_no_signature_check(
    clock: Clock, signer: RequestSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(request_signing, "recover_signer")
    with pytest.raises(ProtocolFault, match="no stake"):
        make_verifier(clock, is_staked=lambda account: False).verify(
            "GET", PATH, signer.sign("GET", PATH, SERVER)
        )


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("name", ["account", "issued_at", "nonce", "signature", "more"])
@pytest.mark.parametrize(
    "value",
    [None, "", "0x", "zz" * 32, -1, 10**30, 1.5, "1" * 500, "\u0662", encode(bytes(64)), encode(b"\xff" * 64),
     encode(bytes(33)), [[[]]], {}],
)  # fmt: skip
def test_malformed_proofs_are_refused(clock: Clock, signer: RequestSigner, name: str, value: object) -> None:
    headers = change(signer.sign("GET", PATH, SERVER), **{name: value})
    with pytest.raises(ProtocolFault):
        make_verifier(clock).verify("GET", PATH, headers)


@pytest.mark.parametrize("text", [None, "", "{}", "[" * 1000, "{" * 8000, "\udcff", "\u0662", "x" * 8000])
def test_what_is_no_proof_is_refused(clock: Clock, text: str | None) -> None:
    with pytest.raises(ProtocolFault, match="not signed|header Touchstone-Proof is malformed"):
        make_verifier(clock).verify("GET", PATH, {} if text is None else {HEADER: text})


def test_a_proof_has_room_in_its_header(signer: RequestSigner) -> None:
    text = signer.sign("GET", PATH, SERVER)[HEADER]
    assert text.isascii() and text.isprintable() and len(text) < PROOF.most_bytes


def test_a_path_of_any_characters_is_refused_by_name(clock: Clock, signer: RequestSigner) -> None:
    """What a server reads from a socket may be no text at all."""
    headers = signer.sign("GET", PATH, SERVER)
    with pytest.raises(ProtocolFault):
        make_verifier(clock).verify("GET", PATH + "\udcff", headers)


def test_one_account_cannot_use_up_anothers_memory(
    clock: Clock, signer: RequestSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_signing, "MAX_REMEMBERED_NONCES", 2)
    verifier = make_verifier(clock)
    for _ in range(2):
        verifier.verify("GET", PATH, signer.sign("GET", PATH, SERVER))
    with pytest.raises(ProtocolFault, match="too many requests"):
        verifier.verify("GET", PATH, signer.sign("GET", PATH, SERVER))
    other = RequestSigner(make_key(5), DOMAIN, clock)
    verifier.verify("GET", PATH, other.sign("GET", PATH, SERVER))
