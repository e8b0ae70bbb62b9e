"""Takes a seat in a task, unless the machine or the network could not keep it."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from touchstone.node.joining.machine_check import MachineCheck
from touchstone.node.joining.reachability import Reachability
from touchstone.node.kit.config import Notify
from touchstone.node.kit.view import GetView, View
from touchstone.node.kit.waiting import telling
from touchstone.node.records.round_seats import find_own_slot
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.calls import JoinSeat
from touchstone.protocol.spec.game.drawn_audits import get_ever_drawn
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake
from touchstone.protocol.spec.game.round_machine import apply
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import find_first_round

SHUT_PAUSE_S = 1.0
"""Seconds before this node checks again whether it may sign."""


DISPUTE_MOVES = 8
"""The moves of a dispute that is opened in the last block of its window, and two more."""


@dataclass(frozen=True)
class SeatRequest:
    """The seat that an account wants. `stake_wei` is 0 for the amount that the task requires. `figures` are
    the operator's assumptions, by which the task's amounts are judged; None skips that. `is_held` says that
    the account already had the seat or a bond, so no new seat is taken. `require_wanted` is called last
    before the stake is locked, and raises if the operator does not want the seat any more."""

    role: SeatRole
    stake_wei: int = 0
    figures: Figures | None = None
    is_held: bool = False
    require_wanted: Callable[[GameState], None] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SeatTaking:
    """Takes a seat after this machine was checked and peers reach it. `keep_up` folds the chain's events
    without end."""

    get_view: GetView
    chain: GameChain
    journal: Journal
    notify: Notify
    keep_up: Callable[[], Coroutine[Any, Any, None]]
    machine_check: MachineCheck
    reachability: Reachability

    async def take_seat(self, request: SeatRequest) -> None:
        """Takes a seat of the joined task with a stake from this account's tokens, unless the account has
        one. Raises GameRefusal if the task takes no such seat, EnvironmentFault if no peer reaches this node;
        no token is moved then."""
        view = self.get_view()
        self.require_records()
        stake_wei = request.stake_wei or get_required_stake(view.game, request.role)
        is_new, call = (
            find_seat(view.game, view.account) is None,
            JoinSeat(request.role, stake_wei),
        )
        if is_new:
            require_joinable(view.game, call, view.account, view.head_block + 1)
        await self._keep_up_with(self._check_and_join(request, call, is_new=is_new))

    async def _keep_up_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Folds new events while other work runs, because nothing is signed on an old block. Raises what
        either of them raises: with a wrong fold the work would be wrong too."""
        both = asyncio.ensure_future(self.keep_up()), asyncio.ensure_future(work)
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _check_and_join(self, request: SeatRequest, call: JoinSeat, *, is_new: bool) -> None:
        await self.machine_check.check_machine()
        if not is_new:
            return
        await self.reachability.require_reached()
        require_joinable(self.get_view().game, call, self.get_view().account, self.get_view().head_block + 1)
        if request.require_wanted is not None:
            request.require_wanted(self.get_view().game)
        await self._send_until_accepted(call)
        self.notify(
            f"took a seat as {request.role.name.lower()}; it works {_describe_when(self.get_view().game)}"
        )

    async def _send_until_accepted(self, call: JoinSeat) -> None:
        """Deposits and joins. Waits while this node may not sign, because a wrong endpoint may recover soon.
        Raises GameRefusal if the task does not take the seat any more."""
        gate = self.chain.gate
        async with telling(self.notify, lambda: f"waiting to join: {gate.reason or 'no block yet'}"):
            while True:
                with suppress(GateShut):
                    require_joinable(
                        self.get_view().game, call, self.get_view().account, self.get_view().head_block + 1
                    )
                    await self.chain.deposit_missing(call.wei)
                    await self.chain.game.join(self.get_view().task, call.role, call.wei)
                    return
                await asyncio.sleep(SHUT_PAUSE_S)

    def require_records(self) -> None:
        """Raises EnvironmentFault if the chain has a claim or a vote of this account that still counts, but
        the journal does not. Then it is the journal of another node, or an older copy."""
        view = self.get_view()
        seat = find_seat(view.game, view.account)
        rounds = [] if seat is None else [r for r in view.game.rounds.values() if r.index >= seat.settled]
        for game_round in rounds:
            self._require_claim(view, game_round)
            self._require_votes(view, game_round)

    def _require_claim(self, view: View, game_round: GameRound) -> None:
        slot = find_own_slot(view.game, game_round, view.account)
        claim = None if slot is None else game_round.claims.get(slot)
        finished = None if claim is None else view.claims.find(game_round).finished
        if claim is not None and (finished is None or finished.claim_root != claim.claim_root):
            expected = f"the claim {claim.claim_root.hex()} of round {game_round.index}"
            raise self._not_the_one(expected, "none" if finished is None else finished.claim_root.hex())

    def _require_votes(self, view: View, game_round: GameRound) -> None:
        for (slot, draw), counted in game_round.votes.items():
            for rank, one in counted.items():
                drawn = get_ever_drawn(view.game, game_round.index, slot, draw, rank)
                made = None if drawn is None else view.audits.book.votes.get(drawn.place)
                is_own = drawn is not None and drawn.seat.account == view.account
                if is_own and (made is None or made.vote.word != one.word):
                    where = f"round {game_round.index} slot {slot} draw {draw}"
                    expected = f"the vote {one.word.name} on {where}"
                    raise self._not_the_one(expected, "none" if made is None else made.vote.word.name)

    def _not_the_one(self, expected: str, actual: str) -> EnvironmentFault:
        return EnvironmentFault(
            what="the journal lacks a statement that this account has signed",
            expected=expected,
            actual=actual,
            where=str(self.journal.path),
            remedy="Bring back the newest journal with all its files: without it the node cannot defend its "
            "statements. If it is lost, give up the seat with `touchstone leave`.",
            retryable=False,
        )


def _describe_when(game: GameState) -> str:
    first = find_first_round(game)
    if first is None:
        return "once enough others have joined"
    return f"from round {first} on" if first < game.terms.rounds else "only if the task starts again"


def require_joinable(game: GameState, call: JoinSeat, account: str, block: int) -> None:
    """Raises GameRefusal if the rules refuse the seat for any reason except missing credit, which is
    deposited next. `block` is the next block."""
    try:
        apply(game, call, account, block)
    except GameRefusal as refusal:
        if refusal.name != "CreditTooSmall":
            raise
