"""What a node looks into, and when it is worth an accusation."""

from dataclasses import replace

import pytest

from protocol.actions.challenge import accuse, name_solver_claim
from protocol.actions.suspicion import (
    ExamineEnd,
    ExaminePseudoGradient,
    OpenAccusation,
    is_pursued,
    list_slanders,
    list_suspicions,
)
from protocol.spec import events
from protocol.spec.dispute import DisputeState
from protocol.spec.game_events import DisputeOpened
from protocol.spec.statuses import AuditStatus, ClaimRef, ClaimStatus, Stage
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.audits import REF, Audited, audit_claim, replay_and_reveal
from tests.protocol.actions.facts import ALICE, BOB, END, MALLORY, TASK, at
from tests.protocol.actions.lone import SOLVER, Lone, get_spec

PSEUDO_GRADIENT = ExaminePseudoGradient(0, 0, 0)


def list_found(lone: Lone, done: set[object] | None = None) -> list[object]:
    return list(list_suspicions(lone.party, lone.party.round(0), done or set()))


@pytest.fixture
async def audited(solver: Lone) -> Audited:
    found = await audit_claim(solver)
    await replay_and_reveal(found)
    return found


async def test_an_end_is_examined_only_where_it_differs(audited: Audited) -> None:
    examine = ExamineEnd(REF, audited.segment)
    assert list_found(audited.verifier) == [], "nothing is opened yet"
    audited.open_end()
    assert list_found(audited.verifier) == [PSEUDO_GRADIENT]
    audited.open_end(END)
    assert list_found(audited.verifier) == [examine, PSEUDO_GRADIENT]
    assert list_found(audited.verifier, {examine}) == [PSEUDO_GRADIENT]


async def test_the_solver_does_not_examine_itself(audited: Audited) -> None:
    audited.open_end(END)
    assert list_found(audited.solver) == []


async def test_a_convicted_claim_is_left_alone(audited: Audited) -> None:
    audited.open_end(END)
    accuse(audited.verifier.party, name_solver_claim(REF, audited.segment))
    assert OpenAccusation in map(type, list_found(audited.verifier))
    audited.take(events.ClaimJudged(**at(30), status=ClaimStatus.CONVICTED, reason=b"silent"))
    assert list_found(audited.verifier) == []


async def test_an_accusation_is_opened_until_somebody_pursues_it(audited: Audited) -> None:
    claim = name_solver_claim(REF, audited.segment)
    accuse(audited.verifier.party, claim)
    [made] = audited.verifier.party.memory.accusations
    assert list_found(audited.verifier) == [OpenAccusation(made)]
    audited.take(
        DisputeOpened(block_number=30, dispute=b"d", claim=claim, claimant=SOLVER, opener=MALLORY, bond_wei=1)
    )
    assert list_found(audited.verifier) == []


def dispute(opener: str, stage: Stage) -> DisputeState:
    return DisputeState(bytes(32), get_spec().terms, name_solver_claim(REF, 0), ALICE, opener, 1, stage=stage)


@pytest.mark.parametrize(
    ("disputes", "expected"),
    [
        ([], False),
        ([dispute(BOB, Stage.CLOSED)], True),
        ([dispute(MALLORY, Stage.QUEUED)], True),
        ([dispute(MALLORY, Stage.CONVICTED)], True),
        # An accomplice that proves nothing acquits nobody, and its next dispute is not waited for either.
        ([dispute(MALLORY, Stage.CLOSED)], False),
        ([dispute(MALLORY, Stage.CLOSED), dispute(ALICE, Stage.NAME)], False),
        ([dispute(MALLORY, Stage.CLOSED), dispute(BOB, Stage.NAME)], True),
    ],
)
def test_who_counts_as_pursuing(disputes: list[DisputeState], expected: bool) -> None:
    assert is_pursued(disputes, BOB) is expected


@pytest.mark.parametrize(
    ("status", "worst", "is_slander"),
    [
        (AuditStatus.REJECTS, Judgement.REJECT, True),
        (AuditStatus.REJECTS, Judgement.GREY, False),
        (AuditStatus.ACCEPTS, Judgement.GREY, False),
    ],
)
async def test_an_audit_beyond_the_reject_limits_is_slander_to_the_solver(
    audited: Audited, status: AuditStatus, worst: Judgement, is_slander: bool
) -> None:
    audited.take(events.AuditJudged(**at(30), draw=0, rank=0, status=status, worst=worst))
    expected = [ClaimRef(replace(REF, task=TASK), audited.segment, by_solver=False)] if is_slander else []
    assert list(list_slanders(audited.solver.party, audited.solver.party.round(0))) == expected
    assert list(list_slanders(audited.verifier.party, audited.verifier.party.round(0))) == []
