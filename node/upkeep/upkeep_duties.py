"""Lists the calls that keep a task going, and sends them to the contracts.

Any account may send these calls. Members send them so that a task comes to its end even if some accounts are
silent. The calls fix randomness, keep base roots, settle and pay out seats, close silent ones, and end
queries, disputes and contests after their time limit. `list_upkeep` says what is due, and `find_turn` who
sends it.

A call that answers or ends a query repeats the fields that the query was opened with. The chain's events have
all of them.

No node closes a task that has not begun, however long it waits for members. Its submitter halts it, or an
operator closes it (`touchstone task close`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from touchstone.node.kit.duty import Wait
from touchstone.node.kit.known_statements import get_question
from touchstone.node.kit.view import GetView, View
from touchstone.protocol.adapters.chain.call_parts import count_fitting
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import CloseTask, EndDispute, GameCall, SettleSeat
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.upkeep import SETTLE_SEATS, list_upkeep
from touchstone.protocol.spec.game.upkeep_turns import find_turn, get_seal_window


@dataclass(frozen=True)
class SettleSeats(GameCall):
    """The call `settle` for several seats up to one round. The contract skips seats that cannot settle."""

    seats: tuple[int, ...]
    until_round: int

    @property
    def seat(self) -> int:
        """The first seat, which names this page of seats."""
        return self.seats[0]


@dataclass(frozen=True)
class Upkeep:
    """Sends the calls that keep a task going."""

    get_view: GetView
    chain: GameChain

    async def send_upkeep(self, call: GameCall) -> None:
        """Sends a call of `list_upkeep`, or SettleSeats. Raises ContractRefused if it is not due any more."""
        task, chain = self.get_view().task, self.chain
        match call:
            case calls.StartRounds():
                await chain.game.start(task)
            case calls.DrawStart():
                await chain.game.draw_start(task, await self._prove(call))
            case calls.DrawRound():
                await chain.game.draw_round(task, call.round, await self._prove(call))
            case calls.DrawAudits():
                await chain.game.draw_audits(task, call.round, await self._prove(call))
            case calls.DrawClosing():
                await chain.game.draw_closing(task, await self._prove(call))
            case calls.LetStand():
                await chain.game.stand(task, call.round)
            case calls.FreeEpoch():
                await chain.game.free_epoch(task)
            case calls.CloseTask():
                await chain.game.close_task(task)
            case calls.PayOut():
                await chain.game.pay_out(task, call.seat)
            case SettleSeats():
                await self._settle(call)
            case calls.MarkSilent():
                missed = [(one.round, one.slot, one.draw) for one in call.missed]
                await chain.game.mark_silent(task, call.seat, missed)
            case _:
                await self._end(call)

    async def _end(self, call: GameCall) -> None:
        """Ends a contest, a query or a dispute whose time limit has passed."""
        task, chain = self.get_view().task, self.chain
        match call:
            case calls.EndRootContest():
                await chain.game.end_contest(task, _find_name(self.get_view(), call.contest))
            case calls.EndQuery():
                opened = (
                    self.get_view().chain_state.inner[task].queries[_find_name(self.get_view(), call.query)]
                )
                await chain.game.end_query(task, get_question(opened))
            case calls.EndDispute():
                await chain.game.end_dispute(task, _find_name(self.get_view(), call.dispute))
            case _:
                raise TypeError(f"no upkeep call: {call}")

    async def _prove(self, call: GameCall) -> bytes:
        """Returns the header of the block whose randomness a call fixes."""
        view = self.get_view()
        block = view.head_block + 1
        window = get_seal_window(get_state_at(view.game, block), call, block)
        if window is None:
            raise EnvironmentFault(
                what="there is no randomness to record any more",
                expected="a draw that is due",
                actual=call,
                remedy="You need to do nothing: another node was faster.",
            )
        return await self.chain.prove_header(window[0] - 1)

    async def _settle(self, call: SettleSeats) -> None:
        """Settles as many of the seats as fit; the others are due again."""

        def arrange(seats: Sequence[int]) -> tuple[Any, ...]:
            return self.get_view().task, list(seats), call.until_round

        count = await count_fitting(self.chain.game, "settle", call.seats, arrange)
        await self.chain.game.settle(*arrange(call.seats[:count]))


def _find_name(view: View, number: int) -> bytes:
    """Returns the on-chain name of an open contest, query or dispute."""
    name = view.game.find_name(number)
    if name is None:
        raise EnvironmentFault(
            what="the game has ended already",
            expected="an open contest, query or dispute",
            actual=number,
            remedy="You need to do nothing: another node was faster.",
        )
    return name


@dataclass(frozen=True)
class SendUpkeep:
    """Send a call that is due, when it is this node's turn."""

    call: GameCall

    @property
    def title(self) -> str:
        """The title for `name_duty`."""
        return type(self.call).__name__

    async def perform(self, room: "Upkeep") -> None:
        """Sends the call. Raises ContractRefused if another account was faster."""
        await room.send_upkeep(self.call)


def list_duties(view: View, block: int) -> Iterator[SendUpkeep | Wait]:
    """Yields what this node should send in `block`, and when its turn comes for the rest."""
    game = view.game
    state = get_state_at(game, block)
    for call in list_calls(view, game, block):
        turn = find_turn(state, view.account, call, block)
        yield SendUpkeep(call) if turn <= block else Wait(turn)


def list_calls(view: View, game: LoggedGame, block: int) -> Iterator[GameCall]:
    """Yields every call that is due in `block`, whether or not it is this node's turn. Seats that settle
    together are grouped in pages."""
    due = [one for one in list_upkeep(game, block) if not (isinstance(one, CloseTask) and is_gathering(game))]
    yield from _page(call for call in due if isinstance(call, SettleSeat))
    ends = {call.dispute for call in due if isinstance(call, EndDispute)}
    yield from (call for call in due if not isinstance(call, SettleSeat))
    for name, inner in view.chain_state.inner[view.task].disputes.items():
        if inner.is_open and block > inner.clock and game.names[name] not in ends:
            yield EndDispute(game.names[name])


def is_gathering(state: GameState) -> bool:
    """Returns whether the task still waits for its first members."""
    return state.next_round == 0 and not state.is_halted


def find_next_block(state: GameState, block: int) -> int | None:
    """Returns the first block after `block` in which a deadline may make something due; None if there is
    none. A task that waits for its first members could be closed, but that is no reason to look again."""
    found = get_next_block(state, block)
    is_end = found == state.paused_since + state.terms.windows.dispute
    return None if is_end and is_gathering(state) else found


def _page(settlements: Iterable[SettleSeat]) -> Iterator[SettleSeats]:
    by_round: dict[int, list[int]] = {}
    for call in settlements:
        by_round.setdefault(call.until_round, []).append(call.seat)
    for until, seats in sorted(by_round.items()):
        for first in range(0, len(seats), SETTLE_SEATS):
            yield SettleSeats(tuple(sorted(seats)[first : first + SETTLE_SEATS]), until)
