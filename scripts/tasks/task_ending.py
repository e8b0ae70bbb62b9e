"""`touchstone task close` and `task halt`: end a task."""

from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.pace import Pace, read_pace
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.state import Seat
from touchstone.protocol.spec.game.timing import is_over
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.requirements import require_agreement
from touchstone.scripts.account.sending import send, send_dues
from touchstone.scripts.account.task_names import find_game, read_state, show_seat, show_task
from touchstone.scripts.account.task_words import is_task_closable, list_open
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.document_fields import format_id
from touchstone.scripts.documents.posting_documents import HaltDocument, TaskCloseDocument
from touchstone.scripts.money.holdings import describe_release, find_holding

SHOWN_SEATS = 3
"""The most seats that an error names; `touchstone status` shows one's own."""


async def close_task(chain: GameChain, name: str, console: Console) -> TaskCloseDocument:
    """Settles and pays out all seats of a task that is over, and closes it; any account may do so. Raises
    InvalidInput if no task or several have this name, or if it is closed or cannot be closed yet."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    _refuse_closed(task, game)
    if is_over(game, state.head_block + 1):
        await send_dues(chain, task)
    after, pace = await read_state(chain, chain.address), await read_pace(chain)
    _refuse_unready(after.games[task], pace)
    receipt = await send(chain.game.close_task(task))
    refund_wei = receipt.find("TaskClosed").arguments["refund_wei"]
    submitter = game.terms.submitter
    console.notify(f"closed {show_task(task)}: {format_tokens(refund_wei)} is now credit of {submitter}")
    if refund_wei and submitter == chain.address:
        console.notify("Next: touchstone withdraw")
    return TaskCloseDocument(format_id(task), str(refund_wei), submitter)


def _refuse_closed(task: bytes, game: LoggedGame) -> None:
    if game.is_closed:
        raise InvalidInput(
            what="the task is closed already",
            expected="an open task",
            actual=f"{show_task(task)}, whose escrow went back to {game.terms.submitter}",
            remedy="That account takes it out with `touchstone withdraw`.",
        )


def _refuse_unready(game: LoggedGame, pace: Pace) -> None:
    block = pace.head_block + 1
    if is_task_closable(game, block):
        return
    held = [_describe_seat(game, seat, pace) for seat in list(game.seats.values())[:SHOWN_SEATS]]
    if is_over(game, block):
        raise _seats_to_pay_out(held, game, block, pace)
    raise _rounds_to_come(held, game, block, pace)


def _rounds_to_come(held: list[str], game: LoggedGame, block: int, pace: Pace) -> InvalidInput:
    return InvalidInput(
        what="the task cannot be closed yet",
        expected="no round to come, every seat paid out, and no contest",
        actual="; ".join([f"block {pace.head_block}", *list_open(game, block), *held]),
        remedy="Let its nodes run (`touchstone solve`, `verify`, `watch`): they play and settle its rounds. "
        "Its submitter ends it early with `touchstone task halt`.",
    )


def _seats_to_pay_out(held: list[str], game: LoggedGame, block: int, pace: Pace) -> InvalidInput:
    return InvalidInput(
        what="not all seats of the task can be paid out yet",
        expected="rounds that nobody can challenge any more, and no open contest",
        actual="; ".join([f"block {pace.head_block}", *list_open(game, block), *held]),
        remedy="No round is to come. Type it again later, or let the task's nodes run: they close it.",
    )


def _describe_seat(game: LoggedGame, seat: Seat, pace: Pace) -> str:
    return f"{show_seat(seat)}: {describe_release(find_holding(game, seat, pace))}"


async def halt_task(chain: GameChain, name: str, console: Console, *, is_agreed: bool) -> HaltDocument:
    """Halts a task of this account: the running round is finished, and none is opened after it. Raises
    InvalidInput if another account submitted it, or it is halted or closed; Declined if the operator does not
    agree."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    _refuse_closed(task, game)
    if game.terms.submitter != chain.address or game.is_halted:
        raise _unhaltable_task(task, game, chain)
    warning = f"WARNING: {show_task(task)} opens no further round. That cannot be taken back."
    require_agreement(console, [warning], "Halt it?", is_agreed)
    await send(chain.game.halt(task))
    notify_halt(task, console)
    return HaltDocument(format_id(task))


def _unhaltable_task(task: bytes, game: LoggedGame, chain: GameChain) -> InvalidInput:
    return InvalidInput(
        what="the task cannot be halted",
        expected=f"a running task of {chain.address}",
        actual="halted already" if game.is_halted else f"a task of {game.terms.submitter}",
        where=show_task(task),
        remedy="Its submitter can halt a task, once; so can the majority of its shares "
        "(`touchstone shares vote`).",
    )


def notify_halt(task: bytes, console: Console) -> None:
    """Tells the operator what a halt means."""
    console.notify(f"halted {show_task(task)}: no further round opens")
    console.notify(
        "Next: leave the task's nodes running. They settle the open rounds and close the task. If "
        f"none runs any more, touchstone task close {show_task(task)} does so, or says until which "
        "block it has to wait"
    )
