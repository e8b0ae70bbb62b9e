"""The journal's index of audits: one seal and one vote for each place, whatever is asked of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import make_word
from touchstone.node.records.audit_records import (
    RECORDS,
    AuditBook,
    EndsShown,
    SealMade,
    ShownWork,
    VoteMade,
    make_sealed,
)
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.drawn_audits import AuditPlace
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Sealed, Vote, VoteWord

TASK = make_word("task")
PLACE = AuditPlace(make_word("domain"), 3, make_word("base"), make_word("seed"), 1, make_word("claim"), 0, 0)
HEADER = StateHeader(make_word("W"), make_word("m"), make_word("v"), 2, 26)
BOUNDARY = BoundaryProof(HEADER, make_word("salt"), (make_word("sibling"),))


def make_seal(seal: bytes = make_word("seal"), place: AuditPlace = PLACE) -> SealMade:
    sealed = make_sealed(place, 2, make_word("start"), seal)
    return SealMade(TASK, sealed, make_word("salt"), BOUNDARY, BOUNDARY, HEADER)


def make_vote(word: VoteWord = VoteWord.ACCEPT, sealed: Sealed | None = None) -> VoteMade:
    said = sealed or make_seal().sealed
    ends = EndsShown(BOUNDARY, BOUNDARY, ShownWork(make_word("d"), make_word("c"), ()))
    return VoteMade(
        TASK, Vote(**vars(said), end_leaf=make_word("end"), word=word, named_leaf=0), bytes(64), ends
    )


@pytest.fixture
def open_book(tmp_path: Path) -> Iterator[Callable[[], AuditBook]]:
    """Each call is a restart."""
    opened: list[Journal] = []

    def reopen() -> AuditBook:
        for journal in opened:
            journal.close()
        opened[:] = [Journal(tmp_path / "journal.sqlite", RECORDS)]
        return AuditBook(opened[0], TASK)

    yield reopen
    opened[0].close()


def test_a_restart_knows_all_that_was_said(open_book: Callable[[], AuditBook]) -> None:
    book = open_book()
    book.write(make_seal())
    book.write(make_vote())
    again = open_book()
    assert again.seals == {PLACE: make_seal()} and again.votes == {PLACE: make_vote()}
    opening = again.open_vote(again.votes[PLACE])
    assert opening is not None and opening.seal_salt == make_seal().salt


EMPTY = make_sealed(PLACE, 2, ZERO_WORD, ZERO_WORD)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([make_seal()], make_seal(make_word("another"))),
        ([make_seal(), make_vote()], make_vote(VoteWord.ABSTAIN)),
        ([make_seal()], make_vote(VoteWord.UNSERVED, EMPTY)),
        ([make_seal()], make_vote(VoteWord.ACCEPT, make_seal(make_word("another")).sealed)),
        ([make_vote(VoteWord.UNSERVED, EMPTY)], make_seal()),
        ([make_vote(VoteWord.UNSERVED, EMPTY)], make_vote(VoteWord.ABSTAIN, EMPTY)),
        ([], make_vote()),
    ],
    ids=[
        "two seals", "two votes", "vote without its seal", "vote on another seal", "seal after a vote",
        "two words", "vote on a seal that was never made",
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_restarted", [False, True])
def test_nothing_that_contradicts_is_written(
    open_book: Callable[[], AuditBook],
    first: list[SealMade | VoteMade],
    second: SealMade | VoteMade,
    is_restarted: bool,
) -> None:
    book = open_book()
    for record in first:
        book.write(record)
    book = open_book() if is_restarted else book
    with pytest.raises(InvalidInput, match="signed something else"):
        book.write(second)
    assert list(book.journal.replay()) == first


def test_another_fork_is_another_place(open_book: Callable[[], AuditBook]) -> None:
    """After a reorg the same audit has another seed, base or claim: right on two forks."""
    book = open_book()
    book.write(make_seal())
    for name in ("base_root", "seed", "claim_root", "domain"):
        change: dict[str, Any] = {name: make_word("fork")}
        fork = replace(PLACE, **change)
        book.write(make_seal(make_word("another"), fork))
    assert len(book.seals) == 5


def test_another_tasks_records_are_not_ours(open_book: Callable[[], AuditBook]) -> None:
    book = open_book()
    book.write(replace(make_seal(), task=make_word("other task")))
    assert not book.seals
