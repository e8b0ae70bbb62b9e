"""What a node with `--when-idle` does while somebody else uses its machine: pause, then leave.

    no seat           waits until the machine is idle, and joins
    open seat         used: starts no segment and no replay      used for half an hour: sends `leave`
    seat that leaves  works as any other: what a round owes is due whoever sits at the machine

A pause holds up own claims and audits alone. They cost a fee or their pay where they come too late. What
disputes and asks demand is computed at once, because silence there costs the stake.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.config import FAR
from touchstone.node.kit.party import Party
from touchstone.protocol.adapters.machine.machine_use import MachineUse
from touchstone.protocol.compute.program.step_runners import forget_steps
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.open_questions import has_duties
from touchstone.protocol.spec.game.pools import find_seat

LOOK_S = 1.0


async def pause(party: Party) -> None:
    """Waits while somebody uses the machine and the seat is open, but not where that use lasts. To be asked
    before each segment of an own claim and each replay."""
    use = _find_pause(party)
    if use is None:
        return
    party.say(f"pausing, since somebody uses the machine: {use.reason}")
    # Answers wait for the own claim (`RecomputeQueue`): they must not wait for a pause.
    party.task.retraining.end_own()
    forget_steps()
    while _find_pause(party) is not None:
        await asyncio.sleep(LOOK_S)
    party.say("the pause is over")


def _find_pause(party: Party) -> MachineUse | None:
    """What tells of the use that a pause is for; None where there is no reason to pause."""
    use = party.config.use
    is_pausing = use is not None and use.is_used and not use.is_lasting
    return use if is_pausing and _find_open_seat(party) is not None else None


def _find_open_seat(party: Party) -> int | None:
    """The number of the own seat, where it is open."""
    seat = find_seat(party.game, party.account) if party.is_task_known else None
    return seat.number if seat is not None and seat.status == SeatStatus.OPEN else None


@dataclass(frozen=True)
class LeaveWhenBusy:
    """Leave as `touchstone leave` does, because use of the machine lasts. seat: the own one."""

    seat: int

    async def perform(self, party: Party) -> None:
        """Raises ContractRefused where the seat leaves already."""
        await party.chain.tasks.leave(party.task.task, self.seat)
        party.say(
            "somebody has used the machine for half an hour: the seat leaves. The node works for the rounds "
            "that still hold it, and answers for them until its stake is out (`touchstone status`)"
        )


def list_duties(party: Party, block: int) -> Iterator[LeaveWhenBusy]:
    """To leave, once use of the machine lasts."""
    use = party.config.use
    if use is not None and use.is_lasting and (seat := _find_open_seat(party)) is not None:
        yield LeaveWhenBusy(seat)


async def wait_until_idle(party: Party, task: bytes) -> bool:
    """Follows the chain, without a seat in `task`, until nobody has used the machine for long enough. Returns
    whether the account has a seat or a bond there all the same: a run that was killed may have sent for it,
    and it has work to do, whoever uses the machine."""
    use, is_held = party.config.use, False
    if use is not None and not use.is_idle:
        party.say(f"waiting until nobody has used the machine for {use.idle_s / 60:g} minutes")
    while use is not None and not use.is_idle and not is_held:
        party.status.processed_block, party.status.waiting_for_block = party.state.head_block, FAR
        party.take(await anext(party.batches))
        is_held = task in party.state.games and has_duties(party.state.games[task], party.account)
    return is_held
