"""Messages to a desk over real HTTPS: signed with their body, bounded in size, time and number."""

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import aiohttp
import pytest
from msgspec import Meta

from tests.protocol.adapters.parties import DOMAIN, Party, make_key, open_session
from touchstone.protocol.adapters.messages import Count, Form, Message, encode_message
from touchstone.protocol.adapters.wire import conventions
from touchstone.protocol.adapters.wire.conventions import (
    HEADER,
    MAX_AGE_SECONDS,
    PROOF,
    REFUSAL,
    Desk,
    RequestSigner,
    RequestVerifier,
)
from touchstone.protocol.adapters.wire.limits import WireLimits
from touchstone.protocol.adapters.wire.session import Peer
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.statements import SigningDomain

MOST_BYTES = 64


class Said(Message, frozen=True):
    """A line."""

    text: Annotated[str, Meta(max_length=200)]


class Counted(Message, frozen=True):
    """No line."""

    number: Count


SAID = Form(Said, MOST_BYTES, "the line is malformed")


async def echo(account: str, body: bytes) -> Said:
    said = SAID.decode(body, account)
    if said.text == "later":
        raise EnvironmentFault(what="not yet", expected="a block", actual="none", remedy="Ask again.")
    return Said(f"{account}: {said.text}"[:40])


@pytest.fixture
def solver(tmp_path: Path) -> Party:
    return Party(tmp_path / "solver", 1, desks={"echo": Desk(MOST_BYTES, echo)})


@pytest.fixture
def auditor(tmp_path: Path) -> Party:
    return Party(tmp_path / "auditor", 2)


async def post(
    peer: Peer, path: str, body: bytes | None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    pin = aiohttp.Fingerprint(peer.fingerprint)
    async with (
        open_session() as session,
        session.post(peer.format_url(path), data=body, headers=headers, ssl=pin) as response,
    ):
        return response.status, await response.read()


async def test_a_message_is_answered_to_its_signer(solver: Party, auditor: Party) -> None:
    async with solver.serve() as peer, auditor.make_client() as client:
        answer = await client.ask(peer, "echo", Said("hello"), SAID)
    assert answer == Said(f"{auditor.account}: hello"[:40])


async def test_refusals_say_whether_to_ask_again(solver: Party, auditor: Party) -> None:
    async with solver.serve() as peer, auditor.make_client() as client:
        with pytest.raises(EnvironmentFault, match="not yet") as later:
            await client.ask(peer, "echo", Said("later"), SAID)
        with pytest.raises(EnvironmentFault, match="malformed") as wrong:
            await client.ask(peer, "echo", Counted(1), SAID)
        with pytest.raises(EnvironmentFault, match="not answered here") as unknown:
            await client.ask(peer, "other", Said("hello"), SAID)
    assert [later.value.retryable, wrong.value.retryable, unknown.value.retryable] == [True, False, False]


async def test_a_body_that_was_not_signed_is_refused(solver: Party, auditor: Party) -> None:
    signed, other = encode_message(Said("one")), encode_message(Said("two"))
    async with solver.serve() as peer:
        path = conventions.format_desk("echo", signed)
        status, body = await post(peer, path, other, auditor.signer.sign("POST", path, peer.account))
        assert status == 401 and b"not the one that was signed" in body
        bare = f"/{conventions.DESK}/echo"
        assert (await post(peer, bare, signed, auditor.signer.sign("POST", bare, peer.account)))[0] == 401
        assert (await post(peer, path, signed))[0] == 401, "unsigned"
        assert (await post(peer, path, signed, auditor.signer.sign("GET", path, peer.account)))[0] == 401


async def test_a_long_message_is_not_read(solver: Party, auditor: Party) -> None:
    body = b" " * (1 << 22)
    async with solver.serve() as peer:
        path = conventions.format_desk("echo", body)
        try:
            status, said = await post(peer, path, body, auditor.signer.sign("POST", path, peer.account))
            assert status == 413 and REFUSAL.decode(said).what == "the message is too long"
        except aiohttp.ClientError:
            pass  # The connection was closed while the rest was sent.
        short = encode_message(Said("hello"))
        path = conventions.format_desk("echo", short)
        assert (await post(peer, path, short, auditor.signer.sign("POST", path, peer.account)))[0] == 200


async def test_a_slow_message_is_dropped(tmp_path: Path, auditor: Party) -> None:
    desks = {"echo": Desk(MOST_BYTES, echo)}
    solver = Party(tmp_path / "slow", 1, desks=desks, limits=WireLimits(body_seconds=0.1))
    whole = encode_message(Said("hello"))

    async def drip() -> object:
        yield whole[:4]
        await asyncio.sleep(1)
        yield whole[4:]

    async with solver.serve() as peer, open_session() as session:
        path = conventions.format_desk("echo", whole)
        pin = aiohttp.Fingerprint(peer.fingerprint)
        headers = auditor.signer.sign("POST", path, peer.account)
        try:
            async with session.post(peer.format_url(path), data=drip(), headers=headers, ssl=pin) as response:
                assert response.status == 408
        except aiohttp.ClientError:
            pass


async def test_one_account_cannot_take_all_places(tmp_path: Path, auditor: Party) -> None:
    free, most = asyncio.Event(), 0

    async def hold(account: str, body: bytes) -> Said:
        nonlocal most
        most += 1
        await free.wait()
        return Said("done")

    solver = Party(tmp_path / "held", 1, desks={"hold": Desk(MOST_BYTES, hold)})
    solver.limits = WireLimits(messages_per_account=2)
    async with solver.serve() as peer, auditor.make_client() as client:
        asking = [asyncio.create_task(client.ask(peer, "hold", Said(str(n)), SAID)) for n in range(5)]
        done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 3:
            done, _ = await asyncio.wait(asking, timeout=0.05)
        free.set()
        results = await asyncio.gather(*asking, return_exceptions=True)
    assert most == 2
    refused = [one for one in results if isinstance(one, ProtocolFault | EnvironmentFault)]
    assert len(refused) == 3 and all("too many" in str(one) for one in refused)


SERVER = make_key(2).address
PATH = "/blob/tensor/" + "ab" * 32


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
    with pytest.raises(ProtocolFault, match="not of this request"):
        make_verifier(clock).verify("GET", PATH, headers)


@pytest.mark.parametrize(
    "domain", [SigningDomain(1, DOMAIN.contract), SigningDomain(DOMAIN.chain_id, "0x" + "00" * 20)]
)
def test_a_signature_for_another_deployment_is_refused(clock: Clock, domain: SigningDomain) -> None:
    headers = RequestSigner(make_key(1), domain, clock).sign("GET", PATH, SERVER)
    with pytest.raises(ProtocolFault, match="not of this request"):
        make_verifier(clock).verify("GET", PATH, headers)


def test_a_signature_for_another_blob_or_method_is_refused(clock: Clock, signer: RequestSigner) -> None:
    for method, path in [("GET", PATH[:-2] + "ac"), ("HEAD", PATH), ("GET", PATH + "?x=1")]:
        with pytest.raises(ProtocolFault, match="not of this request"):
            make_verifier(clock).verify(method, path, signer.sign("GET", PATH, SERVER))


def test_nobody_signs_for_another(clock: Clock, signer: RequestSigner) -> None:
    headers = change(signer.sign("GET", PATH, SERVER), account=make_key(4).address.lower())
    with pytest.raises(ProtocolFault, match=make_key(4).address.lower()):
        make_verifier(clock).verify("GET", PATH, headers)


def test_an_unstaked_account_costs_no_signature_check(
    clock: Clock, signer: RequestSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(conventions, "recover_signer")
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
    monkeypatch.setattr(conventions, "MAX_REMEMBERED_NONCES", 2)
    verifier = make_verifier(clock)
    for _ in range(2):
        verifier.verify("GET", PATH, signer.sign("GET", PATH, SERVER))
    with pytest.raises(ProtocolFault, match="too many requests"):
        verifier.verify("GET", PATH, signer.sign("GET", PATH, SERVER))
    other = RequestSigner(make_key(5), DOMAIN, clock)
    verifier.verify("GET", PATH, other.sign("GET", PATH, SERVER))
