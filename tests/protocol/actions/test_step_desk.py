"""Requests for step states: noted, bounded by account and in all, answered from memory."""

from protocol.actions.dispute.casebook import MAX_GRANTED, MAX_SHOWN, MAX_WANTED, StepDesk

TASK = bytes(32)


def test_find_notes_what_is_not_at_hand_and_gives_what_is() -> None:
    desk = StepDesk()
    assert desk.find("alice", TASK, 0, 1) is None and list(desk.wanted) == [(TASK, 0, 1)]
    desk.offer((TASK, 0, 1), (b"a" * 32, b"b" * 32))
    assert desk.find("bob", TASK, 0, 1) == b"a" * 32 + b"b" * 32 and not desk.wanted


def test_find_what_waits_is_bounded_by_account_and_in_all() -> None:
    desk = StepDesk()
    for segment in range(5):
        desk.find("alice", TASK, 0, segment)
    assert len(desk.wanted) == 1
    for number in range(3 * MAX_WANTED):
        desk.find(f"account {number}", TASK, 0, number + 10)
    assert len(desk.wanted) == MAX_WANTED
    desk.drop((TASK, 0, 0))
    assert len(desk.wanted) == MAX_WANTED - 1


def test_offer_an_account_has_its_share_a_round() -> None:
    desk = StepDesk()
    for segment in range(MAX_GRANTED):
        desk.find("alice", TASK, 0, segment)
        desk.offer((TASK, 0, segment), (b"a" * 32,))
    desk.find("alice", TASK, 0, 9)
    assert not desk.wanted, "its share of this round is used"
    desk.find("alice", TASK, 1, 9)
    assert list(desk.wanted) == [(TASK, 1, 9)]


def test_offer_only_the_last_segments_stay() -> None:
    desk, gone = StepDesk(), []
    for segment in range(MAX_SHOWN + 2):
        gone += desk.offer((TASK, 0, segment), (bytes([segment]) * 32,))
    assert gone == [(bytes([segment]) * 32,) for segment in range(2)]
    assert len(desk.shown) == MAX_SHOWN
