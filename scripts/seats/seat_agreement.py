"""Agrees with the operator on a seat.

Before a seat is taken, the operator sees what it costs and is asked. The task is judged too: its terms by the
limits of this home, its amounts by the figures of this home.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from touchstone.node.joining.seat_taking import SeatRequest, require_joinable
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.pace import read_pace
from touchstone.protocol.spec.errors import Declined, InvalidInput
from touchstone.protocol.spec.game.calls import JoinSeat
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake
from touchstone.protocol.spec.game.presets import BOUNDS
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.timing import get_live_round
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.requirements import require_coin, require_tokens
from touchstone.scripts.account.task_names import OTHER_TASK, show_seat, show_task
from touchstone.scripts.account.task_words import (
    describe_first_round,
    describe_format,
    describe_missing,
    describe_seat,
)
from touchstone.scripts.command_line.command_errors import NotNeeded
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.home.home_config import HomeConfig
from touchstone.scripts.tasks.figures import read_figures
from touchstone.scripts.tasks.terms_checks import refuse_bad_money, refuse_bad_terms, refuse_other_bounds

REMEDY = "Do not stake on it; its submitter has to post a corrected task."
WHEN_USED = (
    "while somebody uses the machine the node pauses: a claim that is too late costs a fee. The seat leaves "
    "once that has lasted for half an hour"
)


@dataclass(frozen=True)
class Offer:
    """What an operator offers: a role, and a stake in wei (0: the amount that the task requires). `is_agreed`
    asks no question. `weights` is a folder with the task's starting weights, if the operator has them.
    `is_explained` shows why each amount of the task is what it is."""

    role: SeatRole
    stake_wei: int
    is_agreed: bool
    weights: Path | None = None
    is_explained: bool = False


def refuse_seat(task: bytes, game: LoggedGame, account: str, offer: Offer, block: int) -> None:
    """Raises InvalidInput if the task does not take the seat, so that the operator is not asked for it;
    NotNeeded if it never will again. `block` is the next block."""
    if game.is_closed:
        raise _closed_task(task)
    if find_seat(game, account) is not None:
        return
    try:
        require_joinable(game, JoinSeat(offer.role, _choose_stake(game, offer)), account, block)
    except GameRefusal as refusal:
        raise _seat_not_taken(refusal, task) from refusal


def _closed_task(task: bytes) -> NotNeeded:
    return NotNeeded(
        what="the task is closed",
        expected="a task that takes seats",
        actual="closed",
        where=show_task(task),
        remedy=OTHER_TASK,
    )


def _seat_not_taken(refusal: GameRefusal, task: bytes) -> InvalidInput:
    return (NotNeeded if refusal.name in ("TaskHalted", "TaskOver") else InvalidInput)(
        what=f"the task does not take this seat ({refusal.name})",
        expected=refusal.expected,
        actual=refusal.actual,
        where=show_task(task),
        remedy=refusal.remedy,
    )


async def agree_on_seat(
    chain: GameChain,
    game: LoggedGame,
    home: HomeConfig,
    path: Path,
    account: str,
    offer: Offer,
    console: Console,
) -> SeatRequest:
    """Returns the seat that the operator wants, and the figures by which the node judges the task again. Its
    `require_wanted` asks, and raises Declined. `path` is the configuration file. With `use`, the seat is kept
    while nobody uses the machine. Raises InvalidInput if the task is harmful, or there is too little
    money."""
    figures = read_figures(home.economics, game.terms, path)
    seat = find_seat(game, account)
    if seat is not None:
        _refuse_other_role(seat, offer.role)
        console.notify(f"going on as {show_seat(seat)}")
        return SeatRequest(seat.role, is_held=True)
    await chain.require_own_contracts()
    await require_coin(chain, account)
    bounds = BOUNDS[home.preset]
    refuse_other_bounds(chain.bounds, bounds)
    refuse_bad_terms(game.terms, bounds, REMEDY)
    shown = console if offer.is_explained else None
    refuse_bad_money(game.terms, figures, shown, f"{REMEDY} Or judge it by other figures: [economics].")
    stake_wei = _choose_stake(game, offer)
    await require_tokens(chain, account, stake_wei)
    pace = await read_pace(chain)

    def describe(now: GameState) -> Iterator[str]:
        """Yields lines on what a seat means, by the present task."""
        yield from describe_seat(now, offer.role, stake_wei, pace)
        yield from describe_first_round(now)
        yield from describe_format(now.terms)
        if home.when_idle:
            yield WHEN_USED
        if get_live_round(now) is None and (missing := describe_missing(now)):
            yield f"before you join, the task lacks {missing}: its rounds wait for them"

    if offer.is_agreed:
        for line in describe(game):
            console.notify(line)
        return SeatRequest(offer.role, stake_wei, figures)
    console.notify("the machine is checked first. Then you are asked, before anything is locked")
    ask = partial(ask_to_lock, console, describe, f"Lock {format_tokens(stake_wei)} and join?")
    return SeatRequest(offer.role, stake_wei, figures, require_wanted=ask)


def ask_to_lock(
    console: Console, describe: Callable[[GameState], Iterator[str]], question: str, game: GameState
) -> None:
    """Shows the facts about the task and asks. Raises Declined if the answer is no."""
    for line in describe(game):
        console.notify(line)
    if not console.confirm(question):
        raise Declined(
            what="nothing was locked",
            expected="your agreement",
            actual="none",
            remedy="Run it again and answer y, or pass --yes. This node has only announced its endpoint.",
        )


def _choose_stake(game: LoggedGame, offer: Offer) -> int:
    least_wei = get_required_stake(game, offer.role)
    if 0 < offer.stake_wei < least_wei:
        raise InvalidInput(
            what="the stake is too small for this seat",
            expected=f"at least {format_tokens(least_wei)}",
            actual=format_tokens(offer.stake_wei),
            remedy="Leave --stake out to stake what the task asks for.",
        )
    return offer.stake_wei or least_wei


def _refuse_other_role(seat: Seat, role: SeatRole) -> None:
    if seat.role != role:
        raise InvalidInput(
            what="this account has a seat of another role in the task",
            expected=role.name.lower(),
            actual=show_seat(seat),
            remedy="Start the command of that role, or use the home of another account.",
        )
