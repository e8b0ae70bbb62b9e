"""What a node finds in its journal when it comes back."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.actions.memory import Memory, header_fields, header_of, require_records, seal_audit
from protocol.adapters.journal import Journal
from protocol.adapters.records import (
    RECORDS,
    AccusationMade,
    AuditMade,
    BoundaryReached,
    BoundarySaltsDrawn,
    ClaimMade,
)
from protocol.spec.errors import EnvironmentFault
from protocol.spec.round import Audit, Claim
from protocol.spec.statuses import AuditStatus, ClaimStatus
from tests.protocol.actions.facts import ALICE, BOB, END, START, TASK
from tests.protocol.spec.simulator import make_round, make_terms, make_word

SALTS = BoundarySaltsDrawn(TASK, 0, (make_word(0), make_word(1)))
REACHED = BoundaryReached(TASK, 0, 1, **header_fields(END))
CLAIM = ClaimMade(TASK, 0, make_word("claim"), make_word("delta"))
AUDIT = AuditMade(TASK, 0, 1, 0, 2, make_word("start"), **header_fields(START), salt=make_word("salt"))
ACCUSED = AccusationMade(TASK, 0, 1, 0, 0, 3, True, make_word("seal"))
ALL = (SALTS, REACHED, CLAIM, AUDIT, ACCUSED)


def test_a_restart_finds_salts_boundaries_claims_audits_and_accusations(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", RECORDS) as journal:
        before = Memory(journal, TASK)
        for record in ALL:
            before.write(record)
    with Journal(tmp_path / "journal", RECORDS) as journal:
        after = Memory(journal, TASK)
    assert after.salts == {0: SALTS.salts} and after.boundaries == {(0, 1): END}
    assert after.claims == {0: CLAIM} and after.audits == {(0, 1, 0, 2): AUDIT}
    assert after.accusations == [ACCUSED]
    assert (before.salts, before.audits) == (after.salts, after.audits)


def test_records_of_other_tasks_are_not_ours(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", RECORDS) as journal:
        memory = Memory(journal, TASK)
        for record in ALL:
            memory.write(replace(record, task=make_word("another task")))
    assert not (memory.salts or memory.boundaries or memory.claims or memory.audits or memory.accusations)


def test_a_header_survives_its_record() -> None:
    assert header_of(REACHED) == END and header_of(AUDIT) == START


# --- What the chain knows and the journal does not ----------------------------------------------------------
CLAIMED = {1: Claim(ALICE, make_word("claim"), make_word("delta"), ClaimStatus.COMMITTED)}
ROUND = make_round(make_terms())
AUDITED = {(1, 0, 2): Audit(ALICE, AuditStatus.COMMITTED, seal_audit(ROUND.domain, ALICE, AUDIT))}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Journal(tmp_path / "journal", RECORDS) as journal:
        yield Memory(journal, TASK)


@pytest.mark.parametrize(
    ("more", "lost"), [({"claims": CLAIMED}, "the claim on round 0"), ({"audits": AUDITED}, "slot 1, draw 0")]
)
def test_a_journal_that_lacks_what_the_chain_has_of_this_account_is_refused(
    memory: Memory, more: dict[str, Any], lost: str
) -> None:
    state = replace(ROUND, **more)
    require_records(memory, [state], BOB)
    require_records(memory, [replace(state, settled_slots=frozenset({1}))], ALICE)
    with pytest.raises(EnvironmentFault, match=f"{lost}.*wait until that round is settled") as caught:
        require_records(memory, [state], ALICE)
    assert not caught.value.retryable
    memory.write(CLAIM)
    memory.write(AUDIT)
    require_records(memory, [state], ALICE)


def test_another_claim_than_the_one_on_chain_is_another_journal(memory: Memory) -> None:
    memory.write(replace(CLAIM, claim_root=make_word("another claim")))
    with pytest.raises(EnvironmentFault, match="the claim on round 0"):
        require_records(memory, [replace(make_round(make_terms()), claims=CLAIMED)], ALICE)


@pytest.mark.parametrize("other", [{"salt": make_word("another salt")}, header_fields(END)])
def test_another_replay_than_the_one_committed_to_is_another_journal(
    memory: Memory, other: dict[str, Any]
) -> None:
    """Of two nodes of one key each has a record of its own; only one of them can reveal."""
    memory.write(replace(AUDIT, **other))
    with pytest.raises(EnvironmentFault, match="slot 1, draw 0"):
        require_records(memory, [replace(ROUND, audits=AUDITED)], ALICE)


@pytest.mark.parametrize("status", [one for one in AuditStatus if one != AuditStatus.COMMITTED])
def test_an_audit_that_is_not_to_be_revealed_needs_no_record(memory: Memory, status: AuditStatus) -> None:
    require_records(
        memory, [replace(make_round(make_terms()), audits={(1, 0, 2): Audit(ALICE, status)})], ALICE
    )
