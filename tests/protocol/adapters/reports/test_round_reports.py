"""Reports of a round as strangers send them: asked for unsigned, read within limits, counted if signed."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from tests.protocol.adapters.parties import Party, make_key, open_session, serve_hostile
from tests.verifier.stage import SIGNING, SOLVER, get_account, make_stage
from touchstone.protocol.adapters.keys.signatures import sign_statement
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.reports import round_reports
from touchstone.protocol.adapters.reports.round_reports import (
    AUDITS_MAX,
    REPORTS_BYTES,
    REPORTS_FORM,
    DistancesSaid,
    LossSaid,
    ReportClient,
    ReportsSaid,
    is_signed,
    read_distances,
    read_loss,
)
from touchstone.protocol.adapters.wire import request_paths
from touchstone.protocol.adapters.wire.limits import WireLimits
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.reach_messages import REACH, REACH_SAID, Reach, ReachAsked, ReachSaid
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.session import RetryPolicy
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.signed_reports import MILLIONTHS_MAX, Comparison
from touchstone.protocol.spec.statements import VoteWord

TASK = b"t" * 32
LOSS = LossSaid(0, 8, 5_557_000, 3_058_000, 4_100_000, bytes(64))
FAR = DistancesSaid(0, 1, 2, VoteWord.ACCEPT, Comparison.MEASURED, 31_000, 0, 999_999, bytes(64))
SAID = ReportsSaid(LOSS, (FAR,))
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@pytest.fixture
def node(tmp_path: Path) -> Party:
    return Party(tmp_path / "node", 1, is_member=lambda account: False)


async def ask(peer: Peer, *, are_private_asked: bool = True) -> ReportsSaid:
    async with ReportClient(are_private_asked=are_private_asked) as client:
        return await client.ask(peer, TASK, 7)


# Asking
async def test_reports_are_had_without_a_signature(node: Party) -> None:
    asked: list[tuple[bytes, int]] = []

    def get_reports(task: bytes, index: int) -> ReportsSaid:
        asked.append((task, index))
        return SAID

    node.get_reports = get_reports
    async with node.serve() as peer:
        assert await ask(peer) == SAID
    assert asked == [(TASK, 7)]


async def test_a_node_that_works_on_another_task_says_so(node: Party) -> None:
    async with node.serve() as peer:
        with pytest.raises(EnvironmentFault, match="404.*does not work on the task"):
            await ask(peer)


@pytest.mark.parametrize("path", ["/reports/12/0", f"/reports/{'ab' * 32}", f"/reports/{'ab' * 32}/-1",
                                  f"/reports/{'ab' * 32}/9999999999", f"/reports/{'AB' * 32}/0"])  # fmt: skip
async def test_what_names_no_round_is_not_found(node: Party, path: str) -> None:
    node.get_reports = lambda task, index: SAID
    async with (
        node.serve() as peer,
        open_session() as session,
        session.get(peer.format_url(path), ssl=False) as answer,
    ):
        assert answer.status == 404


async def test_who_asks_for_reports_uses_what_strangers_share(tmp_path: Path) -> None:
    """A member is served all the same."""
    member = Party(tmp_path / "member", 2)
    limits = WireLimits(strangers_per_second=0, strangers_burst=2, stranger_address_burst=0)
    node = Party(
        tmp_path / "node", 1, is_member=lambda account: account == member.account, limits=limits,
        get_reports=lambda task, index: SAID,
    )  # fmt: skip
    path = request_paths.format_reports(TASK, 7)
    async with node.serve() as peer, open_session() as session, member.make_client() as client:
        statuses = []
        for _ in range(4):
            async with session.get(peer.format_url(path), ssl=False) as answer:
                statuses.append(answer.status)
        assert statuses == [200, 200, 429, 429]
        assert (await client.get_status(peer)).account == node.account


async def test_one_address_that_asks_for_reports_takes_not_all_that_strangers_share(tmp_path: Path) -> None:
    """It signs nothing, so it costs nothing; and who wants to join the task is a stranger too."""
    stranger, said = Party(tmp_path / "stranger", 2), ReachSaid("", bytes(32), Reach.SILENT)

    async def answer(account: str, body: bytes) -> ReachSaid:
        return said

    most = WireLimits().burst_reports
    limits = WireLimits(strangers_per_second=0, strangers_burst=most + 2, reports_per_second=0)
    node = Party(
        tmp_path / "node", 1, is_member=lambda account: False, limits=limits,
        get_reports=lambda task, index: SAID, handlers={REACH: RequestHandler(100, answer)},
    )  # fmt: skip
    path = request_paths.format_reports(TASK, 7)
    async with node.serve() as peer, open_session() as session, stranger.make_client() as client:
        statuses = Counter[int]()
        for _ in range(most + 9):
            async with session.get(peer.format_url(path), ssl=False) as found:
                statuses[found.status] += 1
        assert statuses == {200: most, 429: 9}
        assert await client.ask(peer, REACH, ReachAsked(), REACH_SAID) == said


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:{}", "https://[::1]:{}", "https://localhost:{}", "https://10.1.2.3:{}",
            "https://169.254.169.254:{}", "https://[::ffff:127.0.0.1]:{}", "https://[fd00::1]:{}"]
)  # fmt: skip
async def test_an_address_inside_of_a_network_is_not_connected_to(node: Party, url: str) -> None:
    """Whoever announces it would have this machine look for services there, and hear whether one answers."""
    asked = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(body=encode_message(SAID))

    async with serve_hostile(node, answer) as peer:
        inside = Peer(peer.account, url.format(peer.url.rsplit(":", 1)[1]), peer.fingerprint)
        with pytest.raises(EnvironmentFault):
            await ask(inside, are_private_asked=False)
        assert not asked
        assert await ask(peer) == SAID, "an operator may say that they are its own"


async def test_a_server_with_another_certificate_is_sent_nothing(node: Party) -> None:
    """So an address of somebody else's is not asked anything, whoever announced it."""
    asked = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(body=encode_message(SAID))

    async with serve_hostile(node, answer) as peer:
        with pytest.raises(ProtocolFault, match="another TLS certificate"):
            await ask(replace(peer, fingerprint=bytes(32)))
    assert not asked


# What a liar may answer
def spoil(**changes: Any) -> bytes:
    """The answer with other values in its loss."""
    value = json.loads(encode_message(SAID))
    value["loss"] |= changes
    return json.dumps(value).encode()


def give(body: bytes, status: int = 200) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers={"Location": "https://127.0.0.1:1/"})

    return answer


async def send_forever(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65_536)


async def stay_silent(request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(3_600)
    raise AssertionError


HOSTILE: dict[str, Answer] = {
    "no JSON": give(b"\xff\xfe"),
    "nothing": give(b""),
    "deep": give(b"[" * 60_000),
    "not a number": give(spoil().replace(b"4100000", b"NaN")),
    "infinite": give(spoil().replace(b"4100000", b"1e400")),
    "a fraction": give(spoil(mean_micronats=4.1)),
    "negative": give(spoil(mean_micronats=-1)),
    "too large": give(spoil(mean_micronats=MILLIONTHS_MAX + 1)),
    "huge": give(spoil(steps=1 << 200)),
    "a text": give(spoil(mean_micronats="<script>")),
    "more": give(spoil(note="<script>alert(1)</script>")),
    "short signature": give(spoil(signature="AAAA")),
    "many": give(encode_message(ReportsSaid(None, (FAR,) * (AUDITS_MAX + 1)))),
    "too long": give(encode_message(SAID) + b" " * REPORTS_BYTES),
    "endless": send_forever,
    "silent": stay_silent,
    "redirected": give(encode_message(SAID), 307),
    "refused": give(b"no", 500),
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
async def test_what_is_no_report_is_refused(
    node: Party, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_reports, "RETRY_POLICY", RetryPolicy(attempts=1, connect_s=3.0, silence_s=0.3))
    async with serve_hostile(node, answer) as peer:
        with pytest.raises((ProtocolFault, EnvironmentFault)) as caught:
            await ask(peer)
    assert "<script>" not in str(caught.value.what) and len(str(caught.value)) < 2_000


def test_the_longest_answer_fits() -> None:
    """Else an honest node's would be refused."""
    far = replace_all(FAR, MILLIONTHS_MAX)
    said = ReportsSaid(LOSS, (far,) * AUDITS_MAX)
    assert len(encode_message(said)) <= REPORTS_BYTES and REPORTS_FORM.decode(encode_message(said)) == said


def replace_all(said: DistancesSaid, figure: int) -> DistancesSaid:
    numbers = ((1 << 32) - 1,) * 3
    return DistancesSaid(*numbers, said.word, said.comparison, *(figure,) * 3, said.signature)


# Reading
def test_a_report_names_the_claim_of_the_chain_and_counts_with_its_solver_s_signature() -> None:
    stage = make_stage()
    said = LossSaid(stage.slot, 8, 3, 1, 2, bytes(64))
    found = read_loss(stage.game, 0, said)
    assert found is not None and found[0] == get_account(SOLVER)
    report = found[1]
    assert (report.claim_root, report.round, report.slot) == (stage.claim.root, 0, stage.slot)
    assert (report.steps, report.first_micronats, report.last_micronats, report.mean_micronats) == (
        8,
        3,
        1,
        2,
    )
    right = sign_statement(make_key(SOLVER), report, SIGNING)
    assert is_signed(report, right, get_account(SOLVER), SIGNING)
    for wrong in (
        sign_statement(make_key(SOLVER + 1), report, SIGNING),
        sign_statement(make_key(SOLVER), report, replace(SIGNING, chain_id=1)),
        sign_statement(make_key(SOLVER), replace(report, mean_micronats=3), SIGNING),
        bytes(64),
        b"\xff" * 64,
    ):
        assert not is_signed(report, wrong, get_account(SOLVER), SIGNING)


def test_a_place_that_the_chain_does_not_have_is_none() -> None:
    stage = make_stage()
    assert read_loss(stage.game, 0, LossSaid(stage.slot ^ 1, 8, 3, 1, 2, bytes(64))) is None
    assert read_loss(stage.game, 5, LossSaid(stage.slot, 8, 3, 1, 2, bytes(64))) is None
    drawn = stage.get_drawn()
    place = {"slot": drawn.place.slot, "draw": drawn.place.draw, "rank": drawn.place.rank}
    value = json.loads(encode_message(FAR)) | place

    def read(index: int = 0, **changes: int) -> Any:
        said = json.dumps({"loss": None, "audits": [value | changes]}).encode()
        return read_distances(stage.game, index, REPORTS_FORM.decode(said).audits[0])

    found = read()
    assert found is not None and found[0] == drawn.seat.account and found[1].segment == drawn.segment
    assert cast(Any, found[1]).seed == drawn.place.seed
    for changes in (
        {"slot": 77},
        {"draw": 77},
        {"rank": 3},
        {"draw": (1 << 32) - 1},
        {"rank": (1 << 32) - 1},
    ):
        assert read(**changes) is None, changes
    assert read(index=9) is None
