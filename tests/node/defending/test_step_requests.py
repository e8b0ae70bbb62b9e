"""Requests for step states: noted, bounded by account and in all, answered from memory."""

import asyncio

from touchstone.node.kit.recompute_queue import AUDITS, QUESTIONS, RecomputeQueue
from touchstone.node.records.wanted_steps import MAX_GRANTED, MAX_SHOWN, MAX_WANTED, Asker, StepRequests

TASK = bytes(32)


def auditor(name: str) -> Asker:
    return Asker(name, is_auditor=True)


def member(name: str) -> Asker:
    return Asker(name, is_auditor=False)


def serve(handler: StepRequests) -> None:
    for place in list(handler.wanted):
        handler.offer(place, (bytes(32),))


def test_find_notes_what_is_not_at_hand_and_gives_what_is() -> None:
    handler = StepRequests()
    assert handler.find(auditor("alice"), TASK, 0, 1) is None and list(handler.wanted) == [(TASK, 0, 1)]
    handler.offer((TASK, 0, 1), (b"a" * 32, b"b" * 32))
    assert handler.find(member("bob"), TASK, 0, 1) == b"a" * 32 + b"b" * 32 and not handler.wanted


def test_find_what_waits_is_bounded_by_account_and_in_all() -> None:
    handler = StepRequests()
    for segment in range(5):
        handler.find(member("alice"), TASK, 0, segment)
    assert len(handler.wanted) == 1
    for number in range(3 * MAX_WANTED):
        handler.find(member(f"account {number}"), TASK, 0, number + 10)
    assert len(handler.wanted) == MAX_WANTED
    handler.drop((TASK, 0, 0))
    assert len(handler.wanted) == MAX_WANTED - 1


def test_find_an_auditor_goes_before_all_others_though_they_fill_the_handler() -> None:
    handler = StepRequests()
    for number in range(MAX_WANTED):
        handler.find(member(f"evil {number}"), TASK, 0, 10 + number)
    handler.find(auditor("drawn"), TASK, 0, 3)
    handler.find(auditor("drawn too"), TASK, 0, 12)
    assert list(handler.wanted)[:2] == [(TASK, 0, 12), (TASK, 0, 3)]
    assert handler.wanted[TASK, 0, 12] == auditor("drawn too"), "what a member asked for is the auditor's now"


def test_offer_others_have_one_share_a_round_together() -> None:
    handler = StepRequests()
    for segment in range(MAX_GRANTED + 2):
        handler.find(member(f"member {segment}"), TASK, 0, 10 + segment)
        assert bool(handler.wanted) == (segment < MAX_GRANTED)
        serve(handler)
    handler.find(member("member"), TASK, 1, 9)
    assert list(handler.wanted) == [(TASK, 1, 9)]


def test_offer_of_what_others_ask_for_only_the_last_segments_stay() -> None:
    handler, gone = StepRequests(), []
    for segment in range(MAX_SHOWN + 2):
        handler.find(member(f"account {segment}"), TASK, 0, segment)
        gone += handler.offer((TASK, 0, segment), (bytes([segment]) * 32,))
    assert gone == [(bytes([segment]) * 32,) for segment in range(2)]
    assert len(handler.shown) == MAX_SHOWN


def test_offer_what_an_auditor_looks_at_stays_whatever_others_ask_for() -> None:
    """It fetches the states. Members and auditors of other segments ask for more than ever was kept."""
    handler = StepRequests()
    handler.find(member("early"), TASK, 0, 3)
    serve(handler)
    assert handler.find(auditor("honest"), TASK, 0, 3) is not None, "now it fetches the states"
    for number in range(12):
        handler.find(member(f"member {number}"), TASK, 0, 10 + number)
        handler.find(auditor(f"auditor {number}"), TASK, number % 3, 50 + number)
        serve(handler)
    assert handler.find(auditor("honest"), TASK, 0, 3) is not None


def test_find_auditors_of_a_segment_share_one_computation() -> None:
    """Two draws of three rounds: all three ranks ask for each of the six segments, twice."""
    handler, trained = StepRequests(), list[object]()
    for rank in (0, 1, 2) * 2:
        for place in [(TASK, index, segment) for index in range(3) for segment in range(2)]:
            if handler.find(auditor(f"rank {rank} of {place}"), *place) is None:
                trained += list(handler.wanted)
                serve(handler)
    assert len(trained) == len(set(trained)) == 6


async def test_what_members_ask_for_waits_for_the_own_claim_and_what_auditors_ask_for_does_not() -> None:
    recompute_queue, done = RecomputeQueue(), list[str]()
    await recompute_queue.let_own_go(lambda: 0, 180, 18)
    asked = asyncio.create_task(recompute_queue.compute(QUESTIONS, done.append, "member"))
    await asyncio.wait_for(recompute_queue.compute(AUDITS, done.append, "auditor"), 5)
    assert done == ["auditor"]
    recompute_queue.end_own()
    await asyncio.wait_for(asked, 5)
    recompute_queue.close()
