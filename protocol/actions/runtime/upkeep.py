"""UPKEEP: the calls that anybody may send and somebody must, so that a task comes to its end whoever is
silent.

Seals, roots that stand, settlements, payouts, silent seats, and ends of asks, disputes and contests whose
clock has run out. The machine says what is due (`list_upkeep`), the rotation who sends it (`turns.py`).

A task that has not begun yet is closed by no node of its own accord, however long it waits for members: its
submitter halts it, or somebody says so (`touchstone task close`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from protocol.actions.runtime.duties import Wait
from protocol.actions.runtime.party import Party
from protocol.actions.runtime.upkeep_calls import SettleSeats, send_upkeep
from protocol.spec.game.calls import CloseGame, EndDispute, GameCall, SettleSeat
from protocol.spec.game.ledger import LoggedGame
from protocol.spec.game.machine import get_state_at
from protocol.spec.game.state import GameState
from protocol.spec.game.turns import find_turn
from protocol.spec.game.upkeep import get_next_block, list_upkeep

SETTLE_SEATS = 24
"""Seats that are settled in one transaction."""


@dataclass(frozen=True)
class Upkeep:
    """A call that is due, and that it is this node's turn to send."""

    call: GameCall

    async def perform(self, party: Party) -> None:
        """Send it. Raises ContractRefused where somebody was faster."""
        await send_upkeep(party, self.call)


def list_duties(party: Party, block: int) -> Iterator[Upkeep | Wait]:
    """What this node should send in `block`, and when its turn comes for the rest."""
    game = party.state.games[party.task.task]
    state = get_state_at(game, block)
    for call in list_calls(party, game, block):
        turn = find_turn(state, party.account, call, block)
        yield Upkeep(call) if turn <= block else Wait(turn)


def list_calls(party: Party, game: LoggedGame, block: int) -> Iterator[GameCall]:
    """Everything that is due in `block`, whoever's turn it is; seats that settle together in pages."""
    due = [one for one in list_upkeep(game, block) if not (isinstance(one, CloseGame) and is_gathering(game))]
    yield from _page(call for call in due if isinstance(call, SettleSeat))
    ends = {call.dispute for call in due if isinstance(call, EndDispute)}
    yield from (call for call in due if not isinstance(call, SettleSeat))
    for name, inner in party.state.inner[party.task.task].disputes.items():
        if inner.is_open and block > inner.clock and game.names[name] not in ends:
            yield EndDispute(game.names[name])


def is_gathering(state: GameState) -> bool:
    """Whether the task still waits for its first members."""
    return state.next_round == 0 and not state.is_halted


def find_next_block(state: GameState, block: int) -> int | None:
    """The first block after `block` in which a node of the task has to look again by the clock alone; None
    where there is none. While it waits for its first members, that it could be closed is no reason."""
    found = get_next_block(state, block)
    is_end = found == state.stands_since + state.terms.windows.dispute
    return None if is_end and is_gathering(state) else found


def _page(settlements: Iterable[SettleSeat]) -> Iterator[SettleSeats]:
    by_round: dict[int, list[int]] = {}
    for call in settlements:
        by_round.setdefault(call.until_round, []).append(call.seat)
    for until, seats in sorted(by_round.items()):
        for first in range(0, len(seats), SETTLE_SEATS):
            yield SettleSeats(tuple(sorted(seats)[first : first + SETTLE_SEATS]), until)
