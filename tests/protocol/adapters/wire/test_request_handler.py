"""Messages to a handler over real HTTPS: signed with their body, bounded in size, time and number."""

import asyncio
from pathlib import Path
from typing import Annotated

import aiohttp
import pytest
from msgspec import Meta

from tests.protocol.adapters.parties import Party, make_key, open_session
from touchstone.protocol.adapters.messages import Count, Form, Message, encode_message
from touchstone.protocol.adapters.wire import request_handler
from touchstone.protocol.adapters.wire.json_answers import REFUSAL
from touchstone.protocol.adapters.wire.limits import WireLimits
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault

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
    return Party(tmp_path / "solver", 1, handlers={"echo": RequestHandler(MOST_BYTES, echo)})


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
        path = request_handler.format_handler("echo", signed)
        status, body = await post(peer, path, other, auditor.signer.sign("POST", path, peer.account))
        assert status == 401 and b"not the one that was signed" in body
        bare = f"/{request_handler.PATH}/echo"
        assert (await post(peer, bare, signed, auditor.signer.sign("POST", bare, peer.account)))[0] == 401
        assert (await post(peer, path, signed))[0] == 401, "unsigned"
        assert (await post(peer, path, signed, auditor.signer.sign("GET", path, peer.account)))[0] == 401


async def test_a_long_message_is_not_read(solver: Party, auditor: Party) -> None:
    body = b" " * (1 << 22)
    async with solver.serve() as peer:
        path = request_handler.format_handler("echo", body)
        try:
            status, said = await post(peer, path, body, auditor.signer.sign("POST", path, peer.account))
            assert status == 413 and REFUSAL.decode(said).what == "the message is too long"
        except aiohttp.ClientError:
            pass  # The connection was closed while the rest was sent.
        short = encode_message(Said("hello"))
        path = request_handler.format_handler("echo", short)
        assert (await post(peer, path, short, auditor.signer.sign("POST", path, peer.account)))[0] == 200


async def test_a_slow_message_is_dropped(tmp_path: Path, auditor: Party) -> None:
    handlers = {"echo": RequestHandler(MOST_BYTES, echo)}
    solver = Party(tmp_path / "slow", 1, handlers=handlers, limits=WireLimits(body_seconds=0.1))
    whole = encode_message(Said("hello"))

    async def drip() -> object:
        yield whole[:4]
        await asyncio.sleep(1)
        yield whole[4:]

    async with solver.serve() as peer, open_session() as session:
        path = request_handler.format_handler("echo", whole)
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

    solver = Party(tmp_path / "held", 1, handlers={"hold": RequestHandler(MOST_BYTES, hold)})
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
