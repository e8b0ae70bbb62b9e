"""Requests for step states: noted, bounded by account and in all, answered from memory."""

import asyncio

from touchstone.node.kit.recompute_queue import AUDITS, QUESTIONS, Retraining
from touchstone.node.records.wanted_steps import MAX_GRANTED, MAX_SHOWN, MAX_WANTED, Asker, StepDesk

TASK = bytes(32)


def auditor(name: str) -> Asker:
    return Asker(name, is_auditor=True)


def member(name: str) -> Asker:
    return Asker(name, is_auditor=False)


def serve(desk: StepDesk) -> None:
    for place in list(desk.wanted):
        desk.offer(place, (bytes(32),))


def test_find_notes_what_is_not_at_hand_and_gives_what_is() -> None:
    desk = StepDesk()
    assert desk.find(auditor("alice"), TASK, 0, 1) is None and list(desk.wanted) == [(TASK, 0, 1)]
    desk.offer((TASK, 0, 1), (b"a" * 32, b"b" * 32))
    assert desk.find(member("bob"), TASK, 0, 1) == b"a" * 32 + b"b" * 32 and not desk.wanted


def test_find_what_waits_is_bounded_by_account_and_in_all() -> None:
    desk = StepDesk()
    for segment in range(5):
        desk.find(member("alice"), TASK, 0, segment)
    assert len(desk.wanted) == 1
    for number in range(3 * MAX_WANTED):
        desk.find(member(f"account {number}"), TASK, 0, number + 10)
    assert len(desk.wanted) == MAX_WANTED
    desk.drop((TASK, 0, 0))
    assert len(desk.wanted) == MAX_WANTED - 1


def test_find_an_auditor_goes_before_all_others_though_they_fill_the_desk() -> None:
    desk = StepDesk()
    for number in range(MAX_WANTED):
        desk.find(member(f"evil {number}"), TASK, 0, 10 + number)
    desk.find(auditor("drawn"), TASK, 0, 3)
    desk.find(auditor("drawn too"), TASK, 0, 12)
    assert list(desk.wanted)[:2] == [(TASK, 0, 12), (TASK, 0, 3)]
    assert desk.wanted[TASK, 0, 12] == auditor("drawn too"), "what a member asked for is the auditor's now"


def test_offer_others_have_one_share_a_round_together() -> None:
    desk = StepDesk()
    for segment in range(MAX_GRANTED + 2):
        desk.find(member(f"member {segment}"), TASK, 0, 10 + segment)
        assert bool(desk.wanted) == (segment < MAX_GRANTED)
        serve(desk)
    desk.find(member("member"), TASK, 1, 9)
    assert list(desk.wanted) == [(TASK, 1, 9)]


def test_offer_of_what_others_ask_for_only_the_last_segments_stay() -> None:
    desk, gone = StepDesk(), []
    for segment in range(MAX_SHOWN + 2):
        desk.find(member(f"account {segment}"), TASK, 0, segment)
        gone += desk.offer((TASK, 0, segment), (bytes([segment]) * 32,))
    assert gone == [(bytes([segment]) * 32,) for segment in range(2)]
    assert len(desk.shown) == MAX_SHOWN


def test_offer_what_an_auditor_looks_at_stays_whatever_others_ask_for() -> None:
    """It fetches the states. Members and auditors of other segments ask for more than ever was kept."""
    desk = StepDesk()
    desk.find(member("early"), TASK, 0, 3)
    serve(desk)
    assert desk.find(auditor("honest"), TASK, 0, 3) is not None, "now it fetches the states"
    for number in range(12):
        desk.find(member(f"member {number}"), TASK, 0, 10 + number)
        desk.find(auditor(f"auditor {number}"), TASK, number % 3, 50 + number)
        serve(desk)
    assert desk.find(auditor("honest"), TASK, 0, 3) is not None


def test_find_auditors_of_a_segment_share_one_computation() -> None:
    """Two draws of three rounds: all three ranks ask for each of the six segments, twice."""
    desk, trained = StepDesk(), list[object]()
    for rank in (0, 1, 2) * 2:
        for place in [(TASK, index, segment) for index in range(3) for segment in range(2)]:
            if desk.find(auditor(f"rank {rank} of {place}"), *place) is None:
                trained += list(desk.wanted)
                serve(desk)
    assert len(trained) == len(set(trained)) == 6


async def test_what_members_ask_for_waits_for_the_own_claim_and_what_auditors_ask_for_does_not() -> None:
    retraining, done = Retraining(), list[str]()
    await retraining.let_own_go(lambda: 0, 180, 18)
    asked = asyncio.create_task(retraining.compute(QUESTIONS, done.append, "member"))
    await asyncio.wait_for(retraining.compute(AUDITS, done.append, "auditor"), 5)
    assert done == ["auditor"]
    retraining.end_own()
    await asyncio.wait_for(asked, 5)
    retraining.close()
