"""What a node looks into, and when it is worth an accusation."""

from dataclasses import replace

import pytest

from protocol.actions.challenge import accuse, name_solver_claim
from protocol.actions.defend import compute_step_roots
from protocol.actions.participant import ComputeOwnRoots
from protocol.actions.suspicion import (
    ExamineEnd,
    ExaminePseudoGradient,
    OpenAccusation,
    OwnRoots,
    list_accusations,
    list_comparable,
    list_slanders,
    list_suspicions,
)
from protocol.adapters.blobs import refer_state
from protocol.spec import events
from protocol.spec.game_events import (
    DisputeActivated,
    DisputeClosed,
    DisputeConvicted,
    DisputeOpened,
    StepNamed,
    StepRootsPosted,
    TracePosted,
)
from protocol.spec.round import get_settle_block
from protocol.spec.statuses import AuditStatus, ClaimRef, ClaimStatus
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.audits import REF, Audited, audit_claim, replay_and_reveal
from tests.protocol.actions.facts import END, MALLORY, TASK, at
from tests.protocol.actions.lone import SOLVER, Lone, get_spec
from tests.protocol.actions.test_participant import make_participant

PSEUDO_GRADIENT = ExaminePseudoGradient(0, 0, 0)


def list_found(lone: Lone, done: set[object] | None = None) -> list[object]:
    return list(list_suspicions(lone.party, lone.party.round(0), done or set(), {}))


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


# --- Somebody else's dispute --------------------------------------------------------------------------------
ROOTS = (bytes(32), b"\1" * 32, b"\2" * 32)
"""Those that the claimant posts; the second step is the first whose own root parts from them."""
OWN_ROOTS = (*ROOTS[:2], b"\3" * 32)


@pytest.fixture
def accused(audited: Audited) -> Audited:
    """Its auditor knows the claim to be false; disputes can be opened for a long time."""
    accuse(audited.verifier.party, name_solver_claim(REF, audited.segment))
    tasks = audited.verifier.party.view.tasks
    [state] = tasks[TASK].rounds
    terms = replace(state.terms, windows=replace(state.terms.windows, dispute=100_000))
    tasks[TASK] = replace(tasks[TASK], rounds=(replace(state, terms=terms),))
    return audited


def open_as_accomplice(audited: Audited, step: int | None = None, name: bytes = b"d") -> None:
    """Somebody else disputes the claim, and names a step if it is given."""
    claim = name_solver_claim(REF, audited.segment)
    opened: list[events.Event] = [
        DisputeOpened(
            block_number=30, dispute=name, claim=claim, claimant=SOLVER, opener=MALLORY, bond_wei=1
        ),
        DisputeActivated(block_number=30, dispute=name, clock_block=60),
    ]
    if step is not None:
        opened += [
            StepRootsPosted(block_number=31, dispute=name, roots=ROOTS),
            StepNamed(block_number=32, dispute=name, step=step, clock_block=90),
        ]
    audited.take(*opened)


def is_opened(audited: Audited, own_roots: OwnRoots | None = None) -> bool:
    """Whether the auditor opens a dispute of its own."""
    party = audited.verifier.party
    found = list_accusations(party, party.round(0), own_roots or {})
    return [type(one) for one in found] == [OpenAccusation]


async def test_a_dispute_that_names_nothing_yet_keeps_nobody_quiet(accused: Audited) -> None:
    assert is_opened(accused)
    open_as_accomplice(accused)
    assert is_opened(accused)
    assert not list_comparable(accused.verifier.party, {})


async def test_a_dispute_about_another_step_keeps_nobody_quiet(accused: Audited) -> None:
    open_as_accomplice(accused, step=0)
    party = accused.verifier.party
    assert list_comparable(party, {}) == [b"d"] and not is_opened(accused), "it is being compared"
    own_roots = {b"d": OWN_ROOTS}
    assert list_comparable(party, own_roots) == [] and is_opened(accused, own_roots)
    assert is_opened(accused, {b"d": ()}), "nor where the own roots cannot be had"


async def test_a_dispute_about_the_same_step_does_until_it_is_closed(accused: Audited) -> None:
    open_as_accomplice(accused, step=1)
    own_roots = {b"d": OWN_ROOTS}
    assert not is_opened(accused, own_roots)
    accused.take(DisputeClosed(block_number=95, dispute=b"d"))
    assert is_opened(accused, own_roots)
    open_as_accomplice(accused, step=1, name=b"e")
    assert is_opened(accused, {**own_roots, b"e": OWN_ROOTS}), "nobody else's is waited for then"
    assert list_comparable(accused.verifier.party, own_roots) == []


async def test_a_dispute_that_may_last_too_long_keeps_nobody_quiet(audited: Audited) -> None:
    accuse(audited.verifier.party, name_solver_claim(REF, audited.segment))
    open_as_accomplice(audited, step=1)
    assert is_opened(audited, {b"d": OWN_ROOTS})
    assert list_comparable(audited.verifier.party, {}) == [], "nothing is computed for it"


async def test_a_conviction_by_another_is_enough(accused: Audited) -> None:
    open_as_accomplice(accused, step=0)
    accused.take(
        DisputeConvicted(block_number=95, dispute=b"d", claimant=SOLVER, finder=MALLORY, reason=b"operation")
    )
    assert not is_opened(accused)


async def test_disputes_of_an_accomplice_do_not_price_an_honest_node_out_cheaply(accused: Audited) -> None:
    """Its bond doubles with each of them; it is put up until it is larger than the stake that falls."""
    amounts, counts = get_spec().terms.amounts, []
    for number in range(8):
        counts.append(is_opened(accused))
        open_as_accomplice(accused, name=bytes([number]))
    most = sum(amounts.dispute_bond << number <= amounts.solver_stake for number in range(8))
    assert counts == [True] * most + [False] * (8 - most) and most == 5
    for number in range(4):
        accused.take(DisputeClosed(block_number=90, dispute=bytes([number])))
    assert is_opened(accused), "the queue is shorter"


async def test_what_another_names_is_compared_once_and_only_where_there_is_time(accused: Audited) -> None:
    """The claimant's roots are those of its honest claim: the node finds no step of its own to name."""
    verifier, segment = accused.verifier, name_solver_claim(REF, accused.segment)
    participant = make_participant(verifier)
    open_as_accomplice(accused)
    roots = compute_step_roots(accused.solver.party, segment)
    accused.take(
        StepRootsPosted(block_number=31, dispute=b"d", roots=roots),
        StepNamed(block_number=32, dispute=b"d", step=1, clock_block=90),
    )
    compare, openings = ComputeOwnRoots(b"d"), [OpenAccusation(*verifier.party.memory.accusations)]

    def list_due() -> list[object]:
        due = participant.decide(33).actions
        return [one for one in due if isinstance(one, ComputeOwnRoots | OpenAccusation)]

    assert list_due() == [compare]
    await participant.perform(compare)
    assert list_due() == openings
    participant.own_roots.clear()
    verifier.client.remote = verifier.party.store
    for ref in refer_state(accused.boundary(accused.segment), 1):
        verifier.party.store.delete(ref.key)
    await participant.perform(compare)
    assert list_due() == openings, "what cannot be had is not waited for"


async def test_only_what_this_node_accuses_is_compared(audited: Audited) -> None:
    open_as_accomplice(audited, step=1)
    assert list_comparable(audited.verifier.party, {}) == []


async def test_an_accomplice_that_plays_slowly_does_not_save_a_false_claim(audited: Audited) -> None:
    """It opens first, names a step that is right, and makes each move as late as it may, until nothing can be
    opened any more: the honest node opens its own while it can, at each of those moments."""
    party = audited.verifier.party
    accuse(party, name_solver_claim(REF, audited.segment))
    closes = get_settle_block(party.round(0), 30)
    open_as_accomplice(audited)
    assert is_opened(audited)
    audited.take(StepRootsPosted(block_number=31, dispute=b"d", roots=ROOTS))
    assert is_opened(audited)
    clock = 31 + party.spec.terms.windows.name
    audited.take(StepNamed(block_number=clock - 1, dispute=b"d", step=1, clock_block=clock + 59))
    assert is_opened(audited) and is_opened(audited, {b"d": OWN_ROOTS})
    audited.take(
        TracePosted(
            block_number=clock + 58, dispute=b"d", trace_root=bytes(32), start=END, end=END,
            clock_block=closes - 1,
        )
    )  # fmt: skip
    assert is_opened(audited)
    [made] = party.memory.accusations
    claim = name_solver_claim(REF, audited.segment)
    audited.take(
        DisputeOpened(
            block_number=clock + 59,
            dispute=b"mine",
            claim=claim,
            claimant=SOLVER,
            opener=party.account,
            bond_wei=2,
        )
    )
    assert not is_opened(audited), "it is in the queue now, whatever becomes of the other"


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
