"""Who is at work first: what is due first, and all others wait."""

import asyncio

import pytest

from touchstone.node.kit.recompute_queue import AUDITS, NOBODY, QUESTIONS, NotWanted, RecomputeQueue


async def test_what_is_due_first_goes_first_also_between_two_pieces_of_work() -> None:
    recompute_queue, done = RecomputeQueue(), list[str]()

    async def work(name: str, until: int) -> None:
        async with recompute_queue.take_turn(until) as turn:
            for piece in range(2):
                await recompute_queue.give_way(turn)
                await recompute_queue.run(done.append, f"{name}{piece}")

    async with recompute_queue.take_turn(QUESTIONS) as turn:
        tasks = [asyncio.create_task(work(*one)) for one in (("audit", AUDITS), ("late", 9), ("same", 9))]
        await asyncio.sleep(0)
        await recompute_queue.give_way(turn)
        assert done == ["late0", "late1", "same0", "same1", "audit0", "audit1"]
    await asyncio.gather(*tasks)
    recompute_queue.close()


async def test_who_gives_up_lets_the_next_one_in() -> None:
    recompute_queue = RecomputeQueue()
    async with recompute_queue.take_turn(1):
        waiting = asyncio.create_task(recompute_queue.compute(2, int))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await asyncio.wait_for(recompute_queue.compute(3, int), 5) == 0


ROUND, SEGMENT = 180, 18
"""Blocks."""


async def test_own_training_waits_for_answers_whose_clocks_are_near_and_for_nothing_else() -> None:
    recompute_queue = RecomputeQueue()
    async with recompute_queue.take_turn(AUDITS):
        await asyncio.wait_for(recompute_queue.let_own_go(lambda: 0, ROUND, SEGMENT), 5)
        # At once, though nothing but the own claim is as urgent.
        answering = asyncio.create_task(recompute_queue.compute(2 * ROUND + SEGMENT - 1, int))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(recompute_queue.let_own_go(lambda: 0, ROUND, SEGMENT))
        await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(asyncio.gather(answering, waiting), 5)
    recompute_queue.close()


async def test_answers_with_time_wait_for_the_own_claim() -> None:
    """Two answers have time as long as three rounds of training fit in before the first clock."""
    recompute_queue, done = RecomputeQueue(), list[str]()
    await recompute_queue.let_own_go(lambda: 0, ROUND, SEGMENT)
    answers = [
        asyncio.create_task(recompute_queue.compute(3 * ROUND + SEGMENT, done.append, str(n)))
        for n in range(2)
    ]
    await asyncio.sleep(0)
    await asyncio.wait_for(recompute_queue.compute(AUDITS, done.append, "beside"), 5)
    await asyncio.wait_for(recompute_queue.let_own_go(lambda: 0, ROUND, SEGMENT), 5)
    assert done == ["beside"]
    # A block later one of them has to be computed first; the other one has time again.
    await asyncio.wait_for(recompute_queue.let_own_go(lambda: 1, ROUND, SEGMENT), 5)
    assert done == ["beside", "0"]
    recompute_queue.end_own()
    await asyncio.wait_for(asyncio.gather(*answers), 5)
    assert done == ["beside", "0", "1"]
    recompute_queue.close()


async def test_an_answer_gives_way_to_the_own_claim_between_two_pieces() -> None:
    recompute_queue, done = RecomputeQueue(), list[int]()

    async def answer() -> None:
        async with recompute_queue.take_turn(2 * ROUND + SEGMENT) as turn:
            for piece in range(2):
                await recompute_queue.give_way(turn)
                await recompute_queue.run(done.append, piece)
                await began.wait()

    began = asyncio.Event()
    answering = asyncio.create_task(answer())
    while not done:
        await asyncio.sleep(0)
    await asyncio.wait_for(recompute_queue.let_own_go(lambda: 0, ROUND, SEGMENT), 5)
    began.set()
    await asyncio.sleep(0.05)
    assert done == [0]
    recompute_queue.end_own()
    await asyncio.wait_for(answering, 5)
    recompute_queue.close()


async def test_the_clock_goes_on_while_the_own_claim_waits() -> None:
    """The slowest machine that the task admits, with one segment a round: each answer and the own claim take
    100 blocks. In 240 and 250 blocks there is time for both answers, one after the other, and for nothing
    before them."""
    recompute_queue, length, ended = RecomputeQueue(), 100, dict[str, int]()
    now = 0

    def work(name: str) -> None:
        nonlocal now
        now += length
        ended[name] = now

    async def train_own() -> None:
        await recompute_queue.let_own_go(lambda: now, length, length)
        await asyncio.to_thread(work, "own")
        recompute_queue.end_own()

    clocks = {"first": 240, "second": 250}
    async with recompute_queue.take_turn(-1):
        answers = [
            asyncio.create_task(recompute_queue.compute(clock, work, one)) for one, clock in clocks.items()
        ]
        await asyncio.sleep(0)
        own = asyncio.create_task(train_own())
        await asyncio.sleep(0)
    await asyncio.gather(own, *answers)
    recompute_queue.close()
    assert all(ended[name] <= clock for name, clock in clocks.items()), ended


async def test_an_answer_that_comes_while_the_last_segment_is_trained_has_time_after_it() -> None:
    """One segment a round: what is not urgent waits for a whole round of training, and then takes one."""
    recompute_queue, length, now = RecomputeQueue(), 100, 0
    await recompute_queue.let_own_go(lambda: now, length, length)
    clock, done = 2 * length, list[int]()
    answering = asyncio.create_task(recompute_queue.compute(clock, done.append, now))
    await asyncio.wait_for(answering, 5)
    recompute_queue.end_own()
    recompute_queue.close()
    assert done == [0]


async def test_what_gets_a_clock_while_it_waits_goes_before_what_has_time() -> None:
    """Nobody waited for the first one when it came; now an auditor does."""
    recompute_queue, done, until = RecomputeQueue(), list[str](), AUDITS
    tasks = list[asyncio.Task[None]]()
    async with recompute_queue.take_turn(1):
        for name, clock in (("raised", lambda: until), ("steps", AUDITS - 1)):
            tasks.append(asyncio.create_task(recompute_queue.compute(clock, done.append, name)))
            await asyncio.sleep(0)
        until = 9
    await asyncio.gather(*tasks)
    recompute_queue.close()
    assert done == ["raised", "steps"]


@pytest.mark.parametrize("is_first", [True, False])
async def test_what_nobody_waits_for_any_more_stops_between_two_pieces(is_first: bool) -> None:
    """Also where it becomes so while it gives way to an answer."""
    recompute_queue, until = RecomputeQueue(), AUDITS

    def leave() -> None:
        nonlocal until
        until = NOBODY

    with pytest.raises(NotWanted):
        async with recompute_queue.take_turn(lambda: until) as turn:
            answering = asyncio.create_task(
                asyncio.sleep(0) if is_first else recompute_queue.compute(9, leave)
            )
            await asyncio.sleep(0)
            if is_first:
                leave()
            await recompute_queue.give_way(turn)
    await asyncio.wait_for(answering, 5)
    recompute_queue.close()
