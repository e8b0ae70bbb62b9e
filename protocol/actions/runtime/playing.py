"""A role's whole life on one task: join, take a seat, perform the duties of its rooms until it is closed."""

from collections.abc import Sequence

from protocol.actions.pruning.self_test import check_bits
from protocol.actions.runtime.duties import ListDuties
from protocol.actions.runtime.joining import SeatWish, catch_up, open_task, take_seat
from protocol.actions.runtime.loop import Loop
from protocol.actions.runtime.party import Party


async def play(party: Party, task: bytes, rooms: Sequence[ListDuties], wish: SeatWish | None = None) -> None:
    """Work on `task` until it is closed. wish: None for who works without a seat. Raises InvalidInput
    (unknown or malformed task) and EnvironmentFault (no chain, no peer)."""
    await catch_up(party)
    await open_task(party, task, wish.figures if wish else None)
    if wish is not None:
        await check_bits(party)
        await take_seat(party, wish)
    try:
        await Loop(party, rooms).run()
    finally:
        party.task.cases.close()
        party.task.retraining.close()
