"""A round that is closed and drawn, played on the pure machine; a solver's claim that was really trained,
with what is wrong in it; and nodes with real stores, journals and servers that audit it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from time import monotonic
from typing import Any, cast

from tests.e2e.world import make_dataset
from tests.node.specs import get_spec
from tests.protocol.adapters.parties import make_key
from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    START_BLOCK,
    Simulation,
    make_terms,
    make_word,
    seal_draw,
)
from tests.task_models import draw_first
from touchstone.node.kit.view import View
from touchstone.node.records.audit_records import RECORDS, AuditBook, ShownWork
from touchstone.node.records.handed_votes import HandedVote
from touchstone.node.records.known_audits import KnownAudits
from touchstone.node.serving.audit_room import AuditRoom, AuditTask, read_audit_task
from touchstone.node.serving.audit_serving import BODY_BYTES, Audits
from touchstone.node.serving.distance_reports import list_distances
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.signatures import Signed, recover_signer, sign_statement
from touchstone.protocol.adapters.messages import Message
from touchstone.protocol.adapters.reports.round_reports import ReportsSaid
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind, refer_delta, refer_state
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.json_answers import NodeStatus
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.adapters.wire.server import BlobServer, ReadPolicy
from touchstone.protocol.adapters.wire.session import RetryPolicy
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.compute.batches import get_batch, open_corpus
from touchstone.protocol.compute.digest import build_delta_tree, build_state_trees, tensor_bytes, tensor_root
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.claim_tree import compute_carried_root, compute_claim_root, compute_work_leaf
from touchstone.protocol.spec.commitments import (
    compute_boundary_leaf,
    compute_outer_root,
    compute_state_root,
)
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit, get_drawn
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameState, create_game
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.protocol.spec.merkle import Levels, compute_levels, compute_path
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.statements import Vote
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.protocol.spec.typed_data import SigningDomain

SIGNING = SigningDomain(31337, "0x" + "7a" * 20)
TASK, DOMAIN = make_word("task"), make_word("domain")
TINY = get_spec()
HASTE = RetryPolicy(attempts=1, first_pause_s=0.01, longest_pause_s=0.01, connect_s=5, silence_s=5)
SOLVER, OTHER_SOLVER, BYSTANDER, STRANGER = 1, 2, 98, 99
VERIFIERS, WHISTLEBLOWERS = range(11, 17), range(21, 26)
"""Seeds of keys."""


def get_account(seed: int) -> str:
    """The account of a key, lower case."""
    return make_key(seed).address.lower()


# The claim
@dataclass(frozen=True)
class Twist:
    """What is wrong in a claim. boundary: from which boundary on its states are of something else; element,
    amount: what was added to one weight there; steps: added to the step numbers of a boundary alone;
    untrainable: a boundary whose second moment is negative, so that each step from it has NaN; moment:
    added to one first moment of boundary 0, from which all is trained."""

    boundary: int = -1
    element: int = 300
    amount: float = 1.0
    steps: tuple[int, int, int] = (-1, 0, 0)
    delta_leaf: int = -1
    is_carried_wrong: bool = False
    untrainable: int = -1
    moment: float = 0.0


HONEST = Twist()


@dataclass(frozen=True)
class Claim:
    """States at the boundaries, their salts, the pseudo-gradient; and the tree over them."""

    solver: str
    states: tuple[TrainingState, ...]
    headers: tuple[StateHeader, ...]
    delta: bytes
    carried_root: bytes

    @cached_property
    def salts(self) -> list[bytes]:
        """One for each boundary."""
        return [make_word("salt", boundary) for boundary in range(len(self.headers))]

    @cached_property
    def root(self) -> bytes:
        """What it commits to."""
        return compute_claim_root(self.levels[0])

    @cached_property
    def levels(self) -> Levels:
        """The tree."""
        where, leaves = (DOMAIN, 0, self.solver), []
        for boundary, header in enumerate(self.headers):
            root = compute_state_root(header)
            leaves.append(compute_boundary_leaf(*where, boundary, self.salts[boundary], root))
        work = (build_delta_tree(self.delta).root, self.carried_root)
        return compute_levels([*leaves, compute_work_leaf(*where, len(leaves) - 1, *work)])

    def list_boundaries(self, index: int) -> dict[int, StateHeader]:
        return dict(enumerate(self.headers))

    def open_boundary(self, index: int, boundary: int) -> BoundaryProof:
        path = tuple(compute_path(self.levels, boundary))
        return BoundaryProof(self.headers[boundary], self.salts[boundary], path)

    def open_work(self, index: int) -> ShownWork:
        path = tuple(compute_path(self.levels, len(self.headers)))
        return ShownWork(build_delta_tree(self.delta).root, self.carried_root, path)


@cache
def get_task(spec: TaskSpec = TINY) -> AuditTask:
    """A task on the tests' data; the tiny one has four segments of two steps."""
    return read_audit_task(TASK, spec, open_corpus(make_dataset(), spec.training))


@cache
def begin_model(spec: TaskSpec = TINY) -> TrainingState:
    """Boundary 0 of round 0."""
    training = spec.training
    return begin_round(draw_first(training), 0)


@cache
def get_base(spec: TaskSpec = TINY) -> OuterHeader:
    """What round 0 starts from."""
    return OuterHeader(tensor_root(begin_model(spec).weights), spec.terms.zero_root)


@cache
def train_claim(beacon: bytes, shard: int, twist: Twist, spec: TaskSpec = TINY) -> Claim:
    """Trains a whole round, with a twist."""
    about, state = get_task(spec), begin_model(spec)
    batches = partial(get_batch, about.corpus, about.training, beacon, shard)
    if twist.moment:
        moment = state.first_moment.clone()
        moment[twist.element] += twist.moment
        state = replace(state, first_moment=moment)
    states = []
    for boundary in range(about.inner_steps // about.segment_steps + 1):
        if boundary:
            step = (boundary - 1) * about.segment_steps
            state, _ = train_segment(state, about.training, batches, step, about.segment_steps)
        if boundary == twist.boundary:
            weights = state.weights.clone()
            weights[twist.element] += twist.amount
            state = replace(state, weights=weights)
        states.append(state)
    if twist.untrainable >= 0:
        spoiled = states[twist.untrainable]
        states[twist.untrainable] = replace(spoiled, second_moment=spoiled.second_moment - 1.0)
    headers = [build_state_trees(one).header for one in states]
    at, local, glob = twist.steps
    if at >= 0:
        header = headers[at]
        headers[at] = replace(
            header, local_step=header.local_step + local, global_step=header.global_step + glob
        )
    delta = bytearray(encode_delta(begin_model(spec).weights, states[-1].weights))
    if twist.delta_leaf >= 0:
        delta[260 * twist.delta_leaf + 7] ^= 1
    carried = make_word("other") if twist.is_carried_wrong else compute_carried_root(headers[-1])
    return Claim(get_account(SOLVER), tuple(states), tuple(headers), bytes(delta), carried)


# The chain
def make_stage(
    twist: Twist = HONEST,
    *,
    is_late: bool = False,
    is_exact: bool = False,
    spec: TaskSpec = TINY,
    **changes: Any,
) -> Stage:
    """Round 0 with one claim, closed and drawn. is_late: and the late audit of that claim as well; spec: of
    four segments."""
    spec = get_spec("exact15") if is_exact else spec
    terms = make_terms(
        domain=DOMAIN, root=compute_outer_root(get_base(spec)), segment_count=4, rounds=1,
        late_chance=1 << 16 if is_late else 0, is_exact=is_exact, **changes,
    )  # fmt: skip
    world = Simulation(create_game(terms, BOUNDS_LOCAL, START_BLOCK))
    groups = [(SeatRole.SOLVER, (SOLVER, OTHER_SOLVER)), (SeatRole.VERIFIER, VERIFIERS)]
    for role, seeds in [*groups, (SeatRole.WHISTLEBLOWER, WHISTLEBLOWERS)]:
        stake = AMOUNTS.solver_stake if role == SeatRole.SOLVER else AMOUNTS.auditor_stake
        for seed in seeds:
            world.send(calls.JoinSeat(role, stake), get_account(seed))
    world.cheats = {seat.account for seat in world.state.seats.values()}
    world.play(until=lambda w: 0 in w.state.rounds)
    game_round = world.state.rounds[0]
    slot = [world.state.seats[n].account for n in game_round.pool.solvers].index(get_account(SOLVER))
    beacon = game_round.beacon or b""
    claim = train_claim(beacon, assign_shards(beacon, len(game_round.pool.solvers))[slot], twist, spec)
    commit = calls.CommitRound(0, game_round.base_root, beacon, claim.root, 4)
    world.send(commit, get_account(SOLVER))
    seal_draw(world)
    return Stage(world, claim, slot, spec)


@dataclass
class Stage:
    """The chain, the claim, and where everybody serves."""

    world: Simulation
    claim: Claim
    slot: int
    spec: TaskSpec = TINY
    peers: dict[str, Peer] = field(default_factory=dict)

    @property
    def game(self) -> GameState:
        return self.world.get_now()

    @property
    def head(self) -> int:
        return self.world.block

    @property
    def audit_end(self) -> int:
        """The last block in which a vote decides the merge."""
        return (self.game.rounds[0].closed or 0) + self.game.terms.windows.audit_max

    def get_drawn(self, rank: int = 0, draw: int = 0) -> DrawnAudit:
        drawn = get_drawn(self.game, 0, self.slot, draw, rank)
        assert drawn is not None
        return drawn

    def find_seed(self, account: str) -> int:
        """Of the key of an account."""
        seeds: tuple[int, ...] = (*VERIFIERS, *WHISTLEBLOWERS)
        return next(seed for seed in seeds if get_account(seed) == account)

    def find_auditor(self, rank: int = 0, draw: int = 0) -> int:
        return self.find_seed(self.get_drawn(rank, draw).seat.account)

    def find_peer(self, account: str) -> Peer:
        if account not in self.peers:
            raise EnvironmentFault(what="nowhere", expected="", actual="", remedy="")
        return self.peers[account]

    def settle(self, phase: RoundPhase = RoundPhase.POSTED) -> None:
        """Round 0 has its root; after the next block no vote on its draws can count any more, whatever blocks
        the chain takes back."""
        state = self.world.state
        game_round = replace(state.rounds[0], phase=phase, root=make_word("root"))
        self.world.state = replace(state, rounds={0: game_round})
        until = (game_round.closed or 0) + 2 * state.terms.windows.audit_max
        self.world.jump(until + REORG_BLOCKS - 1)

    async def wait_for_block(self, block: int) -> int:
        while self.head < block:
            await asyncio.sleep(0.005)
        return self.head

    async def pass_blocks(self, until: int, pause_s: float = 0.005) -> None:
        """The clock of the chain. It pauses while this process waits for a processor: on a busy machine
        nodes would be late, though they are quick."""
        while self.head < until:
            begun = monotonic() - measure_waited_s()
            await asyncio.sleep(pause_s)
            while monotonic() - measure_waited_s() < begun + pause_s:
                await asyncio.sleep(pause_s)
            self.world.jump(self.head + 1)


def measure_waited_s() -> float:
    """So long have the threads of this process, all together, been ready to run without a processor."""
    waited_ns = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):
            waited_ns += int(path.read_text().split()[1])
    return waited_ns / 1e9


# Nodes
@dataclass
class KnownModels:
    """The model that round 0 starts from, in the store of a node."""

    store: BlobStore
    spec: TaskSpec = TINY
    is_known: bool = True

    async def load_base(self, base_root: bytes) -> OuterHeader:
        if not self.is_known:
            raise EnvironmentFault(what="no model", expected="", actual="", remedy="")
        base, count = get_base(self.spec), get_task(self.spec).parameter_count
        ref = refer_state(replace_weights(base), count)[0]
        if not self.store.has(ref):
            self.store.put(ref, tensor_bytes(begin_model(self.spec).weights))
        return base

    async def find_carried(self, index: int, slot: int) -> bytes:
        raise AssertionError("nothing was merged before round 0")


def replace_weights(base: OuterHeader) -> StateHeader:
    return StateHeader(base.weights_root, base.momentum_root, base.momentum_root, 0, 0)


def list_handed(node: Node) -> tuple[HandedVote, ...]:
    """Votes of round 0 that the chain lacks and would count next, as a node knows them."""
    return node.audits.known.list_handed(0, node.room.block)


@dataclass
class Node:
    """One node: what is left of it after a kill is its folder."""

    stage: Stage
    seed: int
    folder: Path
    may_serve: Callable[[str, BlobKind, bytes], bool] = lambda account, kind, root: True
    is_durable: bool = False
    make_client: Callable[..., BlobClient] = BlobClient

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.key: AccountKey = make_key(self.seed)
        self.account = get_account(self.seed)
        self.lines: list[str] = []
        self.store = BlobStore(self.folder / "blobs", is_durable=self.is_durable)
        self.journal = Journal(self.folder / "journal.sqlite", RECORDS)
        self.client = self.make_client(
            self.store, RequestSigner(self.key, SIGNING), HASTE, own_host="127.0.0.1"
        )
        self.room = self._make_room()
        self.audits = Audits(self.room)

    async def _sign(self, statement: Signed) -> bytes:
        return sign_statement(self.key, statement, SIGNING)

    def _make_room(self) -> AuditRoom:
        stage = self.stage
        return AuditRoom(
            account=self.account,
            about=get_task(stage.spec),
            book=AuditBook(self.journal, TASK),
            store=self.store,
            client=self.client,
            claims=stage.claim,
            models=KnownModels(self.store, stage.spec),
            get_game=lambda: stage.game,
            get_head=lambda: stage.head,
            find_peer=stage.find_peer,
            list_others=lambda: [one for one in stage.peers.values() if one.account != self.account],
            wait_for_block=stage.wait_for_block,
            sign=self._sign,
            recover=lambda statement, signature, source: recover_signer(
                statement, signature, SIGNING, source
            ),
            notify=self.lines.append,
        )

    def get_view(self) -> View:
        """What a decision may look at now: an auditor has no claims, disputes and memory of pruning."""
        game, nothing = self.stage.game, cast(Any, None)
        here = (self.account, TASK, DOMAIN, self.stage.spec, cast(Any, game), self.stage.head)
        known = KnownAudits(self.room.book, game)
        return View(*here, nothing, nothing, known, nothing, nothing, self.room.states)

    def keep_claim(self) -> None:
        """The claim's states and pseudo-gradient, as its solver has them."""
        claim = self.stage.claim
        for state in claim.states:
            self.room.states.keep(state)
        self.store.put_delta(build_delta_tree(claim.delta).root, claim.delta)

    def may_read(self, account: str, kind: BlobKind, root: bytes) -> bool:
        """As a node composes it: pseudo-gradients to everybody, once the round is closed."""
        is_shown = kind is BlobKind.DELTA or self.audits.may_read(account, kind, root)
        return is_shown and self.may_serve(account, kind, root)

    def find_handler(self, name: str) -> RequestHandler | None:
        """What answers to auditors and to those who hand in votes."""
        answer = self.audits.list_answers().get(name)
        return answer and RequestHandler(BODY_BYTES[name], answer)

    def get_reports(self, task: bytes, index: int) -> Message:
        """What it reports of its audits."""
        return ReportsSaid(None, tuple(list_distances(self.room, index)))

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Node]:
        """Serves and asks inside the block; closed behind it, as after a kill."""
        policy = ReadPolicy(
            lambda account: True, self.may_read, lambda: NodeStatus(self.account, 0, None),
            find_handler=self.find_handler, get_reports=lambda *place: self.get_reports(*place),
        )  # fmt: skip
        identity = load_or_create_identity(self.folder)
        server = BlobServer(self.store, self.account, SIGNING, identity, policy)
        async with AsyncExitStack() as stack:
            stack.callback(self.journal.close)
            await stack.enter_async_context(self.client)
            port = await server.start()
            stack.push_async_callback(server.stop)
            peer = Peer(self.account, f"https://127.0.0.1:{port}", identity.fingerprint)
            self.stage.peers[self.account] = peer
            yield self


def make_solver(stage: Stage, folder: Path, **changes: Any) -> Node:
    """The solver of the claim."""
    node = Node(stage, SOLVER, folder / "solver", **changes)
    node.keep_claim()
    return node


def make_bystander(stage: Stage, folder: Path) -> Node:
    """A node that has no part in the audits. While it runs, whoever asks it knows that the own network
    works."""
    return Node(stage, BYSTANDER, folder / "bystander")


def judge(stage: Stage, *votes: Vote) -> None:
    """The chain counts votes that are rightly signed."""
    signed = tuple(
        calls.SignedVote(
            vote.slot, vote.draw, vote.rank, vote.claim_root, vote.seed, vote.segment, vote.word,
            stage.get_drawn(vote.rank, vote.draw).seat.account,
        )
        for vote in votes
    )  # fmt: skip
    stage.world.send(calls.JudgeVotes(0, signed), "anybody")


def list_keys(claim: Claim, boundary: int) -> Iterator[Any]:
    """The blobs of a boundary's state."""
    yield from refer_state(claim.headers[boundary], get_task().parameter_count)


def refer_claimed_delta(claim: Claim) -> Any:
    return refer_delta(build_delta_tree(claim.delta).root, get_task().parameter_count)
