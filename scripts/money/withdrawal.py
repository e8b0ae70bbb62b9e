"""`touchstone withdraw` takes out all money of this account.

Pay, paid-out stakes, returned bonds and the rest of an escrow become credit of their account automatically,
so nothing must be claimed one by one.
"""

from collections.abc import Sequence

from eth_utils.address import is_checksum_address

from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.pace import Pace, read_pace
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.timing import is_over
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.requirements import notify_wallet
from touchstone.scripts.account.sending import send, send_dues
from touchstone.scripts.account.task_names import read_state, show_seat, show_task
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.stake_documents import WithdrawDocument
from touchstone.scripts.money.holdings import Holding, describe_release, find_holding

WAIT_BLOCKS = 20
"""Blocks between two looks at what still holds a stake."""


async def withdraw(
    chain: GameChain, console: Console, *, is_waiting: bool, payout_address: str = ""
) -> WithdrawDocument:
    """Takes out all credit, and before that the stakes of this account's seats that nothing holds. The
    contracts pay the account; the tokens then go on to `payout_address`, if there is one.
    `is_waiting` waits for stakes of seats that have left, and of tasks that are over; it says once what it
    waits for, and again when that changes. Raises InvalidInput if nothing comes out, and as `require_payout`
    does."""
    if payout_address:
        require_payout(payout_address)
    told: list[str] = []
    while True:
        state, pace = await read_state(chain, chain.address), await read_pace(chain)
        await _pay_out_own(chain, state, pace)
        after = await read_state(chain, chain.address)
        waited = _list_leaving(after, chain.address, pace)
        if not is_waiting or not waited:
            break
        # Leave out the estimated time, which changes with each look.
        blocks = _list_leaving(after, chain.address, Pace(pace.head_block, None))
        if blocks != told:
            console.notify(f"waiting for the stake of {'; '.join(waited)}")
        told = blocks
        await chain.wait_for_block(pace.head_block + WAIT_BLOCKS)
    return await _withdraw_credit(chain, console, waited, payout_address)


def require_payout(address: str) -> None:
    """Raises InvalidInput for a payout address with a mistyped digit, as far as its capital letters tell
    (EIP-55). Tokens that are sent to nobody are lost."""
    is_mixed = address[2:] not in (address[2:].lower(), address[2:].upper())
    if (is_mixed and not is_checksum_address(address)) or not int(address, 16):
        raise InvalidInput(
            what="payout_address is no account",
            expected="an address whose capital letters fit its digits (EIP-55), or one without capitals",
            actual=address,
            remedy="Copy it into config.toml again. Nothing was withdrawn: tokens that are sent to a wrong "
            "address are lost.",
        )


async def _pay_out_own(chain: GameChain, state: ChainState, pace: Pace) -> None:
    for task, game in state.games.items():
        seat = find_seat(game, chain.address)
        if seat is not None and not find_holding(game, seat, pace).held_by:
            await send_dues(chain, task, chain.address)


def _list_leaving(state: ChainState, account: str, pace: Pace) -> list[str]:
    """Returns own stakes that come out automatically once nothing holds them, with what holds them."""
    found = []
    for task, game in state.games.items():
        seat = find_seat(game, account)
        if seat is None or seat.status == SeatStatus.CONVICTED:
            continue
        if seat.status == SeatStatus.LEAVING or is_over(game, pace.head_block + 1):
            found.append(_describe_held(task, find_holding(game, seat, pace)))
    return found


def _describe_held(task: bytes, holding: Holding) -> str:
    return f"{show_seat(holding.seat)} of {show_task(task)} ({describe_release(holding)})"


async def _withdraw_credit(
    chain: GameChain, console: Console, held: Sequence[str], payout_address: str
) -> WithdrawDocument:
    if await chain.vault.credit_of(chain.address) == 0:
        raise InvalidInput(
            what="there is nothing to withdraw",
            expected=f"credit of {chain.address}",
            actual=f"none; still held: {'; '.join(held)}" if held else "none",
            remedy="Pay becomes credit when its rounds are settled, a stake when its seat has left: see "
            "`touchstone status`.",
        )
    receipt = await send(chain.vault.withdraw())
    amount_wei = receipt.find("Withdrawn").arguments["wei_"]
    console.notify(f"withdrawn: {format_tokens(amount_wei)} to {chain.address}")
    if payout_address:
        await send(chain.token.transfer(payout_address, amount_wei))
        console.notify(f"sent on: {format_tokens(amount_wei)} to {payout_address}, the payout_address")
    for line in held:
        console.notify(f"still held: {line}")
    wallet_wei = await notify_wallet(chain, console)
    paid_to = payout_address or chain.address
    return WithdrawDocument(
        chain.address.lower(), str(amount_wei), str(wallet_wei), list(held), paid_to.lower()
    )
