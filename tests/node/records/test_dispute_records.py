"""What a node remembers of its disputes, and what it shows because of them."""

from pathlib import Path

from touchstone.node.records.dispute_records import (
    CLAIM,
    NO_STEP,
    RECORDS,
    DisputeDropped,
    DisputePlanned,
    DisputeRecords,
    StatementKey,
    list_fields,
    to_key,
)
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.spec.game.state import StatementRef

TASK, OTHER, SALT = b"t" * 32, b"o" * 32, b"s" * 32
CLAIMED = StatementKey(StatementRef(3, 1), 2)
VOTED = StatementKey(StatementRef(3, 1, 0, 2), 2, b"v" * 64)


def make_case(statement_key: StatementKey, task: bytes = TASK) -> DisputePlanned:
    return DisputePlanned(task, *list_fields(statement_key), NO_STEP, b"", b"", SALT)


def test_what_was_written_is_known_after_a_restart(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", RECORDS) as journal:
        book = DisputeRecords(journal, TASK)
        for statement_key in (CLAIMED, VOTED):
            book.write(make_case(statement_key))
        book.write(DisputeDropped(TASK, *list_fields(StatementKey(StatementRef(4, 0), 0))))
        book.write(make_case(StatementKey(StatementRef(9, 9), 9), OTHER))
    with Journal(tmp_path / "journal", RECORDS) as journal:
        book = DisputeRecords(journal, TASK)
        assert set(book.cases) == {CLAIMED, VOTED} and book.cases[VOTED].salt == SALT
        assert book.dropped == {StatementKey(StatementRef(4, 0), 0)}


def test_records_name_a_claim_apart_from_votes_on_it() -> None:
    assert make_case(CLAIMED).draw == CLAIM
    assert [to_key(make_case(one)) for one in (CLAIMED, VOTED)] == [CLAIMED, VOTED]


def test_disputed_steps_are_shown_to_whoever_has_stake(tmp_path: Path) -> None:
    key = BlobKey(BlobKind.TENSOR, b"w" * 32)
    with Journal(tmp_path / "journal", RECORDS) as journal:
        book = DisputeRecords(journal, TASK)
        assert not book.may_read("somebody", key.kind, key.root, is_staked=True)
        book.shown["steps", b"d" * 32] = frozenset({key})
        assert book.may_read("somebody", key.kind, key.root, is_staked=True)
        assert not book.may_read("somebody", key.kind, key.root, is_staked=False)
        assert not book.may_read("somebody", BlobKind.DELTA, key.root, is_staked=True)
