"""A whistleblower of its own accord: which reports count, where it looks, and what it does of what it finds.
Reports come over real HTTPS, from honest servers and hostile ones."""

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from protocol.actions import attention
from protocol.actions.attention import Attention, gather_reports, get_ledger_path, load_ledger
from protocol.actions.boundaries import show_claim
from protocol.actions.challenge import to_claim
from protocol.actions.claim import Train
from protocol.actions.participant import Participant
from protocol.actions.report import AuditReport, sign_report
from protocol.actions.review import (
    ReviewRound,
    Target,
    choose_targets,
    is_review_due,
    list_undrawn,
    replay_target,
    review_round,
    take_reports,
)
from protocol.adapters.blobs import BlobKind, BlobRef, refer_state
from protocol.adapters.messages import encode_message
from protocol.adapters.wire.answers import MAX_LISTED, MAX_REPORT_BYTES, ListedReport
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.client import BlobClient
from protocol.adapters.wire.session import Peer
from protocol.compute.step import train_segment
from protocol.spec import events
from protocol.spec.drawn import compute_slot_draws
from protocol.spec.duties import get_auditor_actions
from protocol.spec.ledger import Ledger
from protocol.spec.round import RoundState, get_late_deadlines
from protocol.spec.statuses import ClaimStatus
from protocol.spec.tolerance import Judgement
from protocol.spec.typed_data import SigningDomain
from tests.protocol.actions.audits import Audited, audit_claim, replay_and_reveal, train_wrongly
from tests.protocol.actions.facts import TASK, announce, deposit
from tests.protocol.actions.lone import SOLVER, Lone, make_lone
from tests.protocol.actions.outcomes import accept_claim, post_outer
from tests.protocol.actions.test_report import make_report
from tests.protocol.adapters.parties import DOMAIN, HASTE, make_key, serve_hostile
from tests.protocol.adapters.parties import Party as Server
from tests.protocol.spec.simulator import make_word

WATCHER = make_key(99).address.lower()


@pytest.fixture
async def audited(solver: Lone) -> Audited:
    """An accepted claim of a merged round; its solver shows all of it."""
    found = await audit_claim(solver)
    await replay_and_reveal(found)
    found.open_end()
    accept_claim(found)
    post_outer(found, make_word("weights"), make_word("momentum"), SOLVER)
    await show_claim(solver.party, 0)
    return found


@pytest.fixture
def watcher(audited: Audited, tmp_path: Path) -> Lone:
    """A whistleblower that was drawn onto nothing."""
    lone = make_lone(tmp_path / "watcher", WATCHER, remote=audited.solver.party.store)
    lone.take(*audited.verifier.party.view.events[len(lone.party.view.events) :])
    object.__setattr__(lone.party.config, "key", make_key(99))
    return lone


def find_undrawn(lone: Lone) -> int:
    return list_undrawn(lone.party.round(0), 0)[0]


# --- When ---------------------------------------------------------------------------------------------------
def test_a_round_is_reviewed_once_after_its_claims_are_shown(watcher: Lone) -> None:
    state = watcher.party.round(0)
    late = get_late_deadlines(state, watcher.party.view.head_block)
    assert late is not None
    assert [is_review_due(state, late.late_show_end + block) for block in (-1, 0)] == [False, True]
    assert not is_review_due(state, late.dispute_end)
    role = Participant(watcher.party, get_auditor_actions, own_replays=1)
    assert ReviewRound(0) in role.decide(late.late_show_end).actions
    role.done.add(ReviewRound(0))
    assert ReviewRound(0) not in role.decide(late.late_show_end).actions
    idle = Participant(watcher.party, get_auditor_actions)
    assert ReviewRound(0) not in idle.decide(late.late_show_end).actions, "a verifier reviews nothing"


# --- Where --------------------------------------------------------------------------------------------------
def widen(state: RoundState, slots: int) -> RoundState:
    """The same round with as many solvers, all accepted."""
    claim = replace(state.claims[0], accepted_block=20, status=ClaimStatus.ACCEPTED)
    solvers = tuple(f"0x{slot:040x}" for slot in range(slots))
    return replace(state, solvers=solvers, claims=dict.fromkeys(range(slots), claim))


def look(slot: int, *reasons: str) -> Attention:
    return Attention((0, slot, 0), f"0x{slot:040x}", reasons, 0.1, "")


def test_choose_targets_turns_among_what_something_speaks_against(watcher: Lone) -> None:
    state = widen(watcher.party.round(0), 4)
    ranked = [look(2, "loud"), look(1, "flagged"), look(0), look(3)]
    everything = choose_targets(state, "", ranked, 100, random.Random(1))
    assert [target.slot for target in everything] == [2, 1, 2, 1, 0, 3, 0, 3]
    assert len({(target.slot, target.segment) for target in everything}) == len(everything)
    for target in everything:
        drawn = {found.segment for found in compute_slot_draws(state, target.slot)}
        assert target.segment not in drawn, "others look there already"
    assert everything[0].reasons == ("loud",) and everything[-1].reasons == ()
    [one] = choose_targets(state, "", ranked, 1, random.Random(1))
    assert one.slot == 2 and choose_targets(state, "", ranked, 0, random.Random(1)) == ()


def test_choose_targets_the_last_one_is_drawn_by_chance(watcher: Lone) -> None:
    state = widen(watcher.party.round(0), 4)
    liars = [look(0, "inconsistent")]
    chosen = [choose_targets(state, "", liars, 2, random.Random(seed)) for seed in range(60)]
    assert {targets[0].slot for targets in chosen} == {0}
    assert {targets[1].slot for targets in chosen} == {0, 1, 2, 3}, "reports cannot draw all eyes"
    assert {targets[1].reasons for targets in chosen} == {()}


def test_choose_targets_only_accepted_claims_of_others(watcher: Lone) -> None:
    state = widen(watcher.party.round(0), 3)
    void = replace(state.claims[0], status=ClaimStatus.VOID)
    state = replace(state, claims={**state.claims, 1: void}, settled_slots=frozenset({2}))
    assert {target.slot for target in choose_targets(state, "", [], 9, random.Random(1))} == {0}
    assert choose_targets(state, state.solvers[0], [], 9, random.Random(1)) == ()


# --- The ledger ---------------------------------------------------------------------------------------------
def test_take_reports_counts_only_what_the_chain_drew(audited: Audited, watcher: Lone) -> None:
    primary = audited.verifier.party.account
    good = make_report(
        task=TASK, round=0, slot=0, solver=SOLVER, segment=audited.segment, auditor=primary,
        judgement=Judgement.ACCEPT,
    )  # fmt: skip
    strangers = [replace(good, auditor=WATCHER), replace(good, segment=find_undrawn(watcher))]
    assert take_reports(watcher.party, 0, strangers) == Ledger()
    ledger = take_reports(watcher.party, 0, [good, *strangers])
    assert (ledger.round, ledger.entries[SOLVER].rounds) == (0, 1)
    assert take_reports(watcher.party, 0, [good]) == ledger, "a restarted node counts a round once"
    assert load_ledger(get_ledger_path(watcher.party.config.home, TASK)) == ledger


def test_take_reports_a_damaged_ledger_is_told_and_left_alone(watcher: Lone) -> None:
    path = get_ledger_path(watcher.party.config.home, TASK)
    path.write_text("{")
    assert take_reports(watcher.party, 0, []) == Ledger()
    assert path.read_text() == "{" and any("ledger" in line for line in watcher.lines)


# --- Looking ------------------------------------------------------------------------------------------------
async def replay(lone: Lone, train: Train = train_segment, until_block: int = 10**9) -> int:
    segment = find_undrawn(lone)
    await replay_target(lone.party, 0, Target(0, segment), until_block, train)
    return segment


async def test_replay_target_an_honest_segment_leaves_nothing_behind(audited: Audited, watcher: Lone) -> None:
    segment = await replay(watcher)
    assert not watcher.party.memory.accusations and not watcher.party.status.reports
    refs = [ref for at in (segment, segment + 1) for ref in refer_state(audited.boundary(at), 1)]
    kept = [ref for ref in refs if watcher.party.store.get_size_bytes(ref.key)]
    shared = {audited.boundary(0).weights_root}  # The initial model was there before.
    assert {ref.key.root for ref in kept} <= shared


async def test_replay_target_beyond_the_limits_is_reported_and_accused(
    audited: Audited, watcher: Lone
) -> None:
    store = watcher.party.store
    before = {key.root for key in store.list_keys(BlobKind.TENSOR)}
    # To the watcher the honest claim is as far off as a false one would be.
    segment = await replay(watcher, train_wrongly)
    [made] = watcher.party.memory.accusations
    assert (to_claim(made).segment, made.by_solver, made.slot) == (segment, True, 0)
    assert len(watcher.party.status.reports) == 1
    ends = (audited.boundary(segment), audited.boundary(segment + 1))
    claimed = {ref.key.root for header in ends for ref in refer_state(header, 1)}
    kept = {key.root for key in store.list_keys(BlobKind.TENSOR)}
    assert kept == before | claimed, "a dispute needs the start, and nobody the own end"


async def test_replay_target_what_is_not_served_is_published(audited: Audited, watcher: Lone) -> None:
    watcher.client.remote = watcher.party.store
    await replay(watcher, until_block=0)
    assert len(watcher.party.status.reports) == 1 and not watcher.party.memory.accusations


# --- The whole round, over HTTPS ----------------------------------------------------------------------------
def list_report(server: Server, domain: SigningDomain, report: AuditReport) -> None:
    ref = server.store.put_bytes(sign_report(report, server.key, domain))
    server.reports.append(ListedReport(ref.key.root, ref.size_bytes))


def make_server(tmp_path: Path, seed: int) -> Server:
    return Server(tmp_path / f"server-{seed}", seed)


def know(lone: Lone, server: Server, url: str) -> None:
    """The chain tells where this server is."""
    known = replace(announce(server.account), url=url, certificate_sha256=server.identity.fingerprint)
    lone.take(known, deposit(server.account))


async def test_gather_reports_takes_the_honest_and_names_the_hostile(
    audited: Audited, watcher: Lone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(attention, "PEER_SECONDS", 3.0)
    caplog.set_level(logging.WARNING)
    party = watcher.party
    domain = attention.get_domain(party)
    honest, forger, flooder, staller = (make_server(tmp_path, seed) for seed in range(1, 5))
    good = make_report(
        task=TASK, round=0, slot=0, solver=SOLVER, segment=audited.segment, auditor=honest.account
    )
    list_report(honest, domain, good)
    list_report(honest, domain, replace(good, round=1))
    forged = sign_report(replace(good, auditor=honest.account), honest.key, domain)
    stolen = forger.store.put_bytes(forged)
    broken = forger.store.put_bytes(forged.replace(b'"excess":0.5', b'"excess":0.4'))
    forger.reports += [ListedReport(ref.key.root, ref.size_bytes) for ref in (stolen, broken)]
    flooder.reports += [ListedReport(index.to_bytes(32), MAX_REPORT_BYTES) for index in range(MAX_LISTED)]

    async def flood(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/status":
            return web.Response(body=encode_message(flooder.show_status()))
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 16))

    async def stall(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    before = {kind: party.store.list_keys(kind) for kind in (ref.key.kind for ref in (stolen,))}
    async with AsyncExitStack() as stack:
        signer = RequestSigner(make_key(99), DOMAIN)
        client = await stack.enter_async_context(BlobClient(party.store, signer, HASTE))
        party.client = client
        for server in (honest, forger):
            know(watcher, server, (await stack.enter_async_context(server.serve())).url)
        for server, handler in ((flooder, flood), (staller, stall)):
            know(watcher, server, (await stack.enter_async_context(serve_hostile(server, handler))).url)
        accounts = [server.account for server in (honest, forger, flooder, staller)]
        assert await gather_reports(party, [*accounts, "0x" + "77" * 20], 0) == [good]
    said = caplog.text
    for server in (forger, flooder, staller):
        assert server.account in said, "whoever is refused is named"
    assert f"signed by {honest.account}" not in said.split(forger.account)[0]
    assert {kind: party.store.list_keys(kind) for kind in before} == before, "nothing of it is kept"


async def test_review_round_follows_a_report_to_an_undrawn_segment(
    audited: Audited, watcher: Lone, tmp_path: Path
) -> None:
    party = watcher.party
    auditor = make_server(tmp_path, 1)
    enrolled = events.Enrolled(block_number=21, task=TASK, round=0, account=auditor.account, role=2, index=3)  # type: ignore[arg-type]
    report = make_report(
        task=TASK, round=0, slot=0, solver=SOLVER, segment=audited.segment, auditor=auditor.account
    )
    list_report(auditor, attention.get_domain(party), report)
    lone_client = watcher.client
    async with AsyncExitStack() as stack:
        peer = await stack.enter_async_context(auditor.serve())
        real = await stack.enter_async_context(BlobClient(party.store, auditor.signer, HASTE))

        class Client:
            """Reports over HTTPS, the solver's states from its store."""

            async def get_status(self, asked: Peer) -> object:
                return await real.get_status(asked)

            async def fetch_steps(self, *asked: Any) -> tuple[bytes, ...]:
                return await lone_client.fetch_steps(*asked)

            async def fetch_from_any(self, peers: Sequence[Peer], ref: BlobRef) -> None:
                is_auditor = list(peers) == [party.view.network.find(auditor.account)]
                await (real if is_auditor else lone_client).fetch_from_any(peers, ref)

        party.client = Client()  # type: ignore[assignment]
        watcher.take(enrolled)
        know(watcher, auditor, peer.url)
        assert auditor.account in {*party.round(0).verifiers, *party.round(0).whistleblowers}
        await review_round(party, 0, 1, train_wrongly)
    [line] = [line for line in watcher.lines if "reports read" in line]
    assert "1 reports read" in line and "inconsistent" in line
    assert len(party.memory.accusations) == 1
