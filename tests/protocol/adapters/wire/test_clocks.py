"""A machine whose clock is wrong is served all the same, and its operator is told; a liar gains nothing."""

import logging
import re
import time
from pathlib import Path

import pytest
from aiohttp import web

from tests.protocol.adapters.parties import DOMAIN, Party, make_key, make_tensor, serve_hostile
from tests.protocol.adapters.wire.test_request_handler import MOST_BYTES, SAID, Said, echo
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.wire import clocks
from touchstone.protocol.adapters.wire.clocks import PeerClocks, find_own_error
from touchstone.protocol.adapters.wire.json_answers import RefusalAnswer
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.spec.errors import EnvironmentFault

DAY_S = 24 * 3600


def set_clock(party: Party, ahead_s: float) -> None:
    """The party's machine has another time than all others."""
    party.signer = RequestSigner(party.key, DOMAIN, lambda: time.time() + ahead_s)


@pytest.fixture
def auditor(tmp_path: Path) -> Party:
    return Party(tmp_path / "auditor", 2)


@pytest.mark.parametrize("ahead_s", [-DAY_S, -90, 90, DAY_S])
@pytest.mark.parametrize("is_server", [False, True])
async def test_who_has_the_wrong_time_is_served_and_serves(
    tmp_path: Path, auditor: Party, ahead_s: float, is_server: bool
) -> None:
    """Each request was refused: who asked took that for a peer that serves nothing, and a fee followed."""
    handlers = {"echo": RequestHandler(MOST_BYTES, echo)}
    solver, (data, ref) = Party(tmp_path / "solver", 1, handlers=handlers), make_tensor(1000)
    solver.store.put(ref, data)
    server = solver.make_server()
    if is_server:
        server._verifier._now = lambda: time.time() + ahead_s
    else:
        set_clock(auditor, ahead_s)
    peer = solver.make_peer(await server.start())
    async with auditor.make_client() as client:
        assert await client.ask(peer, "echo", Said("hello"), SAID) == Said(f"{auditor.account}: hello"[:40])
        await client.fetch(peer, ref)
    await server.stop()
    assert auditor.store.get(ref) == data


async def test_the_operator_is_told_once_by_what_several_peers_say(
    tmp_path: Path, auditor: Party, caplog: pytest.LogCaptureFixture
) -> None:
    set_clock(auditor, -90)
    words = []
    for seed in (11, 12, 13):
        peer, (data, ref) = Party(tmp_path / str(seed), seed), make_tensor(1000, seed)
        peer.store.put(ref, data)
        async with peer.serve() as place, auditor.make_client() as client:
            await client.fetch(place, ref)
        words.append([one.getMessage() for one in caplog.records if one.levelno == logging.WARNING])
    assert words[0] == [] and len(words[1]) == 1 and words[2] == words[1]
    assert re.match("this machine's clock is (89|90) s behind that of its peers", words[1][0])


async def test_a_peer_that_calls_every_request_stale_is_given_up_and_changes_nothing_else(
    tmp_path: Path, auditor: Party, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever times it tells."""
    liar, honest, (data, ref) = Party(tmp_path / "liar", 1), Party(tmp_path / "honest", 3), make_tensor(1000)
    honest.store.put(ref, data)
    told = list[int]()

    async def lie(_: web.BaseRequest) -> web.StreamResponse:
        told.append(len(told) * DAY_S)
        said = RefusalAnswer("the request is stale", unix_second=told[-1])
        return web.Response(status=401, body=encode_message(said))

    async with serve_hostile(liar, lie) as peer, honest.serve() as other, auditor.make_client() as client:
        with pytest.raises(EnvironmentFault, match="the request is stale"):
            await client.fetch(peer, ref)
        await client.fetch(other, ref)
    assert len(told) == auditor.retry_policy.attempts
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_a_refusal_without_a_word_of_the_time_is_final(tmp_path: Path, auditor: Party) -> None:
    """So is one of a peer whose clock is not far away: something else is wrong."""
    solver, (_, ref) = Party(tmp_path / "solver", 1, is_staked=lambda account: False), make_tensor(10)
    async with solver.serve() as peer, auditor.make_client() as client:
        with pytest.raises(EnvironmentFault, match="status 401") as fault:
            await client.fetch(peer, ref)
    assert not fault.value.retryable


@pytest.mark.parametrize(
    ("told", "error_s"),
    [
        ([], None),
        ([90], None),
        ([90, 91], 90.5),
        ([90, 91, 0], 90),
        ([90, 91, 0, 0, 0], None),
        ([-90, -91, 0], -90),
        ([90, -90, 0], None),
        ([clocks.OFF_S] * 9, None),
    ],
)
def test_most_peers_decide_whose_clock_is_wrong(told: list[float], error_s: float | None) -> None:
    assert find_own_error(told) == error_s


def test_a_clock_that_is_set_right_is_believed_again(caplog: pytest.LogCaptureFixture) -> None:
    """The peer's own, or that of this machine: the next refusal tells."""
    now = [1000.0]
    known = PeerClocks(lambda: now[0])
    assert known.note_told("a", 1090) and known.note_told("b", 1090) and known.get_time("a") == 1090
    now[0] = 1090.0
    assert known.note_told("a", 1090) and known.get_time("a") == 1090 == known.get_time("another")
    assert not known.note_told("a", 1095), "a request that was signed by the right time is not sent again"
    assert [one.levelname for one in caplog.records if "agrees" in one.getMessage()] == ["WARNING"]


@pytest.mark.parametrize("told", [0, (1 << 40) - 1])
@pytest.mark.parametrize("set_s", [-40.0, 40.0, -1_700_000_000.0])
def test_whatever_second_a_peer_names_its_requests_can_be_signed(told: int, set_s: float) -> None:
    """Else no request was sent to it any more, and it told no other time: an auditor abstained, and a solver
    that served nothing went free."""
    now, solver = [1_800_000_000.0], make_key(2).address.lower()
    signer = RequestSigner(make_key(1), DOMAIN, lambda: now[0])
    assert signer.clocks.note_told(solver, told)
    now[0] += set_s
    assert signer.sign("GET", "/health", solver)


def test_only_so_many_clocks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "MOST_CLOCKS", 2)
    known = PeerClocks(lambda: 1000.0)
    for account in "abc":
        assert known.note_told(account, 5000)
    assert known.get_time("a") == 1000 and known.get_time("c") == 5000
