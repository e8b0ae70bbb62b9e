"""Who is at work first: what is due first, and all others wait."""

import asyncio

import pytest

from protocol.actions.retraining import AUDITS, QUESTIONS, Retraining


async def test_what_is_due_first_goes_first_also_between_two_pieces_of_work() -> None:
    retraining, done = Retraining(), list[str]()

    async def work(name: str, until: int) -> None:
        async with retraining.take_turn(until) as turn:
            for piece in range(2):
                await retraining.give_way(turn)
                await retraining.run(done.append, f"{name}{piece}")

    async with retraining.take_turn(QUESTIONS) as turn:
        tasks = [asyncio.create_task(work(*one)) for one in (("audit", AUDITS), ("late", 9), ("same", 9))]
        await asyncio.sleep(0)
        await retraining.give_way(turn)
        assert done == ["late0", "late1", "same0", "same1", "audit0", "audit1"]
    await asyncio.gather(*tasks)
    retraining.close()


async def test_who_gives_up_lets_the_next_one_in() -> None:
    retraining = Retraining()
    async with retraining.take_turn(1):
        waiting = asyncio.create_task(retraining.compute(2, int))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await asyncio.wait_for(retraining.compute(3, int), 5) == 0


async def test_own_training_waits_for_answers_and_for_nothing_else() -> None:
    retraining = Retraining()
    async with retraining.take_turn(AUDITS):
        await asyncio.wait_for(retraining.wait_for_answers(), 5)
        answering = asyncio.create_task(retraining.compute(7, int))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(retraining.wait_for_answers())
        await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(asyncio.gather(answering, waiting), 5)
