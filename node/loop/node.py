"""A node: it has a key, a home and a server, follows the chain and works on one task.

It joins a task, takes a seat if it is asked to, and performs what its rooms list until the task closes. A
role says which rooms those are (`list_rooms`). Stakes and bonds are taken from the credit of the account.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from touchstone.node.health.parting import Parting
from touchstone.node.joining.dataset import DatasetSource
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.joining.task_reading import read_spec, refuse_harmful, require_format
from touchstone.node.joining.task_step import StepSource, fetch_step
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import FAR, Meter, NodeConfig, Status
from touchstone.node.kit.duty import Room
from touchstone.node.kit.following import Following
from touchstone.node.kit.loss_board import LossBoard
from touchstone.node.kit.peers import Peers
from touchstone.node.kit.recompute_queue import RecomputeQueue
from touchstone.node.kit.retention_windows import PruningMemory
from touchstone.node.kit.signer import Signer
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.view import View, require_game
from touchstone.node.kit.waiting import telling
from touchstone.node.loop.joined import Joined
from touchstone.node.loop.node_loop import Loop
from touchstone.node.loop.rooms import Rooms
from touchstone.node.loop.served_data import ServedData
from touchstone.node.loop.tools import Tools
from touchstone.node.models.global_model import get_initial_header
from touchstone.node.models.own_openings import OwnClaims
from touchstone.node.models.start_weights import require_start_here
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.claim_records import ClaimBook
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.serving.audit_opening import KnownModels, open_seated_pool, recover
from touchstone.node.serving.audit_room import AuditRoom, read_audit_task
from touchstone.node.serving.audit_serving import Audits
from touchstone.node.training.worker_team import Team, open_team
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.store.part_store import PartStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.batches import Corpus
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.protocol.compute.program.step_facts import require_step_root
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.open_questions import has_bond, has_bond_alone, has_duties
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import Seat
from touchstone.protocol.spec.task_spec import TaskSpec


@dataclass
class Node:
    """An open node. `following` follows the chain. `served` is what its server offers. `parts` are leaves of
    datasets, None if it keeps none. `bucket` and `board` are for copies of blobs and written losses, None if
    the operator wants none. `joined` is the task that it works on."""

    config: NodeConfig
    following: Following
    store: BlobStore
    journal: Journal
    client: BlobClient
    parts: PartStore | None = None
    bucket: Bucket | None = None
    board: LossBoard | None = None
    served: ServedData | None = None
    joined: Joined | None = None

    def list_rooms(self) -> Sequence[Room[Any]]:
        """Lists the rooms of a node that has joined a task; each role overrides this. The room whose duties
        cost most when late comes first."""
        return ()

    @property
    def chain(self) -> GameChain:
        """The contracts of the deployment."""
        return self.following.chain

    @property
    def state(self) -> ChainState:
        """The fold of all events up to its head."""
        return self.following.state

    @property
    def status(self) -> Status:
        """How far this node has come, as its peers are told."""
        return self.following.status

    @property
    def meter(self) -> Meter:
        """Counters of the node's own work."""
        return self.following.meter

    @property
    def account(self) -> str:
        """The address in lower case."""
        return self.chain.address

    @property
    def task(self) -> Joined:
        """The task that this node works on. Ask only after joining one."""
        assert self.joined is not None
        return self.joined

    @property
    def game(self) -> LoggedGame:
        """The game of the joined task. Raises GateShut while the chain does not have the task."""
        return require_game(self.state.games.get(self.task.task), self.task.task)

    @property
    def rooms(self) -> Rooms:
        """The rooms of the joined task."""
        return self.task.rooms

    def get_view(self) -> View:
        """Returns what a decision may look at now."""
        task, tools = self.task, self.task.rooms.tools
        game = self.state.games.get(task.task)
        return View(
            self.account, task.task, task.domain, task.spec, game, self.state.head_block, self.state,
            tools.claims, task.audits.known, tools.cases, tools.pruning_memory, tools.states,
        )  # fmt: skip

    def find_view(self) -> View | None:
        """Returns the view of the task. Returns None before a task is joined, and while the chain does not
        have it: a reorg may undo the block in which it was posted."""
        if self.joined is None or self.joined.task not in self.state.games:
            return None
        return self.get_view()

    def is_member(self, account: str) -> bool:
        """Returns whether an account is the submitter, or has a seat, of this node's task. A seat of another
        task does not count, because any account can post a task with seats that cost next to nothing."""
        view = self.find_view()
        return view is not None and view.is_member(account)

    async def work_on(self, task: bytes, request: SeatRequest | None = None) -> bool:
        """Works on a task until it is closed (True), or the seat has left and is paid out (False). `request`
        is None for work without a seat. Raises InvalidInput (unknown or malformed task) and EnvironmentFault
        (no chain, no peer)."""
        await self.following.take_next()
        if request is not None and not request.is_held and await self._wait_until_idle(task):
            request = replace(request, is_held=True)
        if request is not None and request.is_held:
            await self._find_held_seat(task)
        try:
            await self.join(task, request.figures if request else None)
            seat: Seat | None = None
            is_bound = False
            if request is not None and request.is_held and find_seat(self.game, self.account) is None:
                # The seat was paid out meanwhile. The operator agreed to that seat only, so the node takes no
                # new one.
                former = self.game.former.values()
                seat = next((one for one in former if one.account == self.account), None)
                is_bound = has_bond(self.game, self.account)
                if seat is None and not is_bound:
                    return self.game.is_closed
            elif request is not None:
                self.config.notify(
                    "training one step of the task; the first start takes longer, since it compiles kernels"
                )
                await self.rooms.self_test.check_bits()
                await self.rooms.seat_taking.take_seat(request)
            return await Loop(
                self.following, self.find_view, self.account, self.config.notify,
                self.list_rooms(),
                is_seated=request is not None, is_bound=is_bound, seat=seat,
            ).run()  # fmt: skip
        except asyncio.CancelledError:
            Parting(self.chain, self.config.notify).notify_end(self.find_view())
            raise
        finally:
            if self.joined is not None:
                self.joined.close()

    async def _wait_until_idle(self, task: bytes) -> bool:
        """Follows the chain, without a seat in `task`, until nobody has used the machine for long enough.
        Returns whether the account already has a seat or a bond there, since a killed run may have asked for
        it. Then the node has work to do, even while somebody uses the machine."""
        use, is_held = self.config.use, False
        if use is not None and not use.is_idle:
            self.config.notify(f"waiting until nobody has used the machine for {use.idle_s / 60:g} minutes")
        while use is not None and not use.is_idle and not is_held:
            self.status.processed_block, self.status.waiting_for_block = self.state.head_block, FAR
            await self.following.take_next()
            is_held = task in self.state.games and has_duties(self.state.games[task], self.account)
        return is_held

    async def _find_held_seat(self, task: bytes) -> None:
        """Follows the chain until it shows this account's seat, which the contract has. If another endpoint
        showed the seat a moment ago and this one does not, this one is behind; the seat was not paid out."""
        async with telling(self.config.notify, lambda: "waiting for the block in which the seat was taken"):
            while (game := self.state.games.get(task)) is not None and not has_duties(game, self.account):
                if not await self.chain.game.seat_of(task, self.account):
                    return
                await self.following.take_next()

    async def join(self, task: bytes, figures: Figures | None = None) -> None:
        """Joins `task`, without a seat yet: fetches and checks the data that it needs. Raises InvalidInput
        for an unknown or malformed task, EnvironmentFault if this machine lacks the configured device, and
        what fetching its data raises."""
        config, store = self.config, self.store
        if not AuditBook(self.journal, task).has_begun(self.state.head_block):
            # What a lost journal has said is in blocks up to now.
            await self.following.catch_up(config.notify)
        pin_kernels(config.threads, device=config.device)
        spec, game = read_spec(self.state, task), self.state.games[task]
        refuse_harmful(game.terms, spec, figures, self.chain.bounds)
        require_format(self.state.task_terms[task].format, spec)
        peers = Peers(self.client, self.state, self.account, task)
        ask = partial(peers.list, first=spec.terms.submitter)
        await fetch_step(StepSource(store, self.client, ask, config.notify), spec)
        await asyncio.to_thread(require_step_root, spec)
        source = DatasetSource(store, self.parts, peers, config.notify, config.whole_dataset)
        corpus = await source.open(spec)
        # With a bond but no seat it trains no claim, and each worker takes as much memory as a node.
        is_bound = has_bond_alone(game, self.account)
        team = None if is_bound else open_team(config, spec.training, config.notify)
        try:
            self.joined = self.open_task(task, spec, corpus, peers, team)
        except BaseException:
            if team is not None:
                team.close()
            raise
        self.state.focus(task)
        if self.served is not None:
            self.served.rooms = self.joined.list_served(self.find_view)
        await self._have_start()

    def open_task(
        self, task: bytes, spec: TaskSpec, corpus: Corpus, peers: Peers, team: Team | None = None
    ) -> Joined:
        """Opens the rooms of a task, with what the journal has of it. Raises as `open_seated_pool` does."""
        config = self.config
        tools = Tools(
            get_view=self.get_view, notify=config.notify, notify_loop=self.following.notify_loop,
            keep_up=self.following.keep_up, catch_up=partial(self.following.catch_up, config.notify),
            states=StateStore(self.store, spec.terms.parameter_count), peers=peers, chain=self.chain,
            signer=Signer(config.key, self.chain.gate, self.chain.signing), journal=self.journal,
            claims=ClaimBook(self.journal, task), cases=DisputeRecords(self.journal, task),
            pruning_memory=PruningMemory(), recompute_queue=RecomputeQueue(),
            locks=defaultdict(asyncio.Lock), corpus=corpus, team=team, meter=self.meter, board=self.board,
            bucket=self.bucket, use=config.use, home=config.home, is_reach_wanted=config.check_reach,
        )  # fmt: skip
        rooms = Rooms(tools)
        return Joined(
            task, self.state.games[task].terms.domain, spec, rooms, self._open_audits(task, spec, rooms)
        )

    def _open_audits(self, task: bytes, spec: TaskSpec, rooms: Rooms) -> Audits:
        tools, state = rooms.tools, self.state
        book = AuditBook(self.journal, task)
        seat = find_seat(state.games[task], self.account)
        if book.begin(state.head_block) and seat is not None and seat.role != SeatRole.SOLVER:
            tools.notify(
                "WARNING: this account has a seat already, and this home's journal begins at block "
                f"{book.begun}. This node does not audit rounds that were closed by then, because a second, "
                "different vote would cost the stake."
            )
        about = read_audit_task(task, spec, tools.corpus)

        def find_peer(account: str) -> Peer:
            """Returns an account's endpoint. Raises GateShut while the chain is read anew."""
            require_game(state.games.get(task), task)
            return state.network.find(account)

        # Open its processes last: if anything failed after that, nothing would end them.
        pool = open_seated_pool(self.config, state.games[task], self.account)
        return Audits(
            AuditRoom(
                account=self.account,
                about=about,
                book=book,
                store=self.store,
                client=self.client,
                claims=OwnClaims(self.get_view),
                models=KnownModels(self.get_view, rooms.outer_steps, rooms.claim_data),
                get_game=lambda: require_game(state.games.get(task), task),
                get_head=lambda: state.head_block,
                find_peer=find_peer,
                wait_for_block=self.following.wait_for_block,
                sign=tools.signer.sign,
                list_others=tools.peers.list,
                recover=partial(recover, self.chain.signing),
                notify=tools.notify,
                train=pool.train if pool else replay_segment,
                pause=rooms.idle_mode.pause,
                run_apart=pool.run_apart if pool else asyncio.to_thread,
                close=pool.close if pool else lambda: None,
            )
        )

    async def _have_start(self) -> None:
        """Brings the state before any training into the store, because every seat needs it. If the node
        already has a seat or a bond, it does not wait for starting weights or disk space, because it has
        moves to make. Then it gets that state when it needs it."""
        try:
            require_start_here(self.get_view())
            await self.rooms.model.load_outer_state(get_initial_header(self.get_view()))
        except EnvironmentFault as fault:
            if not has_duties(self.game, self.account):
                raise
            self.config.notify(f"WARNING: {fault} The node goes on, because it has a seat or a bond.")
