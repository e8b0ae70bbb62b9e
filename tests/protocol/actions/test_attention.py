"""Reports between nodes: what an audit publishes, what a whistleblower takes of it, where it looks first."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from msgspec import structs

from protocol.actions import attention, challenge
from protocol.actions.attention import (
    fetch_reports,
    gather_observations,
    get_ledger_path,
    list_refs,
    load_ledger,
    make_report,
    publish_unserved,
    rank_claims,
    save_ledger,
    screen_claim,
)
from protocol.actions.past import PastFile
from protocol.actions.replay import NotServed, compare_ends, get_schedule_proof
from protocol.actions.report import MAX_TENSORS, AuditReport, StepScreen, sign_report
from protocol.actions.states import keep_state, load_state, open_state
from protocol.adapters.keys import AccountKey
from protocol.adapters.wire.answers import MAX_LISTED, ListedReport
from protocol.adapters.wire.session import Peer
from protocol.compute import compare, residuals
from protocol.compute.compare import judge_state
from protocol.compute.screens import measure_tensors
from protocol.compute.step import train_segment
from protocol.spec.errors import InvalidInput
from protocol.spec.ledger import Entry, Ledger, Observation
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.audits import REF, Audited, audit_claim, replay_and_reveal
from tests.protocol.actions.lone import SOLVER, Lone, get_spec, make_lone
from tests.protocol.actions.test_report import KEY
from tests.protocol.actions.test_report import make_report as invent_report
from tests.protocol.spec.test_ledger import play as play_ledger

AUDITOR = "verifier"


@pytest.fixture
async def audited(solver: Lone) -> Audited:
    """The claimed end is grey: three accept limits off in one first moment. The verifier signs with its own
    key."""
    found = await audit_claim(solver)
    own_key(found.verifier)
    await replay_and_reveal(found)
    state = load_state(solver.party, found.boundary(found.segment + 1))
    at, tau = int(state.second_moment.argmax()), get_spec().terms.accept.tau_m * 2.0**-64
    state.first_moment[at] += 3 * tau * float(state.second_moment[at].sqrt())
    found.open_end(keep_state(solver.party, state))
    return found


def own_key(lone: Lone) -> None:
    """Signs as the account that the party has, without its key: the test's chain made accounts of names."""

    class Key(AccountKey):
        __slots__ = ()

        @property
        def address(self) -> str:
            return lone.party.account

    object.__setattr__(lone.party.config, "key", Key(KEY._account))


def sign_as(report: AuditReport) -> AuditReport:
    return replace(report, auditor=KEY.address.lower())


async def test_publish_audit_tells_what_was_found(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[AuditReport] = []
    monkeypatch.setattr(attention, "publish", lambda party, report: seen.append(report))
    audited.verifier.client.status = structs.replace(audited.verifier.client.status, hardware="abacus")
    await challenge.examine_end(audited.verifier.party, REF, audited.segment, train_segment)
    [report] = seen
    assert (report.place, report.solver) == ((0, 0, audited.segment), SOLVER)
    assert report.judgement is Judgement.GREY and 0 < report.excess < 1
    assert report.distances[1] == pytest.approx(3, rel=0.01) and report.distances[0] == 0
    assert report.tensors[0].first_moment > 0 == report.tensors[0].weights
    assert report.hardware.startswith("abacus/") and len(report.projections) == 3
    [screen] = report.screens
    assert (screen.first, screen.steps) == (0, get_spec().terms.segment_steps) and screen.is_consistent
    assert {projection.past for projection in report.projections} == {None}, "nothing was seen before"


async def test_publish_audit_an_end_that_no_gradients_give_is_told(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[AuditReport] = []
    monkeypatch.setattr(attention, "publish", lambda party, report: seen.append(report))
    state = load_state(audited.solver.party, audited.boundary(audited.segment + 1))
    invented = replace(state, second_moment=state.second_moment * 0.1)
    audited.open_end(keep_state(audited.solver.party, invented))
    await challenge.examine_end(audited.verifier.party, REF, audited.segment, train_segment)
    assert seen[0].is_inconsistent and seen[0].screens[0].wrong_moments > 100


async def test_publish_audit_a_residual_that_repeats_is_told(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[AuditReport] = []
    monkeypatch.setattr(attention, "publish", lambda party, report: seen.append(report))
    party = audited.verifier.party
    solver_past = (0, 0, audited.segment + 1)
    count = get_spec().terms.parameter_count
    earlier = torch.zeros(count)
    at = int(load_state(party, audited.boundary(audited.segment + 1)).second_moment.argmax())
    earlier[at] = 1.0
    file = PastFile(party.config.home, party.task, SOLVER, count)
    file.add(solver_past, [(earlier, earlier, earlier)], (1.0, 1.0, 1.0))
    await challenge.examine_end(party, REF, audited.segment, train_segment)
    await challenge.examine_end(party, REF, audited.segment, train_segment)
    first, again = seen
    past = {projection.quantity: projection.past for projection in first.projections}
    assert past["first_moment"] == pytest.approx(count**0.5, rel=1e-5), "the same direction as before"
    assert past["weights"] == past["second_moment"] == 0
    assert again.projections[0].past is None, "an audit is not its own past"


async def test_make_report_of_stored_states_has_the_bytes_of_loaded_ones(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (compare, residuals):
        monkeypatch.setattr(module, "PART_ELEMENTS", 1024)
    party, terms = audited.verifier.party, get_spec().terms
    begin, seen = (
        audited.boundary(audited.segment),
        await compare_ends(party, REF, audited.segment, train_segment),
    )
    rates, _ = get_schedule_proof(party, 0, audited.segment)
    report = make_report(party, REF, audited.segment, rates, open_state(party, begin), seen, "")

    headers = (seen.claimed.header, seen.replayed.header, begin)
    claimed, replayed, start = (load_state(party, header) for header in headers)
    assert judge_state(claimed, replayed, rates, terms.accept, terms.reject) == seen.verdict
    left = residuals.compute_residuals(claimed, replayed, rates, terms.accept)
    tensors = measure_tensors(claimed, replayed, start, get_spec().training.model)
    seed = party.round(0).draw_seed
    assert seed is not None and replayed.elements > 4096
    whole = replace(
        report,
        distances=tuple(float(one.abs().max()) for one in left),
        tensors=tuple(sorted(tensors, key=lambda tensor: -tensor.worst)[:MAX_TENSORS]),
        screens=(screen_claim(start, claimed, get_spec().training),),
        projections=residuals.project(left, start, replayed, seed),
    )
    key, domain = party.config.key, attention.get_domain(party)
    assert sign_report(report, key, domain) == sign_report(whole, key, domain)
    assert max(report.distances) > 0 and len(report.tensors) > 1


async def test_publish_lists_what_is_served_once(audited: Audited) -> None:
    party = audited.verifier.party
    await challenge.examine_end(party, REF, audited.segment, train_segment)
    await challenge.examine_end(party, REF, audited.segment, train_segment)
    [ref] = list_refs(party.status.show())
    assert party.store.has(ref)


async def test_examine_end_what_is_not_served_is_published(audited: Audited) -> None:
    audited.withhold()
    with pytest.raises(NotServed):
        await challenge.examine_end(audited.verifier.party, REF, audited.segment, train_segment)
    assert len(audited.verifier.party.status.reports) == 1


async def test_publish_audit_that_fails_stops_nothing(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise InvalidInput(what="no", expected="", actual="", remedy="")

    monkeypatch.setattr(attention, "publish", fail)
    await challenge.examine_end(audited.verifier.party, REF, audited.segment, train_segment)
    assert any("differs, grey" in line for line in audited.verifier.lines)


# --- Reading ------------------------------------------------------------------------------------------------
def make_reader(tmp_path: Path) -> tuple[Lone, Peer]:
    reader = make_lone(tmp_path / "reader")
    return reader, Peer(KEY.address.lower(), "https://127.0.0.1:9", bytes(32))


def show(reader: Lone, report: AuditReport) -> None:
    """The peer lists this report."""
    domain = attention.get_domain(reader.party)
    ref = reader.client.remote.put_bytes(sign_report(report, KEY, domain))
    list_ref(reader, ListedReport(ref.key.root, ref.size_bytes))


def list_ref(reader: Lone, entry: ListedReport) -> None:
    status = reader.client.status
    reader.client.status = structs.replace(status, reports=(*status.reports, entry))


async def test_fetch_reports_takes_only_what_the_chain_knows(tmp_path: Path) -> None:
    reader, peer = make_reader(tmp_path)
    good = invent_report(task=reader.party.task, round=0, slot=0, solver=SOLVER)
    wrong = [replace(good, **change) for change in ({"task": bytes(32)}, {"round": 9}, {"slot": 1})]
    for report in (*wrong, replace(good, solver="0x" + "01" * 20), good):
        show(reader, report)
    list_ref(reader, ListedReport(bytes(32), 100))
    assert await fetch_reports(reader.party, peer) == [good]


async def test_fetch_reports_of_another_auditor_are_left_out(tmp_path: Path) -> None:
    reader, peer = make_reader(tmp_path)
    show(reader, invent_report(task=reader.party.task, round=0, slot=0, solver=SOLVER))
    assert await fetch_reports(reader.party, replace(peer, account="0x" + "01" * 20)) == []


def test_publish_lists_the_latest(tmp_path: Path) -> None:
    lone = make_lone(tmp_path / "one")
    own_key(lone)
    for segment in range(MAX_LISTED + 3):
        publish_unserved(lone.party, REF, segment)
    refs = list_refs(lone.party.status.show())
    assert len(refs) == MAX_LISTED
    assert f'"segment":{MAX_LISTED + 2},'.encode() in lone.party.store.get(refs[-1])


def test_publish_unserved_is_a_report_without_judgement(tmp_path: Path) -> None:
    lone = make_lone(tmp_path / "one")
    own_key(lone)
    publish_unserved(lone.party, REF, 2)
    [ref] = list_refs(lone.party.status.show())
    assert b'"judgement":null' in lone.party.store.get(ref)


# --- The ledger ---------------------------------------------------------------------------------------------
def test_gather_observations_one_report_a_segment_of_one_class() -> None:
    base = invent_report(solver="0x" + "aa" * 20)
    reports = [
        replace(base, segment=0, hardware="a/b"),
        replace(base, segment=0, hardware="a/b", auditor="0x" + "ff" * 20),
        replace(base, segment=2, hardware="a/b"),
        replace(base, segment=1, hardware="a/c"),
        replace(base, segment=3, hardware="a/b", judgement=Judgement.REJECT),
        replace(base, segment=3, hardware="a/b", projections=()),
    ]
    assert gather_observations(reports) == [Observation(base.solver, "a/b", (base.projections,) * 2)]


def test_save_ledger_is_loaded_again(tmp_path: Path) -> None:
    path = get_ledger_path(tmp_path, bytes(32))
    assert load_ledger(path) == Ledger()
    for ledger in (Ledger({"a": Entry(rounds=2)}, 2), Ledger(round=3), play_ledger(0, rounds=9)):
        save_ledger(path, ledger)
        assert load_ledger(path) == ledger


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"round":1}', '{"entries":{},"round":1,"more":1}'])
def test_load_ledger_damaged_is_refused(tmp_path: Path, text: str) -> None:
    path = get_ledger_path(tmp_path, bytes(32))
    path.write_text(text)
    with pytest.raises(InvalidInput, match=f"cannot be read at {path}.*begins anew"):
        load_ledger(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"unit":', '"unit":-'),
        ('"unit":', '"unit":null,"x":'),
        ('"unit":', '"unit":NaN,"x":'),
        ('"wealth":[', '"wealth":[0.0,'),
        ('"rounds":', '"round":'),
        ('"flagged":', '"flagged":0.'),
        ('"tests":{', '"tests":5,"x":{'),
    ],
)
def test_load_ledger_of_one_wrong_field_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = get_ledger_path(tmp_path, bytes(32))
    save_ledger(path, play_ledger(0, rounds=2))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_ledger(path)


# --- Where to look ------------------------------------------------------------------------------------------
def test_rank_claims_weighs_reasons_then_excess() -> None:
    fine = invent_report(judgement=Judgement.ACCEPT, excess=0.1, screens=(), solver="0x" + "01" * 20)
    flagged, apart = "0x" + "02" * 20, "0x" + "03" * 20
    wrong = (StepScreen(0, 1, 1, 0, 1.0, False),)
    reports = [
        replace(fine, segment=0),
        replace(fine, segment=1, excess=0.3),
        replace(fine, segment=2, solver=flagged),
        replace(fine, segment=8, solver=apart, excess=0.9),
        replace(fine, segment=3, judgement=Judgement.GREY, excess=0.6),
        replace(fine, segment=4, judgement=None, excess=0.0, tensors=()),
        replace(fine, segment=5, judgement=Judgement.REJECT, excess=9.0),
        replace(fine, segment=6, screens=wrong),
        replace(fine, segment=1, excess=0.05),
        replace(fine, segment=7, excess=0.05, projections=(replace(fine.projections[0], rms=0.3),)),
    ]
    found = rank_claims(reports, Ledger({flagged: Entry(flagged=0, apart=0), apart: Entry(apart=0)}))
    assert [attention.place[2] for attention in found] == [6, 5, 4, 3, 7, 2, 8, 1, 0]
    assert [attention.reasons for attention in found][:7] == [
        ("inconsistent",), ("rejected",), ("unserved",), ("grey",), ("loud",), ("flagged",), ("apart",),
    ]  # fmt: skip
    assert found[1].excess == 9.0 and found[1].tensor == "lm_head.weight" and found[2].tensor == ""


def test_rank_claims_does_not_depend_on_order() -> None:
    reports = [invent_report(segment=index, excess=index / 10) for index in range(8)]
    assert rank_claims(reports, Ledger()) == rank_claims(reports[::-1], Ledger())
