"""What the events of a dispute leave behind, stage by stage."""

from types import SimpleNamespace
from typing import Any

from touchstone.protocol.spec.game.dispute_reducer import fold_inner
from touchstone.protocol.spec.game.inner_dispute import DemandedLeaf, DisputeStage, InnerBook, QueryEnding
from touchstone.protocol.spec.game.log_values import NO_DRAW
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Vote, VoteWord

NAME, OPENER, RESPOND = b"d" * 32, "0x" + "0A" * 20, 10
HEADER = StateHeader(b"w" * 32, b"m" * 32, b"v" * 32, 1, 1)
OPENED = {
    "seat": 1 << 16,
    "statement": SimpleNamespace(round=3, slot=2, draw=NO_DRAW, rank=0),
    "segment": 1,
    "opener": OPENER,
    "clock_block": 20,
}
TRACED = {"trace_root": b"t" * 32, "start": HEADER, "end": HEADER, "clock_block": 50}
PLAY: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("DisputeOpened", OPENED, 10),
    ("StepRootsPosted", {"roots": (b"0" * 32, b"1" * 32, b"2" * 32), "clock_block": 30}, 20),
    ("StepNamed", {"step": 1, "clock_block": 40}, 30),
    ("TracePosted", TRACED, 40),
    ("LeafDemanded", {"number": 0, "node": 7, "place": 1, "leaf_index": 4}, 50),
    ("LeafDemanded", {"number": 1, "node": 8, "place": 0, "leaf_index": 0}, 50),
    ("LeavesDue", {"clock_block": 60}, 50),
    ("LeafShown", {"number": 0, "leaf": b"first"}, 55),
    ("LeafShown", {"number": 1, "leaf": b"second"}, 57),
)


def play(turns: int) -> InnerBook:
    """The book after so many events of the longest play."""
    book = InnerBook(RESPOND)
    for name, values, block in PLAY[:turns]:
        book = fold_inner(book, name, {"dispute": NAME, **values}, block)
    return book


def test_each_event_moves_the_dispute_to_its_stage() -> None:
    stages = [(play(n).disputes[NAME].stage.name, play(n).disputes[NAME].clock) for n in range(1, 10)]
    assert stages == [
        ("ROOTS", 20), ("NAME", 30), ("TRACE", 40), ("PROVE", 50), ("PROVE", 50), ("PROVE", 50),
        ("LEAVES", 60), ("LEAVES", 60), ("LAST", 57 + RESPOND),
    ]  # fmt: skip


def test_all_that_was_said_is_kept() -> None:
    dispute = play(len(PLAY)).disputes[NAME]
    assert dispute.statement == StatementRef(3, 2, None, 0)
    assert (dispute.opener, dispute.step, dispute.roots[2]) == (OPENER.lower(), 1, b"2" * 32)
    assert dispute.trace is not None and dispute.trace.root == b"t" * 32
    assert dispute.demands == (DemandedLeaf(7, 1, 4), DemandedLeaf(8, 0, 0))
    assert dispute.shown == (b"first", b"second")


def test_a_dispute_of_a_vote_names_its_draw() -> None:
    values = {**OPENED, "statement": SimpleNamespace(round=3, slot=2, draw=1, rank=2), "dispute": NAME}
    [dispute] = fold_inner(InnerBook(RESPOND), "DisputeOpened", values, 1).disputes.values()
    assert dispute.statement == StatementRef(3, 2, 1, 2)


def test_an_end_is_final_and_others_go_on() -> None:
    other = {"dispute": b"e" * 32, **OPENED}
    book = fold_inner(play(3), "DisputeOpened", other, 31)
    book = fold_inner(book, "DisputeEnded", {"dispute": NAME, "outcome": 7}, 33)
    assert book.disputes[NAME].stage == DisputeStage.CLEARED and not book.disputes[NAME].is_open
    assert book.disputes[b"e" * 32].is_open


def test_asks_open_and_end() -> None:
    words = [bytes([i]) * 32 for i in range(7)]
    place = (words[0], 1, words[1], words[2], 0, words[3], 0, 1)
    vote = Vote(*place, 7, words[4], words[5], words[6], VoteWord.REJECT_STATE, 5)
    values = {
        "id": NAME,
        "seat": 131072,
        "vote": SimpleNamespace(**{**vars(vote), "word": 2}),
        "leaf": 5,
        "asker": OPENER,
        "last_block": 70,
    }
    book = fold_inner(InnerBook(RESPOND), "QueryOpened", values, 9)
    assert (book.queries[NAME].leaf, book.queries[NAME].clock, book.queries[NAME].ending) == (
        5,
        70,
        QueryEnding.OPEN,
    )
    assert book.queries[NAME].vote == vote and book.queries[NAME].vote.word is VoteWord.REJECT_STATE
    assert book.queries[NAME].statement == StatementRef(1, 0, 0, 1)
    book = fold_inner(book, "QueryEnded", {"id": NAME, "ending": 2}, 12)
    assert book.queries[NAME].ending == QueryEnding.CONVICTED


def test_events_of_others_change_nothing() -> None:
    book = play(2)
    assert fold_inner(book, "RoundOpened", {"round": 4}, 12) is book
