"""Subcommands that move tokens: `stake` adds to a seat, `leave` gives one up, `withdraw` takes out all that
is this account's.

All pay, every stake that is paid out, bonds that come back and the rest of an escrow become credit of their
account by themselves, so there is nothing to claim one by one. `touchstone solve`, `verify` and `watch` take
a seat. What the contracts would refuse is asked of the chain first, and said in words instead of sent.
"""

import argparse
from collections.abc import Sequence

from protocol.actions.runtime.chain_state import ChainState
from protocol.adapters.chain.game import GameChain
from protocol.adapters.chain.refusals import format_tokens
from protocol.spec.errors import InvalidInput
from protocol.spec.game.enums import SeatStatus
from protocol.spec.game.ledger import LoggedGame
from protocol.spec.game.pools import find_seat, get_required_stake, get_stake
from protocol.spec.game.state import Seat
from protocol.spec.game.timing import is_over
from scripts.console import Console, parse_tokens
from scripts.dues import send, send_dues
from scripts.holdings import Holding, find_holding, tell_release
from scripts.pace import Pace, read_pace
from scripts.tasks import find_game, read_state, show_seat, show_task
from scripts.wallet import deposit_missing, require_agreement, require_tokens, run_with_chain, tell_wallet

WAIT_BLOCKS = 20
"""Between two looks at what still holds a stake."""


def run_stake(options: argparse.Namespace) -> None:
    """Add to the stake of an own seat."""
    amount_wei, console = parse_tokens(options.amount), Console()
    run_with_chain(options, lambda chain: add_stake(chain, options.task, amount_wei, console))


def run_leave(options: argparse.Namespace) -> None:
    """Give up an own seat."""
    console = Console()
    run_with_chain(options, lambda chain: leave(chain, options.task, console, is_agreed=options.yes))


def run_withdraw(options: argparse.Namespace) -> None:
    """Take out all credit, and stakes that nothing holds any more."""
    console = Console()
    run_with_chain(options, lambda chain: withdraw(chain, console, is_waiting=options.wait))


# --- Seats --------------------------------------------------------------------------------------------------
async def add_stake(chain: GameChain, name: str, amount_wei: int, console: Console) -> None:
    """More stake for an own seat, out of credit and then of the wallet. Raises InvalidInput where there is no
    open seat, or not so much money."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    seat = _require_seat(chain, task, game)
    await require_tokens(chain, chain.address, amount_wei)
    await deposit_missing(chain, amount_wei)
    await send(chain.tasks.top_up(task, seat.number, amount_wei))
    stake_wei = get_stake(game, seat.number) + amount_wei
    console.say(f"{show_seat(seat)} of {show_task(task)} has {format_tokens(stake_wei)} at stake")
    least_wei = get_required_stake(game, seat.role)
    if stake_wei < least_wei:
        console.say(
            f"WARNING: it sits in no round that is still to come: that takes {format_tokens(least_wei)}"
        )
    await tell_wallet(chain, console)


async def leave(chain: GameChain, name: str, console: Console, *, is_agreed: bool) -> None:
    """Give up an own seat: it serves in the rounds whose pools are frozen, then its stake becomes credit.
    Raises InvalidInput where there is no open seat, or where the operator does not agree."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    seat = _require_seat(chain, task, game)
    warning = (
        f"WARNING: {show_seat(seat)} of {show_task(task)} leaves for good. Keep its node running until the "
        "stake is out: it still has to do its work, and to answer for it."
    )
    require_agreement(console, [warning], "Leave?", is_agreed)
    await send(chain.tasks.leave(task, seat.number))
    after = await read_state(chain, chain.address)
    holding = find_holding(after.games[task], seat, await read_pace(chain))
    release = f"is held by {tell_release(holding)}" if holding.held_by else tell_release(holding)
    console.say(f"{show_seat(seat)} leaves; its stake of {format_tokens(holding.stake_wei)} {release}")
    console.say("Next: touchstone withdraw --wait")


def _require_seat(chain: GameChain, task: bytes, game: LoggedGame) -> Seat:
    """The open seat of this account. Raises InvalidInput where it has none."""
    seat = find_seat(game, chain.address)
    if seat is not None and seat.status == SeatStatus.LEAVING:
        raise InvalidInput(
            what="this account's seat is leaving already",
            expected="an open seat",
            actual=f"{show_seat(seat)}, leaving",
            where=show_task(task),
            remedy="Wait for its stake: `touchstone withdraw --wait`.",
        )
    if seat is None or seat.status != SeatStatus.OPEN:
        raise InvalidInput(
            what="this account has no open seat in the task",
            expected=f"a seat of {chain.address}",
            actual="none" if seat is None else f"{show_seat(seat)}, {seat.status.name.lower()}",
            where=show_task(task),
            remedy="`touchstone solve`, `verify` or `watch` take a seat; `touchstone withdraw` takes out "
            "what is yours.",
        )
    return seat


# --- Out ----------------------------------------------------------------------------------------------------
async def withdraw(chain: GameChain, console: Console, *, is_waiting: bool) -> None:
    """Take out all credit, and before that the stakes of own seats that nothing holds. is_waiting: wait for
    those of seats that have left, and of tasks that are over. Raises InvalidInput where nothing comes out."""
    while True:
        state, pace = await read_state(chain, chain.address), await read_pace(chain)
        await _pay_out_own(chain, state, pace)
        waited = _list_leaving(await read_state(chain, chain.address), chain.address, pace)
        if not is_waiting or not waited:
            break
        console.say(f"waiting for the stake of {'; '.join(waited)}")
        await chain.wait_for_block(pace.head_block + WAIT_BLOCKS)
    await _withdraw_credit(chain, console, waited)


async def _pay_out_own(chain: GameChain, state: ChainState, pace: Pace) -> None:
    for task, game in state.games.items():
        seat = find_seat(game, chain.address)
        if seat is not None and not find_holding(game, seat, pace).held_by:
            await send_dues(chain, task, chain.address)


def _list_leaving(state: ChainState, account: str, pace: Pace) -> list[str]:
    """Own stakes that come out by themselves once nothing holds them, with what does."""
    found = []
    for task, game in state.games.items():
        seat = find_seat(game, account)
        if seat is None or seat.status == SeatStatus.CLOSED:
            continue
        if seat.status == SeatStatus.LEAVING or is_over(game, pace.head_block + 1):
            found.append(_tell_held(task, find_holding(game, seat, pace)))
    return found


def _tell_held(task: bytes, holding: Holding) -> str:
    return f"{show_seat(holding.seat)} of {show_task(task)} ({tell_release(holding)})"


async def _withdraw_credit(chain: GameChain, console: Console, held: Sequence[str]) -> None:
    if await chain.purse.credit_of(chain.address) == 0:
        raise InvalidInput(
            what="there is nothing to withdraw",
            expected=f"credit of {chain.address}",
            actual="; ".join(held) or "none",
            remedy="Pay becomes credit when its rounds are settled, a stake when its seat has left: see "
            "`touchstone status`.",
        )
    receipt = await send(chain.purse.withdraw())
    console.say(f"withdrawn: {format_tokens(receipt.find('Withdrawn').arguments['wei_'])}")
    for line in held:
        console.say(f"still held: {line}")
    await tell_wallet(chain, console)
