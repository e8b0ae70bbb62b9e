"""Subcommands that move tokens: `stake`, `leave`, `withdraw`; what holds a stake.

What holds the stake of a seat, and until when, in the words of an operator.

A stake leaves once the seat has left, or the task is over, and nothing that the seat did can cost it anything
any more. Running nodes of the task settle it then and pay it out; so does `touchstone withdraw`.

`stake` adds to a seat, `leave` gives one up, `withdraw` takes out all that is this account's.

All pay, every stake that is paid out, bonds that come back and the rest of an escrow become credit of their
account by themselves, so there is nothing to claim one by one. `touchstone solve`, `verify` and `watch` take
a seat. What the contracts would refuse is asked of the chain first, and said in words instead of sent.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from touchstone.explorer.task_documents import tell_phase
from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.pace import Pace, read_pace, show_duration
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.reports.node_state import read_node_state
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.open_questions import list_questions
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake, get_stake, is_held
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.seats import is_crowded_out
from touchstone.protocol.spec.game.settling import is_in_pool
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.terms import compute_release_blocks
from touchstone.protocol.spec.game.timing import get_duty_until, get_live_round, is_over, is_start_alive
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.console import Console, Document, parse_tokens, spell_id
from touchstone.scripts.home import note_left
from touchstone.scripts.wallet import (
    NUMBER_BITS,
    find_game,
    read_state,
    require_agreement,
    require_tokens,
    run_with_chain,
    send,
    send_dues,
    show_seat,
    show_task,
    tell_wallet,
)


@dataclass(frozen=True)
class Holding:
    """A seat's stake in wei; what holds it, oldest first (empty: nothing does, it can be paid out now)."""

    seat: Seat
    stake_wei: int
    held_by: tuple[str, ...]


def find_holding(game: GameState, seat: Seat, pace: Pace) -> Holding:
    """What a seat has at stake, and what holds it."""
    block = pace.head_block + 1
    now = get_state_at(game, block)
    seat = now.seats[seat.number]
    return Holding(seat, get_stake(now, seat.number), tuple(_list_holds(now, seat, block, pace)))


def _list_holds(now: GameState, seat: Seat, block: int, pace: Pace) -> Iterator[str]:
    if seat.status == SeatStatus.CLOSED:
        yield "it was convicted: there is nothing left"
        return
    yield from _list_roles(now, seat, block)
    yield from _list_rounds(now, seat, block, pace)
    for question in list_questions(now, seat.number):
        yield f"a question on round {question.statement.round}, until {pace.show_block(question.clock)}"
    for contest in now.contests.values():
        if contest.round >= seat.settled:
            yield f"a contest of round {contest.round}, until {pace.show_block(contest.clock)} or longer"


def _list_roles(now: GameState, seat: Seat, block: int) -> Iterator[str]:
    """What keeps an open seat."""
    if seat.status == SeatStatus.OPEN and not is_over(now, block) and not is_crowded_out(now, seat):
        yield f"the seat is open (task: {tell_phase(now, block)}); `touchstone leave` ends that"


def _list_rounds(now: GameState, seat: Seat, block: int, pace: Pace) -> Iterator[str]:
    """Rounds that hold the seat: those whose statements can still be questioned, of many the last one to be
    over; those that run, and frozen pools."""
    waiting, dated = list[int](), dict[int, int]()
    for index, game_round in sorted(now.rounds.items()):
        if index < seat.settled or not is_in_pool(game_round, seat):
            continue
        until = get_duty_until(now, game_round)
        if until is None:
            waiting.append(index)
        elif until >= block:
            dated[index] = until
    if dated:
        last = pace.show_block(max(dated.values()))
        first = min(dated)
        yield (
            f"round {first}, until {last}"
            if len(dated) == 1
            else f"rounds {first} to {max(dated)}, until {last}"
        )
    yield from (f"round {index} has no root yet" for index in waiting)
    may_open = get_live_round(now) is not None or is_start_alive(now, block)
    for index, pool in sorted(now.pools.items()):
        if may_open and now.next_round <= index < now.terms.rounds and is_held(pool, seat):
            yield f"round {index} is to come, and its pool is frozen"


def tell_release(holding: Holding) -> str:
    """When the stake can be taken out."""
    if holding.held_by:
        return "; ".join(holding.held_by)
    return "now: touchstone withdraw"


WAIT_BLOCKS = 20
"""Between two looks at what still holds a stake."""


def run_stake(options: argparse.Namespace) -> Document:
    """Add to the stake of an own seat."""
    words = (options.task, parse_tokens(options.amount), Console())
    return run_with_chain(options, lambda chain: add_stake(chain, *words, is_agreed=options.yes))


def run_leave(options: argparse.Namespace) -> Document:
    """Give up an own seat."""
    console = Console()
    words = (options.task, options.home, console)
    return run_with_chain(options, lambda chain: leave(chain, *words, is_agreed=options.yes))


def run_withdraw(options: argparse.Namespace) -> Document:
    """Take out all credit, and stakes that nothing holds any more."""
    console = Console()
    return run_with_chain(options, lambda chain: withdraw(chain, console, is_waiting=options.wait))


# --- Seats --------------------------------------------------------------------------------------------------
async def add_stake(
    chain: GameChain, name: str, amount_wei: int, console: Console, *, is_agreed: bool
) -> Document:
    """More stake for an own seat, out of credit and then of the wallet. Raises InvalidInput where there is no
    open seat, or not so much money, and Declined where the operator does not agree."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    seat = _require_seat(chain, task, game)
    await require_tokens(chain, chain.address, amount_wei)
    await chain.require_own_contracts()
    lines = _tell_more_stake(game, seat, amount_wei, await read_pace(chain))
    require_agreement(console, list(lines), f"Lock {format_tokens(amount_wei)} more?", is_agreed)
    await send(chain.deposit_missing(amount_wei))
    await send(chain.tasks.top_up(task, seat.number, amount_wei))
    stake_wei = get_stake(game, seat.number) + amount_wei
    console.say(f"{show_seat(seat)} of {show_task(task)} has {format_tokens(stake_wei)} at stake")
    least_wei = get_required_stake(game, seat.role)
    if stake_wei < least_wei:
        console.say(
            f"WARNING: it sits in no round that is still to come: that takes {format_tokens(least_wei)}"
        )
    await tell_wallet(chain, console)
    return describe_stake(task, seat, stake_wei) | {"required_wei": str(least_wei)}


def _tell_more_stake(game: LoggedGame, seat: Seat, amount_wei: int, pace: Pace) -> Iterator[str]:
    """How much is locked, until when, and whether the seat needs it."""
    has_wei, least_wei = get_stake(game, seat.number), get_required_stake(game, seat.role)
    blocks = compute_release_blocks(game.terms.windows)
    hours = "" if pace.block_s is None else f" ({show_duration(blocks * pace.block_s)})"
    yield (
        f"this locks {format_tokens(amount_wei)} more in {show_seat(seat)}, which has "
        f"{format_tokens(has_wei)} at stake. You get all of it back some {blocks:,} blocks{hours} after you "
        "leave or the task ends. If you are proven wrong you lose all of it"
    )
    if has_wei >= least_wei:
        yield f"the seat needs no more: the task asks for {format_tokens(least_wei)}"


async def leave(chain: GameChain, name: str, home: Path, console: Console, *, is_agreed: bool) -> Document:
    """Give up an own seat: it serves in the rounds whose pools are frozen, then its stake becomes credit.
    Where the task is over nothing is sent: its stake becomes credit all the same. Raises InvalidInput where
    there is no open seat, or where the operator does not agree."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    own = find_seat(game, chain.address)
    is_left = read_node_state(home) is not None if own is None else own.status == SeatStatus.LEAVING
    if is_left:
        # The first time the disk may have been full, it was typed with another home of the account, or the
        # node left by itself, since somebody uses the machine: it may wait for its next seat.
        note_left(home, task)
        console.say(f"written down: no node of this home takes a seat of {show_task(task)} again unasked")
    seat = _require_seat(chain, task, game)
    if is_over(get_state_at(game, state.head_block + 1), state.head_block + 1):
        console.say(f"{show_task(task)} is over: there is nothing to leave, and nothing was sent")
        return _tell_holding(task, find_holding(game, seat, await read_pace(chain)), console, "has")
    warning = (
        f"WARNING: {show_seat(seat)} of {show_task(task)} leaves for good. Keep its node running until the "
        "stake is out: it still has to do its work, and to answer for it."
    )
    require_agreement(console, [warning], "Leave?", is_agreed)
    try:
        note_left(home, task)
    except OSError as error:
        console.say(
            f"WARNING: the home takes no file ({error.strerror}). Mend that, then type this command again "
            "while the seat leaves: else a node that asks nobody (--yes) takes a seat again"
        )
    try:
        await send(chain.tasks.leave(task, seat.number))
    except ContractRefused:
        # A node of this account that leaves by itself may have been faster.
        now = find_seat((await read_state(chain, chain.address)).games[task], chain.address)
        if now is None or now.status != SeatStatus.LEAVING:
            raise
    after = await read_state(chain, chain.address)
    return _tell_holding(
        task, find_holding(after.games[task], seat, await read_pace(chain)), console, "leaves; it has"
    )


def _tell_holding(task: bytes, holding: Holding, console: Console, verb: str) -> Document:
    release = f"is held: {tell_release(holding)}" if holding.held_by else "can be taken out now"
    stake = format_tokens(holding.stake_wei)
    console.say(f"{show_seat(holding.seat)} {verb} a stake of {stake}, which {release}")
    console.say(f"Next: touchstone withdraw{' --wait' if holding.held_by else ''}")
    return describe_stake(task, holding.seat, holding.stake_wei) | {"held_by": list(holding.held_by)}


def describe_stake(task: bytes, seat: Seat, stake_wei: int) -> dict[str, Any]:
    """A seat and its stake, as JSON has it."""
    number = seat.number & (1 << NUMBER_BITS) - 1
    named = {"task": spell_id(task), "role": seat.role.name.lower(), "number": number}
    return named | {"stake_wei": str(stake_wei)}


def _require_seat(chain: GameChain, task: bytes, game: LoggedGame) -> Seat:
    """The open seat of this account. Raises InvalidInput where it has none."""
    seat = find_seat(game, chain.address)
    if seat is not None and seat.status == SeatStatus.LEAVING:
        raise InvalidInput(
            what="this account's seat is leaving already",
            expected="an open seat",
            actual=f"{show_seat(seat)}, leaving",
            where=show_task(task),
            remedy="Nothing was sent. Wait for its stake: `touchstone withdraw --wait`.",
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
async def withdraw(chain: GameChain, console: Console, *, is_waiting: bool) -> Document:
    """Take out all credit, and before that the stakes of own seats that nothing holds. is_waiting: wait for
    those of seats that have left, and of tasks that are over; what is waited for is said once, and again when
    it is something else. Raises InvalidInput where nothing comes out."""
    told: list[str] = []
    while True:
        state, pace = await read_state(chain, chain.address), await read_pace(chain)
        await _pay_out_own(chain, state, pace)
        after = await read_state(chain, chain.address)
        waited = _list_leaving(after, chain.address, pace)
        if not is_waiting or not waited:
            break
        # Without the estimate of when, which changes with each look.
        blocks = _list_leaving(after, chain.address, Pace(pace.head_block, None))
        if blocks != told:
            console.say(f"waiting for the stake of {'; '.join(waited)}")
        told = blocks
        await chain.wait_for_block(pace.head_block + WAIT_BLOCKS)
    return await _withdraw_credit(chain, console, waited)


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


async def _withdraw_credit(chain: GameChain, console: Console, held: Sequence[str]) -> Document:
    if await chain.purse.credit_of(chain.address) == 0:
        raise InvalidInput(
            what="there is nothing to withdraw",
            expected=f"credit of {chain.address}",
            actual=f"none; still held: {'; '.join(held)}" if held else "none",
            remedy="Pay becomes credit when its rounds are settled, a stake when its seat has left: see "
            "`touchstone status`.",
        )
    receipt = await send(chain.purse.withdraw())
    amount_wei = receipt.find("Withdrawn").arguments["wei_"]
    console.say(f"withdrawn: {format_tokens(amount_wei)} to {chain.address}")
    for line in held:
        console.say(f"still held: {line}")
    wallet_wei = await tell_wallet(chain, console)
    withdrawn = {"account": chain.address.lower(), "withdrawn_wei": str(amount_wei)}
    return withdrawn | {"wallet_wei": str(wallet_wei), "held": list(held)}
