"""Opens the audit room of a party, and lists what an auditor has to do.

An auditor audits the draws that name its seat, and offers its votes to the solvers. The party's server
answers peers in the room's name.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from touchstone.node.kit.config import (
    STORE_FOLDER,
    PartyConfig,
    has_replay_processes,
    make_scratch,
    share_memory_mb,
)
from touchstone.node.kit.duty import Duty, Wait
from touchstone.node.kit.party import Party
from touchstone.node.kit.peers import list_peers
from touchstone.node.models.claim_openings import find_work
from touchstone.node.models.outer_step import BaseModels
from touchstone.node.models.own_openings import OwnClaims
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.serving.audit_room import AuditRoom, read_audit_task
from touchstone.node.serving.audit_serving import BODY_BYTES, Audits
from touchstone.node.training.idle_mode import pause
from touchstone.node.training.ray_replays import open_ray
from touchstone.node.training.replay_pool import ProcessWorker, ReplayPool
from touchstone.node.training.replay_worker import ReplayWorker
from touchstone.protocol.adapters.keys.signatures import recover_signer
from touchstone.protocol.adapters.messages import Message
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.compute.batches import Corpus
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.audit_deadlines import get_due_block, is_wanted
from touchstone.protocol.spec.game.drawn_audits import (
    AuditPlace,
    DrawnAudit,
    find_drawn,
    list_drawn,
    list_heard,
)
from touchstone.protocol.spec.game.open_questions import has_bond_alone
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.statements import Statement
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.verifier.audit_votes import list_waiting, offer
from touchstone.verifier.replaying import audit


class KnownModels(BaseModels):
    """What claims have to start from, as the merge room knows it."""

    async def find_carried(self, index: int, slot: int) -> bytes:
        """The carried root in the work leaf of a merged claim: the own leaf, a known one, or a peer's."""
        game_round = self._party.game.rounds[index]
        return (await find_work(self._party, game_round, game_round.claims[slot])).carried_root


def open_pool(config: PartyConfig) -> ReplayPool:
    """The processes that a party's configuration asks for, and a word of it; none runs before the first
    replay. Raises InvalidInput where Ray is not installed, EnvironmentFault where it does not start."""
    scratch, most = make_scratch(config), f"replays: {config.replay_processes} at once at most"
    make_worker: Callable[[], ReplayWorker]
    if config.executor == "ray":
        make_worker = open_ray(config.ray_address, config.threads, config.replay_processes)
        ray = f"the Ray at {config.ray_address}" if config.ray_address else "a Ray that this node starts"
        config.say(f"{most}, by {ray}")
    else:
        make_worker = partial(ProcessWorker, config.threads, config.device, scratch, share_memory_mb(config))
        config.say(f"{most}, each in a process of its own")
    store = config.home / STORE_FOLDER
    return ReplayPool(scratch, store, config.replay_processes, make_worker)


def open_seated_pool(party: Party, task: bytes) -> ReplayPool | None:
    """As `open_pool`; None where this process replays, and for a bond alone, which audits nothing. Where Ray
    does not answer, a node that has a seat goes on with processes of its own: it has votes and disputes to
    answer."""
    config = party.config
    if has_bond_alone(party.state.games[task], party.account):
        return None
    try:
        return open_pool(config) if has_replay_processes(config) else None
    except EnvironmentFault as fault:
        if find_seat(party.state.games[task], party.account) is None:
            raise
        party.say(f"WARNING: {fault} Going on with processes of this machine, for there is a seat already.")
        config = replace(config, executor="process")
        return open_pool(config) if has_replay_processes(config) else None


def open_audits(party: Party, task: bytes, spec: TaskSpec, corpus: Corpus) -> Audits:
    """The audits of a task that the party is about to join: what its journal has of them. Raises as
    `open_seated_pool` does."""
    pool = open_seated_pool(party, task)
    return Audits(
        AuditRoom(
            account=party.account,
            about=read_audit_task(task, spec, corpus),
            book=AuditBook(party.journal, task),
            store=party.store,
            client=party.client,
            claims=OwnClaims(party),
            models=KnownModels(party),
            get_game=lambda: party.game,
            get_head=lambda: party.state.head_block,
            find_peer=lambda account: party.state.network.find(account),
            wait_for_block=party.wait_for_block,
            sign=party.sign,
            list_others=lambda: list_peers(party, task),
            recover=partial(_recover, party),
            say=party.say,
            train=pool.train if pool else replay_segment,
            pause=partial(pause, party),
            run_apart=pool.run_apart if pool else asyncio.to_thread,
            close=pool.close if pool else lambda: None,
        )
    )


def make_handlers(party: Party) -> dict[str, RequestHandler]:
    """The handlers of this room, by name. They answer once a task is joined."""
    return {name: RequestHandler(most, partial(_answer, party, name)) for name, most in BODY_BYTES.items()}


def may_read(party: Party, account: str, kind: BlobKind, root: bytes) -> bool:
    """Whether a blob was shown to this account in an audit."""
    return party.joined is not None and party.task.audits.may_read(account, kind, root)


async def _answer(party: Party, handler: str, account: str, body: bytes) -> Message:
    if party.joined is None:
        raise EnvironmentFault(
            what="this node has joined no task yet",
            expected="a joined task",
            actual="none",
            remedy="Ask again.",
        )
    return await party.task.audits.answer(handler, account, body)


def _recover(party: Party, statement: Statement, signature: bytes, source: str) -> str:
    return recover_signer(statement, signature, party.signing, source)


@dataclass(frozen=True)
class AuditDraw:
    """Audit the segment of a draw, and write down the vote."""

    place: AuditPlace

    async def perform(self, party: Party) -> None:
        """Raises EnvironmentFault for what can be tried again."""
        room = party.task.audits.room
        drawn = find_drawn(room.get_game(), self.place)
        if drawn is not None:
            await audit(room, drawn)


@dataclass(frozen=True)
class OfferVotes:
    """Hand the own votes of a round, and their openings, to a solver."""

    round: int
    account: str

    async def perform(self, party: Party) -> None:
        """Raises EnvironmentFault while the solver has not taken them."""
        await offer(party.task.audits.room, self.round, self.account)


def list_duties(party: Party, block: int) -> Iterator[Duty | Wait]:
    """What this node's seat has to audit and to offer at `block`."""
    yield from list_room_duties(party.task.audits.room, block)


def list_room_duties(room: AuditRoom, block: int) -> Iterator[Duty | Wait]:
    """The same of a room."""
    game = room.get_game()
    for drawn in list_drawn(game, room.account, block):
        if _is_open(room, drawn, block):
            due = get_due_block(game, drawn.place)
            yield AuditDraw(drawn.place) if block >= due else Wait(due)
    for index in list_heard(game, block - 3 * game.terms.windows.audit_max):
        yield from (OfferVotes(index, account) for account in list_waiting(room, index))


def _is_open(room: AuditRoom, drawn: DrawnAudit, block: int) -> bool:
    is_done = drawn.place in room.book.votes or drawn.place in room.passed
    return not is_done and is_wanted(room.get_game(), drawn.place, block)
