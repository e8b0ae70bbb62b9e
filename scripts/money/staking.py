"""`touchstone stake` raises the stake of a seat, `touchstone leave` gives the seat up.

`touchstone solve`, `verify` and `watch` take a seat. Before sending, the chain is asked if the contracts
would refuse, and the command says so in words.
"""

from collections.abc import Iterator
from pathlib import Path

from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.pace import Pace, read_pace, show_duration
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.reports.node_state import read_node_state
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake, get_stake
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import Seat
from touchstone.protocol.spec.game.terms import compute_release_blocks
from touchstone.protocol.spec.game.timing import is_over
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.requirements import notify_wallet, require_agreement, require_tokens
from touchstone.scripts.account.sending import send
from touchstone.scripts.account.task_names import find_game, get_number, read_state, show_seat, show_task
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.document_fields import format_id, spell_role
from touchstone.scripts.documents.stake_documents import LeaveDocument, StakeDocument
from touchstone.scripts.home.home_folder import note_left
from touchstone.scripts.money.holdings import Holding, describe_release, find_holding


async def add_stake(
    chain: GameChain, name: str, amount_wei: int, console: Console, *, is_agreed: bool
) -> StakeDocument:
    """Adds to the stake of this account's seat, first from its credit and then from its wallet. Raises
    InvalidInput if there is no open seat or too little money, and Declined if the operator does not agree."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    seat = _require_seat(chain, task, game)
    await require_tokens(chain, chain.address, amount_wei)
    await chain.require_own_contracts()
    lines = _describe_more_stake(game, seat, amount_wei, await read_pace(chain))
    require_agreement(console, list(lines), f"Lock {format_tokens(amount_wei)} more?", is_agreed)
    await send(chain.deposit_missing(amount_wei))
    await send(chain.game.top_up(task, seat.number, amount_wei))
    stake_wei = get_stake(game, seat.number) + amount_wei
    console.notify(f"{show_seat(seat)} of {show_task(task)} has {format_tokens(stake_wei)} at stake")
    least_wei = get_required_stake(game, seat.role)
    if stake_wei < least_wei:
        console.notify(
            f"WARNING: this is too little: the seat needs {format_tokens(least_wei)} to be in further rounds"
        )
    await notify_wallet(chain, console)
    role, number = spell_role(seat.role), get_number(seat.number)
    return StakeDocument(format_id(task), role, number, str(stake_wei), str(least_wei))


def _describe_more_stake(game: LoggedGame, seat: Seat, amount_wei: int, pace: Pace) -> Iterator[str]:
    """Yields lines on how much is locked, until when, and whether the seat needs it."""
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


async def leave(
    chain: GameChain, name: str, home: Path, console: Console, *, is_agreed: bool
) -> LeaveDocument:
    """Gives up a seat of this account. It serves in the rounds whose pools are frozen, then its stake becomes
    credit. If the task is over, nothing is sent, because the stake becomes credit anyway. Raises InvalidInput
    if there is no open seat, Declined if the operator does not agree."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    own = find_seat(game, chain.address)
    is_left = read_node_state(home) is not None if own is None else own.status == SeatStatus.LEAVING
    if is_left:
        # Write it down even if the seat is leaving already: the disk may have been full the first time, it
        # was typed with another home, or the node left by itself and may wait for its next seat.
        note_left(home, task)
        console.notify(f"noted: no node of this home takes a seat of {show_task(task)} again without asking")
    seat = _require_seat(chain, task, game)
    if is_over(get_state_at(game, state.head_block + 1), state.head_block + 1):
        console.notify(f"{show_task(task)} is over: there is nothing to leave, and nothing was sent")
        return _notify_holding(task, find_holding(game, seat, await read_pace(chain)), console, "has")
    warning = (
        f"WARNING: {show_seat(seat)} of {show_task(task)} leaves for good. Keep its node running until the "
        "stake is out: it still has to do its work, and to answer for it."
    )
    require_agreement(console, [warning], "Leave?", is_agreed)
    try:
        note_left(home, task)
    except OSError as error:
        console.notify(
            f"WARNING: the home takes no file ({error.strerror}). Repair that, then type this command again "
            "while the seat is leaving. Otherwise a node started with --yes takes a seat again"
        )
    try:
        await send(chain.game.leave(task, seat.number))
    except ContractRefused:
        # A node of this account that leaves by itself may have been faster.
        now = find_seat((await read_state(chain, chain.address)).games[task], chain.address)
        if now is None or now.status != SeatStatus.LEAVING:
            raise
    after = await read_state(chain, chain.address)
    return _notify_holding(
        task, find_holding(after.games[task], seat, await read_pace(chain)), console, "leaves; it has"
    )


def _notify_holding(task: bytes, holding: Holding, console: Console, verb: str) -> LeaveDocument:
    release = f"is held: {describe_release(holding)}" if holding.held_by else "can be taken out now"
    stake = format_tokens(holding.stake_wei)
    console.notify(f"{show_seat(holding.seat)} {verb} a stake of {stake}, which {release}")
    console.notify(f"Next: touchstone withdraw{' --wait' if holding.held_by else ''}")
    role, number = spell_role(holding.seat.role), get_number(holding.seat.number)
    return LeaveDocument(format_id(task), role, number, str(holding.stake_wei), list(holding.held_by))


def _require_seat(chain: GameChain, task: bytes, game: LoggedGame) -> Seat:
    """Returns the open seat of this account. Raises InvalidInput if it has none."""
    seat = find_seat(game, chain.address)
    if seat is not None and seat.status == SeatStatus.LEAVING:
        raise _leaving_already(task, seat)
    if seat is None or seat.status != SeatStatus.ACTIVE:
        raise _no_open_seat(task, game, seat, chain)
    return seat


def _leaving_already(task: bytes, seat: Seat) -> InvalidInput:
    return InvalidInput(
        what="this account's seat is leaving already",
        expected="an open seat",
        actual=f"{show_seat(seat)}, leaving",
        where=show_task(task),
        remedy="Nothing was sent. Wait for its stake: `touchstone withdraw --wait`.",
    )


def _no_open_seat(task: bytes, game: LoggedGame, seat: Seat | None, chain: GameChain) -> InvalidInput:
    taking = "`touchstone solve`, `verify` or `watch` take a seat"
    if game.is_closed:
        taking = "The task is closed, and nothing was sent"
    return InvalidInput(
        what="this account has no open seat in the task",
        expected=f"a seat of {chain.address}",
        actual="none" if seat is None else f"{show_seat(seat)}, {seat.status.name.lower()}",
        where=show_task(task),
        remedy=f"{taking}; `touchstone withdraw` takes out what is yours.",
    )
