"""Subcommands that take a seat in a task; the roles themselves live in node, verifier and whistleblower.

Before a seat is taken the operator sees what it costs and is asked, and the task is judged: its terms by the
limits of this home, its amounts by the figures of this home, its sizes by what the home allows and the
machine has. The role itself then checks the rest.
"""

import argparse
import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name

from touchstone.node.exports.model_folder import import_start
from touchstone.node.joining.seat_taking import SeatRequest, require_joinable
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import STORE_FOLDER, PartyConfig, limit_memory
from touchstone.node.kit.stored_step import read_program
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.pace import read_pace
from touchstone.protocol.adapters.machine.process_limits import lower_priority
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.determinism import require_device
from touchstone.protocol.spec.errors import Declined, InvalidInput
from touchstone.protocol.spec.game.calls import JoinSeat
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.open_questions import has_duties
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake
from touchstone.protocol.spec.game.presets import LIMITS
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.timing import get_live_round
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.console import (
    Console,
    Document,
    NotNeeded,
    parse_tokens,
    show_progress,
    spell_id,
    with_company,
)
from touchstone.scripts.figures import read_figures, refuse_bad_money, refuse_bad_terms, refuse_other_limits
from touchstone.scripts.home import CONFIG_FILE, HomeConfig, list_left, note_left, open_use, read_home
from touchstone.scripts.home_checks import choose_executor, find_room, open_config, read_checked_spec
from touchstone.scripts.wallet import (
    OTHER_TASK,
    find_own_game,
    read_state,
    refuse_unasked,
    require_coin,
    require_no_seat,
    require_tokens,
    show_seat,
    show_task,
    tell_first_round,
    tell_format,
    tell_missing,
    tell_seat,
    tell_solver,
)

ROLES = {
    SeatRole.SOLVER: "node.solver:run",
    SeatRole.VERIFIER: "touchstone.verifier.verifier:run",
    SeatRole.WHISTLEBLOWER: "touchstone.whistleblower.watcher:run",
}
"""Long-running work: `async run(config, task, wish)`, whether it ended because the task is closed."""
TASK_CLOSED = "the task is closed; your pay and your stake are credit: touchstone withdraw"
SEAT_LEFT = (
    "the seat has left and is paid out; this node is not needed any more. Its stake is credit: "
    "touchstone withdraw"
)
REMEDY = "Do not stake on it; its submitter has to post a corrected task."
WHEN_USED = (
    "while somebody uses the machine the node pauses: a claim that is too late costs a fee. The seat leaves "
    "once that has lasted for half an hour"
)
LOWEST_NICE = 19
"""Of a node that pauses while somebody uses the machine, unless `nice` says otherwise."""


@dataclass(frozen=True)
class Offer:
    """What an operator offers: a role, and a stake in wei (0: what the task asks for). is_agreed: do not
    ask. weights: a folder with the weights that the task begins with, if it has them here."""

    role: SeatRole
    stake_wei: int
    is_agreed: bool
    weights: Path | None = None


def run_solve(options: argparse.Namespace) -> Document:
    """Train in every round of a task."""
    return _run_role(SeatRole.SOLVER, options)


def run_verify(options: argparse.Namespace) -> Document:
    """Audit claims of a task."""
    return _run_role(SeatRole.VERIFIER, options)


def run_watch(options: argparse.Namespace) -> Document:
    """Watch a task and dispute what is wrong."""
    return _run_role(SeatRole.WHISTLEBLOWER, options)


def _run_role(role: SeatRole, options: argparse.Namespace) -> Document:
    console, home = Console(), read_home(options)
    require_device(home.device)
    # Before the password is asked for.
    executor = choose_executor(role, getattr(options, "executor", None), home)
    use = open_use(home, executor["executor"]) if home.when_idle else None
    lower_priority(home.nice or (LOWEST_NICE if home.when_idle else 0))
    config = replace(open_config(options, console), use=use, **executor)
    stake_wei = parse_tokens(options.stake) if options.stake else 0
    offer = Offer(role, stake_wei, options.yes, options.weights)
    return asyncio.run(play_role(config, home, options.task, offer, console))


async def play_role(
    config: PartyConfig, home: HomeConfig, name: str, offer: Offer, console: Console
) -> Document:
    """Agree with the operator on a seat of the task called `name`, and play it until the task is closed or
    the seat has left; returns which."""
    use, deployment = config.use, config.read_deployment()
    async with open_game_chain(config.endpoints, deployment, poll_s=config.poll_s) as chain:
        sitting = Sitting(chain, config, home, name, offer, console)
        is_closed = await (sitting.run() if use is None else with_company(sitting.run(), use.follow()))
    console.say(TASK_CLOSED if is_closed else SEAT_LEFT)
    return {"task": spell_id(sitting.task), "role": offer.role.name.lower(), "is_task_closed": is_closed}


@dataclass
class Sitting:
    """A seat of a task, taken as the operator has agreed. task, wish: as they were agreed on last, None
    before; is_seated: the account had the seat, or a bond, already; is_bound: it has a bond alone."""

    chain: GameChain
    config: PartyConfig
    home: HomeConfig
    name: str
    offer: Offer
    console: Console
    task: bytes = b""
    wish: SeatRequest | None = None
    is_seated: bool = False
    is_bound: bool = False
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> bool:
        """Agree and play; again where only a bond was played, since the operator wanted a seat, which may be
        free by now. Returns and raises as `agree` and the `run` of the role do."""
        while True:
            await self.agree()
            is_closed = await self.play()
            if is_closed or not self.is_bound:
                return is_closed

    async def agree(self) -> None:
        """Agree with the operator on a seat. An account without one first plays for a bond that it has in an
        open game: the game's clock waits for no question, no check of the machine and no free seat. Raises as
        `_agree_on` does."""
        account = self.config.key.address.lower()
        state = await read_state(self.chain, account)
        self.task, game = find_own_game(state, self.name)
        self.name, seat = self.task.hex(), find_seat(game, account)
        self.is_seated = has_duties(game, account)
        self.is_bound = self.is_seated and seat is None
        if self.is_bound:
            self.console.say("no seat, but a bond in a game that is not over: that is played first")
            self.wish = SeatRequest(self.offer.role, is_held=True)
            return
        try:
            await self._agree_on(state, game, seat)
        except NotNeeded:
            await require_no_seat(self.chain, self.task, state)
            raise

    async def _agree_on(self, state: ChainState, game: LoggedGame, seat: Seat | None) -> None:
        """Say what the seat takes. Raises InvalidInput or
        EnvironmentFault where the task does not take the seat, could hurt, or takes more than the home allows
        or the machine has; or where the money is not there."""
        offer, account, path = self.offer, self.config.key.address.lower(), self.config.home / CONFIG_FILE
        refuse_seat(self.task, game, account, offer, state.head_block + 1)
        if not self.is_seated and offer.is_agreed:
            is_convicted = state.is_convicted(account, self.task)
            refuse_unasked(self.task, has_left=self._has_left(), is_convicted=is_convicted)
        if not self.is_seated:
            # Nothing is fetched for a deployment that is not this version's.
            await self.chain.require_own_contracts()
            need = await find_room(self.config, self.home, offer.role, state, self.task)
            self.console.say(f"{need.who} takes up to {need.memory_bytes / 1e6:,.0f} MB of memory")
            for line in tell_solver(game.terms, need.disk_bytes) if offer.role is SeatRole.SOLVER else ():
                self.console.say(line)
        if offer.weights is not None:
            limit_memory(self.config)
            store = BlobStore(self.config.home / STORE_FOLDER, is_durable=False)
            spec = read_checked_spec(state, self.task)
            named = (spec.training, spec.terms.parameter_count)
            _, layout = await asyncio.to_thread(read_program, store, *named)
            await asyncio.to_thread(import_start, store, offer.weights, spec, layout)
        wish = await agree_on_seat(self.chain, game, self.home, path, account, offer, self.console)
        self.wish = replace(wish, require_wanted=partial(self._require_wanted, offer, wish.require_wanted))

    def _require_wanted(self, offer: Offer, ask: Callable[[GameState], None] | None, game: GameState) -> None:
        """Ask the operator, once. Raises Declined where it does not want the seat, and NotNeeded where it has
        typed `touchstone leave` and is not asked: the machine is checked for minutes before."""
        if ask is not None:
            ask(game)
        if not offer.is_agreed:
            # Without being asked nobody takes back what was typed.
            note_left(self.config.home, self.task, is_left=False)
        self.offer = replace(self.offer, is_agreed=True)
        self.answered.set()
        refuse_unasked(self.task, has_left=self._has_left(), is_convicted=False)

    async def play(self) -> bool:
        """As the `run` of the role."""
        run = resolve_name(ROLES[self.offer.role])
        if self.is_seated or self.offer.is_agreed:
            self.answered.set()
        progress = self._show_progress()
        try:
            is_closed: bool = await with_company(run(self.config, self.task, self.wish), progress)
        except NotNeeded:
            state = await read_state(self.chain, self.config.key.address.lower())
            await require_no_seat(self.chain, self.task, state)
            raise
        return is_closed

    async def _show_progress(self) -> None:
        """No bar is drawn over the question."""
        await self.answered.wait()
        await show_progress(self.chain, self.task, self.console)

    def _has_left(self) -> bool:
        """Whether the operator has typed `touchstone leave`."""
        return self.task.hex() in list_left(self.config.home)


def refuse_seat(task: bytes, game: LoggedGame, account: str, offer: Offer, block: int) -> None:
    """Raises InvalidInput where the task does not take the seat, so that the operator is not asked for it;
    NotNeeded where it never will again. block: the next one."""
    if game.is_closed:
        raise NotNeeded(
            what="the task is closed",
            expected="a task that takes seats",
            actual="closed",
            where=show_task(task),
            remedy=OTHER_TASK,
        )
    if find_seat(game, account) is not None:
        return
    try:
        require_joinable(game, JoinSeat(offer.role, _choose_stake(game, offer)), account, block)
    except GameRefusal as refusal:
        raise (NotNeeded if refusal.name in ("TaskHalted", "TaskOver") else InvalidInput)(
            what=f"the task does not take this seat ({refusal.name})",
            expected=refusal.expected,
            actual=refusal.actual,
            where=show_task(task),
            remedy=refusal.remedy,
        ) from refusal


async def agree_on_seat(
    chain: GameChain,
    game: LoggedGame,
    home: HomeConfig,
    path: Path,
    account: str,
    offer: Offer,
    console: Console,
) -> SeatRequest:
    """The seat that the operator wants, and the figures by which the node judges the task again; its
    `require_wanted` asks, and raises Declined. path: of the configuration; use: where the seat is kept while
    nobody uses the machine. Raises InvalidInput where the task could hurt, or the money is not there."""
    figures = read_figures(home.economics, game.terms, path)
    seat = find_seat(game, account)
    if seat is not None:
        _refuse_other_role(seat, offer.role)
        console.say(f"going on as {show_seat(seat)}")
        return SeatRequest(seat.role, is_held=True)
    await chain.require_own_contracts()
    await require_coin(chain, account)
    limits = LIMITS[home.limits]
    refuse_other_limits(chain.limits, limits)
    refuse_bad_terms(game.terms, limits, REMEDY)
    refuse_bad_money(game.terms, figures, console, f"{REMEDY} Or judge it by other figures: [economics].")
    stake_wei = _choose_stake(game, offer)
    await require_tokens(chain, account, stake_wei)
    pace = await read_pace(chain)

    def tell(now: GameState) -> Iterator[str]:
        """What a seat means, by the task as it is now."""
        yield from tell_seat(now, offer.role, stake_wei, pace)
        yield from tell_first_round(now)
        yield from tell_format(now.terms)
        if home.when_idle:
            yield WHEN_USED
        if get_live_round(now) is None and (missing := tell_missing(now)):
            yield f"before you join, the task lacks {missing}: its rounds wait for them"

    if offer.is_agreed:
        for line in tell(game):
            console.say(line)
        return SeatRequest(offer.role, stake_wei, figures)
    console.say("the machine is checked first. Then you are asked, before anything is locked")
    ask = partial(ask_to_lock, console, tell, f"Lock {format_tokens(stake_wei)} and join?")
    return SeatRequest(offer.role, stake_wei, figures, require_wanted=ask)


def ask_to_lock(
    console: Console, tell: Callable[[GameState], Iterator[str]], question: str, game: GameState
) -> None:
    """Show what is told of the task and ask. Raises Declined where the answer is no."""
    for line in tell(game):
        console.say(line)
    if not console.confirm(question):
        raise Declined(
            what="nothing was locked",
            expected="your agreement",
            actual="none",
            remedy="Run it again and answer y, or pass --yes. This node has announced its endpoint, no more.",
        )


def _choose_stake(game: LoggedGame, offer: Offer) -> int:
    least_wei = get_required_stake(game, offer.role)
    if 0 < offer.stake_wei < least_wei:
        raise InvalidInput(
            what="the stake is too small for this seat",
            expected=f"at least {format_tokens(least_wei)}",
            actual=format_tokens(offer.stake_wei),
            remedy="Leave --stake out to bring what the task asks for.",
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
