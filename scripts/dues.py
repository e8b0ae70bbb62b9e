"""Calls that anybody may send and that bring money out: settling seats, paying stakes out, closing a task.
Running nodes send them too; a command sends what no node has sent."""

from collections.abc import Awaitable

from protocol.actions.runtime.upkeep import SETTLE_SEATS
from protocol.adapters.chain.contract import Receipt
from protocol.adapters.chain.game import GameChain
from protocol.adapters.chain.refusals import ContractRefused
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game import calls
from protocol.spec.game.upkeep import list_upkeep
from scripts.tasks import read_state

Due = calls.SettleSeat | calls.PayOut | calls.FreeEpoch
STEPS_MAX = 64
"""Looks at the chain: each sends all that is due, which makes more due."""


async def send_dues(chain: GameChain, task: bytes, account: str = "") -> None:
    """Settle and pay out the seats of `account` in a task; of everybody, where it is empty."""
    for _ in range(STEPS_MAX):
        found = await _list_dues(chain, task, account)
        if not found:
            return
        for call in found:
            await _send_due(chain, task, call)


async def _list_dues(chain: GameChain, task: bytes, account: str) -> list[Due]:
    """What is due now: settlements first, since they make payouts due."""
    state = await read_state(chain, account)
    game, block = state.games[task], state.head_block + 1
    due = list_upkeep(game, block)
    own = {number for number, seat in game.seats.items() if account in ("", seat.account)}
    settled: list[Due] = [one for one in due if isinstance(one, calls.SettleSeat) and one.seat in own]
    paid: list[Due] = [one for one in due if isinstance(one, calls.PayOut) and one.seat in own]
    freed: list[Due] = [one for one in due if isinstance(one, calls.FreeEpoch) and not account]
    return [*settled, *([] if settled else [*paid, *freed])][:SETTLE_SEATS]


async def _send_due(chain: GameChain, task: bytes, call: Due) -> None:
    """A running node may have been faster: then the next look finds nothing to do."""
    try:
        match call:
            case calls.SettleSeat():
                await send(chain.settlement.settle(task, [call.seat], call.until_round))
            case calls.PayOut():
                await send(chain.tasks.pay_out(task, call.seat))
            case calls.FreeEpoch():
                await send(chain.rounds.free_epoch(task))
    except ContractRefused:
        return


async def send(sending: Awaitable[Receipt]) -> Receipt:
    """What sending returns. Raises EnvironmentFault that tells to look before anything is repeated: a chain
    that does not answer may have taken the transaction."""
    try:
        return await sending
    except EnvironmentFault as fault:
        if not fault.retryable:
            # The chain has answered, so nothing was sent: there is no coin for gas, for instance.
            raise
        raise EnvironmentFault(
            what=fault.what,
            expected=fault.expected,
            actual=fault.actual,
            where=fault.where,
            remedy=f"{fault.remedy} It may have been sent all the same: look at `touchstone status` first.",
            retryable=fault.retryable,
        ) from fault
