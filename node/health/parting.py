"""Tells an operator that stops a node what its seat keeps locked, and when to be back."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.health.deadlines import ASK, COMMIT, CONTEST, DISPUTE, VOTE, list_deadlines
from touchstone.node.kit.config import Notify
from touchstone.node.kit.view import View
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.gate import BLOCK_S
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.pools import find_seat, get_stake, is_held
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import Seat
from touchstone.protocol.spec.game.timing import is_over
from touchstone.protocol.spec.tokens import format_tokens

HOUR_S, NUMBER_MASK = 3600, 0xFFFF
COSTS = {
    COMMIT: "the claim of the running round is due",
    VOTE: "a vote is due",
    **dict.fromkeys((ASK, DISPUTE, CONTEST), "an answer is due; silence costs all of the stake"),
}
ANY_TIME = "if somebody disputes a statement of this seat now, silence until then costs all of the stake"


@dataclass(frozen=True)
class Parting:
    """Tells an operator that stops a node what its seat still owes."""

    chain: GameChain
    notify: Notify

    def notify_end(self, view: View | None) -> None:
        """Tells the operator if the account has a seat of the task, or transactions that are not mined yet.
        `view` is None while the chain has no task that this node works on."""
        if unsent := self._describe_unsent():
            self.notify(f"WARNING: {unsent}")
        if view is None:
            return
        game, seat = view.game, find_seat(view.game, view.account)
        if seat is None:
            return
        stake = format_tokens(get_stake(game, seat.number))
        name = f"{seat.role.name.lower()} {seat.number & NUMBER_MASK}"
        is_leaving = seat.status == SeatStatus.LEAVING
        ends = "The seat is leaving already" if is_leaving else "`touchstone leave` gives the seat up"
        sentences = [self._describe_return(view), *_describe_next_round(view, seat), ends]
        self.notify(
            f"WARNING: this node stops, its seat stays: {name} keeps {stake} locked. "
            f"{'. '.join(sentences)}; the "
            "node is needed until the stake is paid out"
        )

    def _describe_unsent(self) -> str:
        """Describes transactions of this account that are not mined yet; empty if there are none."""
        sender = self.chain.sender
        count = 0 if sender is None else len(sender.queue.list_all())
        if not count:
            return ""
        if count == 1:
            return "a transaction of this node is not mined yet: the next start goes on with it"
        return f"{count} transactions of this node are not mined yet: the next start goes on with them"

    def _describe_return(self, view: View) -> str:
        head = view.head_block
        if not view.game.rounds:
            return "Be back before the task begins"
        soonest, duty = min(((last, duty) for duty, last in list_deadlines(view, head + 1)), default=(0, ""))
        silence = head + view.game.terms.windows.respond
        last, why = (soonest, COSTS[duty]) if duty and soonest <= silence else (silence, ANY_TIME)
        block_s = BLOCK_S.get(self.chain.bounds.name)
        hours = "" if block_s is None else f" (in {(last - head) * block_s / HOUR_S:.1f} hours)"
        return f"Be back before block {last}{hours}: {why}"


def _describe_next_round(view: View, seat: Seat) -> Iterator[str]:
    """Yields a line on what it costs to miss a round that may open before the node is back."""
    game, block = view.game, view.head_block + 1
    if game.next_round >= game.terms.rounds or is_over(get_state_at(game, block), block):
        return
    pools = (pool for index, pool in game.pools.items() if index >= game.next_round)
    if seat.status != SeatStatus.ACTIVE and not any(is_held(pool, seat) for pool in pools):
        return
    if seat.role is SeatRole.SOLVER:
        fee = format_tokens(game.terms.amounts.dropped_fee)
        yield f"A round may open meanwhile: missing it costs a fee of {fee}"
    else:
        yield "A round may open meanwhile: an audit that is missed is not paid"
