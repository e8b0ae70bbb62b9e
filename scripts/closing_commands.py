"""Subcommands that end a task: `task close` and `task halt`."""

import argparse

from protocol.adapters.chain.chain_client import GameChain
from protocol.adapters.chain.refusal_words import format_tokens
from protocol.spec.errors import InvalidInput
from protocol.spec.game.logs import LoggedGame
from protocol.spec.game.state import Seat
from protocol.spec.game.timing import is_over
from scripts.console import Console, Document, spell_id
from scripts.money_commands import Pace, find_holding, read_pace, tell_release
from scripts.wallet import (
    find_game,
    is_task_closable,
    list_open,
    read_state,
    require_agreement,
    run_with_chain,
    send,
    send_dues,
    show_seat,
    show_task,
)

SHOWN_SEATS = 3
"""Named in an error; `touchstone status` shows one's own."""


def run_close(options: argparse.Namespace) -> Document:
    """Close a task, so that the rest of its escrow becomes credit of its submitter."""
    console = Console()
    return run_with_chain(options, lambda chain: close_task(chain, options.task, console))


def run_halt(options: argparse.Namespace) -> Document:
    """End an own task after the round that runs."""
    console, is_agreed = Console(), options.yes
    return run_with_chain(options, lambda chain: halt_task(chain, options.task, console, is_agreed=is_agreed))


async def close_task(chain: GameChain, name: str, console: Console) -> Document:
    """Settle and pay out all seats of a task that is over, and close it; any account may. Raises InvalidInput
    where no task or more than one is called so, where it is closed, or cannot be closed yet."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    _refuse_closed(task, game)
    if is_over(game, state.head_block + 1):
        await send_dues(chain, task)
    after, pace = await read_state(chain, chain.address), await read_pace(chain)
    _refuse_unready(after.games[task], pace)
    receipt = await send(chain.tasks.close_task(task))
    refund_wei = receipt.find("GameClosed").arguments["refund_wei"]
    submitter = game.terms.submitter
    console.say(f"closed {show_task(task)}: {format_tokens(refund_wei)} is now credit of {submitter}")
    if refund_wei and submitter == chain.address:
        console.say("Next: touchstone withdraw")
    return {"task": spell_id(task), "refund_wei": str(refund_wei), "submitter": submitter}


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
    held = [_tell_seat(game, seat, pace) for seat in list(game.seats.values())[:SHOWN_SEATS]]
    raise InvalidInput(
        what="the task cannot be closed yet",
        expected="no round to come, every seat paid out, and no contest",
        actual="; ".join([f"block {pace.head_block}", *list_open(game, block), *held]),
        remedy="Let its nodes run (`touchstone solve`, `verify`, `watch`): they play and settle its rounds. "
        "Its submitter ends it early with `touchstone task halt`.",
    )


def _tell_seat(game: LoggedGame, seat: Seat, pace: Pace) -> str:
    return f"{show_seat(seat)}: {tell_release(find_holding(game, seat, pace))}"


async def halt_task(chain: GameChain, name: str, console: Console, *, is_agreed: bool) -> Document:
    """End an own task: the round that runs is finished, none is opened after it. Raises InvalidInput where
    another account submitted it, where it is halted or closed, or where the operator does not agree."""
    state = await read_state(chain, chain.address)
    task, game = find_game(state, name)
    _refuse_closed(task, game)
    if game.terms.submitter != chain.address or game.is_halted:
        raise InvalidInput(
            what="the task cannot be halted",
            expected=f"a running task of {chain.address}",
            actual="halted already" if game.is_halted else f"a task of {game.terms.submitter}",
            where=show_task(task),
            remedy="Only its submitter can halt a task, once.",
        )
    warning = f"WARNING: {show_task(task)} opens no further round. That cannot be taken back."
    require_agreement(console, [warning], "Halt it?", is_agreed)
    await send(chain.rounds.halt(task))
    console.say(f"halted {show_task(task)}; `touchstone task close` when all is settled")
    return {"task": spell_id(task)}
