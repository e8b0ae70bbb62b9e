"""What a node finds in its journal when it comes back."""

from dataclasses import replace
from pathlib import Path

from protocol.actions.memory import Memory, header_fields, header_of
from protocol.adapters.journal import Journal
from protocol.adapters.records import (
    RECORDS,
    AccusationMade,
    AuditMade,
    BoundaryReached,
    BoundarySaltsDrawn,
    ClaimMade,
)
from tests.protocol.actions.facts import END, START, TASK
from tests.protocol.spec.simulator import make_word

SALTS = BoundarySaltsDrawn(TASK, 0, (make_word(0), make_word(1)))
REACHED = BoundaryReached(TASK, 0, 1, **header_fields(END))
CLAIM = ClaimMade(TASK, 0, make_word("claim"), make_word("delta"))
AUDIT = AuditMade(TASK, 0, 1, 0, 2, **header_fields(START), salt=make_word("salt"))
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
