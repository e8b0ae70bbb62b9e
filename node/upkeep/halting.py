"""Halts a submitter's task once its model gets no better, if the submitter asked for that."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.config import Notify
from touchstone.node.kit.view import GetView, View
from touchstone.node.serving.heldout_reports import list_losses
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.reports.model_progress import count_rounds_without_gain


@dataclass(frozen=True)
class HaltTask:
    """Halt the task: the round that runs is finished, and none follows. `rounds` is how many rounds brought
    no better model."""

    rounds: int

    async def perform(self, room: "Halting") -> None:
        """Sends the call. Raises ContractRefused if the task was halted meanwhile."""
        await room.chain.game.halt(room.get_view().task)
        room.notify(
            f"halted the task, as halt_when in config.toml asks: no better model for {self.rounds} rounds. "
            "The rest of the escrow comes back once the task is closed"
        )


@dataclass(frozen=True)
class Halting:
    """Halts the task of this account."""

    get_view: GetView
    chain: GameChain
    notify: Notify


def list_duties(rounds: int, view: View, block: int) -> Iterator[HaltTask]:
    """Yields the duty to halt if `rounds` rounds brought no better model; never if `rounds` is 0."""
    game = view.game
    is_over = game.is_halted or game.is_closed or game.next_round >= game.terms.rounds
    if rounds and not is_over and count_rounds_without_gain(list_losses(view)) >= rounds:
        yield HaltTask(rounds)
