"""Runs the commands that take a seat in a task; the roles are in node, verifier and whistleblower.

Before a seat is taken, its needs are compared with the limits of the home and the machine. Then the role
checks the rest.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name

import msgspec

from touchstone.node.exports.model_folder import import_start
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import STORE_FOLDER, NodeConfig, limit_memory
from touchstone.node.kit.stored_step import read_program
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.machine.process_limits import lower_priority
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.determinism import require_device
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.open_questions import has_duties
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.scripts.account.requirements import refuse_unasked, require_no_seat
from touchstone.scripts.account.task_names import find_own_game, read_state
from touchstone.scripts.account.task_words import describe_solver
from touchstone.scripts.command_line.command_errors import NotNeeded
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.json_log import note_facts
from touchstone.scripts.command_line.progress import show_progress, with_company
from touchstone.scripts.documents.document_fields import Document, format_id
from touchstone.scripts.documents.stake_documents import SolveDocument, VerifyDocument, WatchDocument
from touchstone.scripts.home.home_config import HomeConfig, open_use, read_home
from touchstone.scripts.home.home_files import CONFIG_FILE
from touchstone.scripts.home.home_folder import list_left, note_left
from touchstone.scripts.home.node_config import choose_executor, open_config
from touchstone.scripts.seats.seat_agreement import Offer, agree_on_seat, refuse_seat
from touchstone.scripts.seats.seat_needs import find_room, read_checked_spec

RUN_ROLE = "touchstone.scripts.roles.role_nodes:run_role"
"""Named, not imported, because its libraries take seconds to load and a usage error must not wait."""
DOCUMENTS: Mapping[SeatRole, type[Document]] = {
    SeatRole.SOLVER: SolveDocument,
    SeatRole.VERIFIER: VerifyDocument,
    SeatRole.WHISTLEBLOWER: WatchDocument,
}
TASK_CLOSED = "the task is closed; your pay and your stake are credit: touchstone withdraw"
SEAT_LEFT = (
    "the seat has left and is paid out; this node is not needed any more. Its stake is credit: "
    "touchstone withdraw"
)
LOWEST_NICE = 19
"""The nice level of a node that pauses while somebody uses the machine, unless `nice` says otherwise."""


@dataclass(frozen=True)
class SeatChoice:
    """The seat that an operator wants: the options of `touchstone solve`, `verify` and `watch`."""

    task: str
    home: Path
    password_file: Path | None = None
    stake_wei: int | None = None
    weights: Path | None = None
    when_idle: bool = False
    nice: int | None = None
    executor: str | None = None
    is_agreed: bool = False
    is_explained: bool = False


def run_role(role: SeatRole, wanted: SeatChoice) -> Document:
    """Takes the seat and runs it, as `play_role` does, with the home's key. Raises InvalidInput first if an
    option or a key of the home does not fit the role."""
    console = Console()
    home = read_home(wanted.home, nice=wanted.nice, executor=wanted.executor, when_idle=wanted.when_idle)
    require_device(home.device)
    # Check before asking for the password.
    executor = choose_executor(role, wanted.executor, home)
    use = open_use(home, executor["executor"]) if home.when_idle else None
    lower_priority(home.nice or (LOWEST_NICE if home.when_idle else 0))
    config = replace(open_config(wanted.home, wanted.password_file, console), use=use, **executor)
    offer = Offer(role, wanted.stake_wei or 0, wanted.is_agreed, wanted.weights, wanted.is_explained)
    return asyncio.run(play_role(config, home, wanted.task, offer, console))


async def play_role(
    config: NodeConfig, home: HomeConfig, name: str, offer: Offer, console: Console
) -> Document:
    """Agrees with the operator on a seat of the task called `name`, and runs it until the task is closed or
    the seat has left. Returns which of the two."""
    use, deployment = config.use, config.read_deployment()
    async with open_game_chain(config.endpoints, deployment, poll_s=config.poll_s) as chain:
        session = SeatSession(chain, config, home, name, offer, console)
        is_closed = await (session.run() if use is None else with_company(session.run(), use.follow()))
    console.notify(TASK_CLOSED if is_closed else SEAT_LEFT)
    facts = {"task": format_id(session.task), "role": offer.role.name.lower(), "is_task_closed": is_closed}
    return msgspec.convert(facts, DOCUMENTS[offer.role])


@dataclass
class SeatSession:
    """A seat of a task, taken as the operator has agreed. `task` and `request` are the last agreement, None
    before. `is_seated` says that the account already had the seat, or a bond; `is_bound` that it has only a
    bond."""

    chain: GameChain
    config: NodeConfig
    home: HomeConfig
    name: str
    offer: Offer
    console: Console
    task: bytes = b""
    request: SeatRequest | None = None
    is_seated: bool = False
    is_bound: bool = False
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> bool:
        """Agrees with the operator and runs the seat. If it ran only for a bond, it starts again, because the
        operator wanted a seat, which may be free by now. Returns and raises as `agree` and the `run` of the
        role do."""
        while True:
            await self.agree()
            is_closed = await self.play()
            if is_closed or not self.is_bound:
                return is_closed

    async def agree(self) -> None:
        """Agrees with the operator on a seat. An account without one first runs for a bond that it has in an
        open game, because the game's deadline does not wait for a question, a check of the machine or a free
        seat. Raises as `_agree_on` does."""
        account = self.config.key.address.lower()
        state = await read_state(self.chain, account)
        self.task, game = find_own_game(state, self.name)
        self.name, seat = self.task.hex(), find_seat(game, account)
        note_facts(task=format_id(self.task))
        self.is_seated = has_duties(game, account)
        self.is_bound = self.is_seated and seat is None
        if self.is_bound:
            self.console.notify("no seat, but a bond in an open game: the node finishes that first")
            self.request = SeatRequest(self.offer.role, is_held=True)
            return
        try:
            await self._agree_on(state, game, seat)
        except NotNeeded:
            await require_no_seat(self.chain, self.task, state)
            raise

    async def _agree_on(self, state: ChainState, game: LoggedGame, seat: Seat | None) -> None:
        """Says what the seat needs. Raises InvalidInput or EnvironmentFault if the task does not take the
        seat, is harmful, needs more than the home allows or the machine has, or if there is too little
        money."""
        offer, account, path = self.offer, self.config.key.address.lower(), self.config.home / CONFIG_FILE
        refuse_seat(self.task, game, account, offer, state.head_block + 1)
        if not self.is_seated and offer.is_agreed:
            is_convicted = state.is_convicted(account, self.task)
            refuse_unasked(self.task, has_left=self._has_left(), is_convicted=is_convicted)
        if not self.is_seated:
            # Nothing is fetched for a deployment of another version.
            await self.chain.require_own_contracts()
            need = await find_room(self.config, self.home, offer.role, state, self.task)
            self.console.notify(f"{need.who} takes up to {need.memory_bytes / 1e6:,.0f} MB of memory")
            for line in describe_solver(game.terms, need.disk_bytes) if offer.role is SeatRole.SOLVER else ():
                self.console.notify(line)
        if offer.weights is not None:
            limit_memory(self.config)
            store = BlobStore(self.config.home / STORE_FOLDER, is_durable=False)
            spec = read_checked_spec(state, self.task)
            named = (spec.training, spec.terms.parameter_count)
            _, layout = await asyncio.to_thread(read_program, store, *named)
            await asyncio.to_thread(import_start, store, offer.weights, spec, layout)
        request = await agree_on_seat(self.chain, game, self.home, path, account, offer, self.console)
        self.request = replace(
            request, require_wanted=partial(self._require_wanted, offer, request.require_wanted)
        )

    def _require_wanted(self, offer: Offer, ask: Callable[[GameState], None] | None, game: GameState) -> None:
        """Asks the operator, once, because the machine was checked for minutes before. Raises Declined if the
        operator does not want the seat. Raises NotNeeded if it has typed `touchstone leave` and is not
        asked."""
        if ask is not None:
            ask(game)
        if not offer.is_agreed:
            # Only the operator, if asked, can take back `touchstone leave`.
            note_left(self.config.home, self.task, is_left=False)
        self.offer = replace(self.offer, is_agreed=True)
        self.answered.set()
        refuse_unasked(self.task, has_left=self._has_left(), is_convicted=False)

    async def play(self) -> bool:
        """Runs the seat as `run_role`."""
        run = resolve_name(RUN_ROLE)
        if self.is_seated or self.offer.is_agreed:
            self.answered.set()
        progress = self._show_progress()
        try:
            is_closed: bool = await with_company(
                run(self.offer.role, self.config, self.task, self.request), progress
            )
        except NotNeeded:
            state = await read_state(self.chain, self.config.key.address.lower())
            await require_no_seat(self.chain, self.task, state)
            raise
        return is_closed

    async def _show_progress(self) -> None:
        """Shows the bar, except while the question is asked."""
        await self.answered.wait()
        await show_progress(self.chain, self.task, self.console)

    def _has_left(self) -> bool:
        """Returns whether the operator has typed `touchstone leave`."""
        return self.task.hex() in list_left(self.config.home)
