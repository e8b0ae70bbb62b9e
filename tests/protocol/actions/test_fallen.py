"""Auditors of a claim that has fallen: who is looked at, by whose replay, and who is accused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.actions.challenge import accuse, name_solver_claim, to_claim
from protocol.actions.claim import Train
from protocol.actions.fallen import JudgeAudits, judge_audits, list_judgements
from protocol.actions.participant import Participant
from protocol.actions.replay import prepare_replay
from protocol.actions.states import keep_state, load_state
from protocol.actions.suspicion import OpenAccusation, list_accusations
from protocol.adapters.blobs import BlobKey, BlobKind, refer_state
from protocol.compute.step import train_segment
from protocol.spec import events
from protocol.spec.drawn import get_drawn
from protocol.spec.game_events import DisputeClosed, DisputeConvicted, DisputeOpened
from protocol.spec.round import get_settle_block
from protocol.spec.statuses import AuditStatus, ClaimRef, ClaimStatus
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.audits import REF, Audited, audit_claim, replay_and_reveal, train_wrongly
from tests.protocol.actions.facts import BOB, MALLORY, at
from tests.protocol.actions.lone import Lone, make_lone, restart

WATCHER = BOB
BLOCK = 30
"""Long before the last window."""


@pytest.fixture
async def audited(solver: Lone) -> Audited:
    """A claim whose first auditor has handed in the very end that the solver opened."""
    found = await audit_claim(solver)
    await replay_and_reveal(found)
    found.open_end()
    return found


@pytest.fixture
def watcher(audited: Audited, tmp_path: Path) -> Lone:
    """A whistleblower that was drawn onto nothing."""
    return make_witness(audited, tmp_path, WATCHER)


def make_witness(audited: Audited, folder: Path, account: str) -> Lone:
    """Somebody else who has heard all that the auditor has."""
    lone = make_lone(folder / account, account, remote=audited.solver.party.store)
    lone.take(*audited.verifier.party.view.events[len(lone.party.view.events) :])
    return lone


def convict(*lones: Lone) -> None:
    for lone in lones:
        lone.take(events.ClaimJudged(**at(25), status=ClaimStatus.CONVICTED, reason=b"operation"))


def list_found(lone: Lone, own_replays: int = 1, block: int = BLOCK) -> list[JudgeAudits]:
    return list(list_judgements(lone.party, lone.party.round(0), block, set(), own_replays))


def name_audit(audited: Audited) -> ClaimRef:
    """What the first auditor said."""
    return ClaimRef(REF, audited.segment, by_solver=False)


def list_accused(lone: Lone) -> list[ClaimRef]:
    return list(map(to_claim, lone.party.memory.accusations))


def list_tensors(lone: Lone) -> set[bytes]:
    return {key.root for key in lone.party.store.list_keys(BlobKind.TENSOR)}


async def judge(lone: Lone, train: Train = train_segment) -> None:
    [found] = list_found(lone)
    await judge_audits(lone.party, found, train)


# --- Who is looked at ---------------------------------------------------------------------------------------
async def test_auditors_are_looked_at_once_their_claim_has_fallen(audited: Audited, watcher: Lone) -> None:
    assert list_found(watcher) == []
    convict(watcher)
    expected = JudgeAudits(0, 0, 0, audited.segment, (0,), is_replayed=True)
    assert list_found(watcher) == [expected]
    assert list_found(watcher, own_replays=0) == [], "replays are this node's to grant"
    role = Participant(watcher.party, lambda *_: (), own_replays=2)
    assert expected in role.decide(BLOCK).actions
    await role.perform(expected)
    assert watcher.client.asked, "it was replayed"
    assert expected not in role.decide(BLOCK).actions
    state, done = watcher.party.round(0), {replace(expected, draw=1, segment=0), "else"}
    assert not list(list_judgements(watcher.party, state, BLOCK, done, 1)), "one replay was granted"
    assert list(list_judgements(watcher.party, state, BLOCK, done, 2)) == [expected]
    done = {replace(expected, ranks=(0, 1))}
    assert not list(list_judgements(watcher.party, state, BLOCK, done, 2)), "it was among those judged"


async def test_nobody_is_looked_at_who_cannot_be_disputed(audited: Audited, watcher: Lone) -> None:
    convict(watcher, audited.verifier, audited.solver)
    end = get_settle_block(watcher.party.round(0), BLOCK)
    assert list_found(watcher, block=end - 1) and not list_found(watcher, block=end)
    assert list_found(audited.verifier) == [], "an auditor does not look at itself"
    assert list_found(audited.solver) == [], "nor a solver at its own auditors: it has fallen by them"
    watcher.take(events.ClaimSettled(**at(40), status=ClaimStatus.CONVICTED))
    assert list_found(watcher) == []


@pytest.mark.parametrize(
    ("status", "is_looked_at"),
    [(AuditStatus.ACCEPTS, True), (AuditStatus.REJECTS, False), (AuditStatus.SLASHED, False)],
)
async def test_only_who_accepts_is_looked_at(
    audited: Audited, watcher: Lone, status: AuditStatus, is_looked_at: bool
) -> None:
    convict(watcher)
    watcher.take(events.AuditJudged(**at(26), draw=0, rank=0, status=status, worst=Judgement.ACCEPT))
    assert bool(list_found(watcher)) is is_looked_at


async def test_in_the_last_window_an_own_accusation_does_for_a_conviction(
    audited: Audited, watcher: Lone
) -> None:
    accuse(watcher.party, name_solver_claim(REF, 0))
    state = watcher.party.round(0)
    opens = get_settle_block(state, BLOCK) - state.terms.windows.dispute
    assert [bool(list_found(watcher, block=block)) for block in (opens - 1, opens)] == [False, True]


async def test_an_accusation_that_came_to_nothing_accuses_nobody_else(
    audited: Audited, watcher: Lone
) -> None:
    claim, solver = name_solver_claim(REF, audited.segment), audited.solver.party.account
    accuse(watcher.party, claim)
    last = get_settle_block(watcher.party.round(0), BLOCK) - 1
    assert [one.is_replayed for one in list_found(watcher, block=last)] == [False]
    opened = DisputeOpened(
        block_number=27, dispute=b"d", claim=claim, claimant=solver, opener=WATCHER, bond_wei=1
    )
    watcher.take(opened, DisputeClosed(block_number=28, dispute=b"d"))
    assert list_found(watcher, block=last) == []
    convict(watcher)
    assert [one.is_replayed for one in list_found(watcher)] == [True], "it fell by another; look again"


async def test_nobody_looks_where_a_second_look_does_not_pay(audited: Audited, watcher: Lone) -> None:
    convict(watcher)
    state = watcher.party.round(0)
    terms = replace(state.terms, amounts=replace(state.terms.amounts, finder_cap=1))
    poor = replace(state, terms=terms)
    assert not list(list_judgements(watcher.party, poor, BLOCK, set(), 1))


async def test_somebody_else_s_dispute_keeps_nobody_from_looking(audited: Audited, watcher: Lone) -> None:
    convict(watcher)
    auditor = audited.verifier.party.account
    watcher.take(
        DisputeOpened(
            block_number=27, dispute=b"d", claim=name_audit(audited), claimant=auditor, opener=MALLORY,
            bond_wei=1,
        )
    )  # fmt: skip
    assert list_found(watcher)
    watcher.take(
        DisputeConvicted(block_number=28, dispute=b"d", claimant=auditor, finder=MALLORY, reason=b"operation")
    )
    assert list_found(watcher) == []


# --- Judging ------------------------------------------------------------------------------------------------
async def test_who_handed_in_a_false_end_is_accused(audited: Audited, watcher: Lone) -> None:
    convict(watcher)
    before = list_tensors(watcher)
    await judge(watcher, train_wrongly)  # To the watcher the honest end is as far off as a false one.
    assert list_accused(watcher) == [name_audit(audited)]
    assert any("accused" in line for line in watcher.lines)
    start = {ref.key.root for ref in refer_state(audited.boundary(audited.segment), 1)}
    assert list_tensors(watcher) == before | start, "a dispute needs the start, and nobody an end"
    assert list_found(watcher) == [] and list_found(restart(watcher)) == []


async def test_who_accepted_a_right_segment_of_a_fallen_claim_is_left_alone(
    audited: Audited, watcher: Lone
) -> None:
    convict(watcher)
    before = list_tensors(watcher)
    await judge(watcher)
    assert list_accused(watcher) == []
    assert list_tensors(watcher) == before


@pytest.mark.parametrize("is_solver_accused", [False, True])
async def test_an_honest_result_of_other_hardware_is_left_alone(
    audited: Audited, watcher: Lone, is_solver_accused: bool
) -> None:
    if is_solver_accused:
        accuse(watcher.party, name_solver_claim(REF, audited.segment))
    store = audited.solver.party
    right = load_state(store, audited.boundary(audited.segment + 1))
    noisy = keep_state(store, replace(right, weights=right.weights * (1 + 2**-22)))
    place: dict[str, Any] = {"draw": 0, "rank": 0}
    watcher.take(
        events.Revealed(**at(24), **place, auditor=audited.verifier.party.account, end=noisy),
        events.AuditJudged(**at(24), **place, status=AuditStatus.ACCEPTS, worst=Judgement.ACCEPT),
    )
    convict(watcher)
    await judge(watcher)
    assert name_audit(audited) not in list_accused(watcher)
    assert BlobKey(BlobKind.TENSOR, noisy.weights_root) in {ref.key for _, ref in watcher.client.asked}


async def test_what_nobody_serves_accuses_nobody(audited: Audited, watcher: Lone) -> None:
    convict(watcher)
    watcher.client.remote = watcher.party.store
    watcher.chain.head = 10_000
    await judge(watcher, train_wrongly)
    assert list_accused(watcher) == []
    assert "not served" in watcher.lines[-1]


async def test_an_auditor_of_the_same_draw_has_its_replay_at_hand(audited: Audited, tmp_path: Path) -> None:
    drawn = get_drawn(audited.solver.party.round(0), 0, 0)
    assert drawn is not None
    reserve = make_witness(audited, tmp_path, drawn.reserves[0])
    mine = replace(REF, rank=1)
    await prepare_replay(reserve.party, mine, audited.segment, train_wrongly)
    convict(reserve)
    again = restart(reserve)
    again.take(*reserve.party.view.events[len(again.party.view.events) :])
    [found] = list_found(again, own_replays=0)
    assert not found.is_replayed
    before = list_tensors(again)
    await judge(again, train_wrongly)
    assert list_accused(again) == [name_audit(audited)]
    end = {ref.key.root for ref in refer_state(audited.boundary(audited.segment + 1), 1)}
    assert list_tensors(again) >= before | end, "its own audit stands on these"


async def test_the_end_that_the_solver_was_accused_of_needs_no_second_replay(
    audited: Audited, watcher: Lone
) -> None:
    accuse(watcher.party, name_solver_claim(REF, audited.segment))
    convict(watcher)
    [found] = list_found(watcher, own_replays=0)
    await judge_audits(watcher.party, found, train_segment)
    assert name_audit(audited) in list_accused(watcher)
    assert not watcher.client.asked, "nothing is fetched for it"


# --- Opening ------------------------------------------------------------------------------------------------
async def test_one_dispute_is_opened_of_each_audit(audited: Audited, watcher: Lone) -> None:
    convict(watcher)
    accuse(watcher.party, name_audit(audited))
    [made] = watcher.party.memory.accusations

    def list_due() -> list[OpenAccusation]:
        return list(list_accusations(watcher.party, watcher.party.round(0), {}))

    assert list_due() == [OpenAccusation(made)]
    auditor = audited.verifier.party.account
    opened = DisputeOpened(
        block_number=27, dispute=b"d", claim=name_audit(audited), claimant=auditor, opener=MALLORY, bond_wei=1
    )
    watcher.take(opened)
    assert list_due() == [OpenAccusation(made)], "an accomplice may have been faster"
    watcher.take(
        DisputeConvicted(block_number=28, dispute=b"d", claimant=auditor, finder=MALLORY, reason=b"operation")
    )
    assert list_due() == []


async def test_a_bond_that_is_worth_more_than_the_share_waits(audited: Audited, watcher: Lone) -> None:
    convict(watcher)
    accuse(watcher.party, name_audit(audited))
    auditor = audited.verifier.party.account
    counts = []
    for number in range(3):
        counts.append(len(list(list_accusations(watcher.party, watcher.party.round(0), {}))))
        other = ClaimRef(replace(REF, slot=1, rank=number), 0, by_solver=False)
        watcher.take(
            DisputeOpened(
                block_number=27, dispute=bytes([number]), claim=other, claimant=auditor, opener=MALLORY,
                bond_wei=1,
            )
        )  # fmt: skip
    assert counts == [1, 1, 0], "a bond of 10 and of 20 for a share of 10, but none of 40"


async def test_a_slashed_auditor_is_disputed_no_more(audited: Audited, watcher: Lone) -> None:
    convict(watcher)
    accuse(watcher.party, name_audit(audited))
    judged = events.AuditJudged(**at(27), draw=0, rank=0, status=AuditStatus.SLASHED, worst=Judgement.ACCEPT)
    watcher.take(judged)
    assert not list(list_accusations(watcher.party, watcher.party.round(0), {}))
