"""Pauses a node with `--when-idle` while somebody else uses its machine, and makes it leave if that lasts.

    no seat           waits until the machine is idle, then joins
    open seat         in use: starts no segment and no replay    in use for half an hour: sends `leave`
    leaving seat      works as any other, because its rounds still need it

Only own claims and audits are paused. If they are late, they cost a fee or their pay. Answers to disputes
and queries are computed at once, because silence there costs the stake.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.config import Notify
from touchstone.node.kit.recompute_queue import RecomputeQueue
from touchstone.node.kit.view import GetView, View
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.machine.machine_use import MachineUse
from touchstone.protocol.compute.program.step_runners import forget_steps
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.pools import find_seat

LOOK_S = 1.0


@dataclass(frozen=True)
class IdleMode:
    """Pauses own claims and audits while somebody uses the machine. `use` is None if the operator wants no
    pause."""

    get_view: GetView
    chain: GameChain
    recompute_queue: RecomputeQueue
    notify: Notify
    use: MachineUse | None

    async def pause(self) -> None:
        """Waits while somebody uses the machine and the seat is active, unless the use lasts too long. It is
        called before each segment of this node's claim and before each replay."""
        use = self._find_pause()
        if use is None:
            return
        self.notify(f"pausing, because somebody uses the machine: {use.reason}")
        # Answers wait for this node's own claim (`RecomputeQueue`), and a pause must not delay them.
        self.recompute_queue.end_own()
        forget_steps()
        while self._find_pause() is not None:
            await asyncio.sleep(LOOK_S)
        self.notify("the pause is over")

    def _find_pause(self) -> MachineUse | None:
        """Returns the use of the machine that is a reason to pause; None if there is none."""
        use = self.use
        is_pausing = use is not None and use.is_used and not use.is_lasting
        return use if is_pausing and _find_open_seat(self.get_view()) is not None else None


def _find_open_seat(view: View) -> int | None:
    """Returns the number of this node's own seat, if it is open."""
    seat = find_seat(view.game, view.account) if view.is_task_known else None
    return seat.number if seat is not None and seat.status == SeatStatus.ACTIVE else None


@dataclass(frozen=True)
class LeaveWhenBusy:
    """Leave as `touchstone leave` does, because somebody uses the machine for long. `seat` is this node's
    own."""

    seat: int

    async def perform(self, room: "IdleMode") -> None:
        """Leaves. Raises ContractRefused if the seat leaves already."""
        await room.chain.game.leave(room.get_view().task, self.seat)
        room.notify(
            "somebody has used the machine for half an hour: the node gives up its seat. It still works for "
            "the rounds that hold the seat, and answers for them until the stake is paid out "
            "(`touchstone status`)"
        )


def list_duties(use: MachineUse | None, view: View, block: int) -> Iterator[LeaveWhenBusy]:
    """Lists the duty to leave, once the machine has been used for long."""
    if use is not None and use.is_lasting and (seat := _find_open_seat(view)) is not None:
        yield LeaveWhenBusy(seat)
