"""A round on the pure machine, and solvers with real stores, journals and servers that train and merge it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.e2e.world import make_dataset
from tests.kit.party import Joined, Party
from tests.kit.views import rooms_of, view_of
from tests.node.specs import get_spec
from tests.protocol.adapters.parties import make_key
from tests.protocol.spec.game.world import AMOUNTS, START_BLOCK, World, make_terms, make_word, seal_draw
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import NodeConfig, Status
from touchstone.node.loop.served_data import PUBLIC_KINDS, ServedData
from touchstone.node.merging import merge_requests
from touchstone.node.models.outer_step import FetchDelta
from touchstone.node.records.claim_records import ClaimBook, ClaimFinished, WorkProof
from touchstone.node.records.handed_votes import HandedVote
from touchstone.node.records.record_kinds import RECORDS
from touchstone.node.serving.reachability_probe import ReachabilityProbe
from touchstone.node.training.claims import read_origin
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.gate import Gate
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.messages import Message, encode_message
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.adapters.wire.server import BlobServer, ReadPolicy
from touchstone.protocol.adapters.wire.session import Patience
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.compute.batches import Corpus, open_corpus
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, list_draws
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.inner_contest import ContestFolds
from touchstone.protocol.spec.game.presets import LIMITS_LOCAL
from touchstone.protocol.spec.game.state import GameRound, create_game
from touchstone.protocol.spec.merkle import compute_depth
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.typed_data import SigningDomain

SIGNING = SigningDomain(31337, "0x" + "7a" * 20)
TASK, DOMAIN = make_word("task"), make_word("domain")
HASTE = Patience(attempts=1, first_pause_s=0.01, longest_pause_s=0.01, connect_s=5, silence_s=5)
SOLVERS, AUDITORS = (1, 2, 3), range(11, 17)
"""Seeds of keys."""


def get_account(seed: int) -> str:
    """The account of a key, lower case."""
    return make_key(seed).address.lower()


@cache
def get_corpus() -> Corpus:
    return open_corpus(make_dataset(), get_spec().training)


@cache
def get_base_root() -> bytes:
    terms = get_spec().terms
    return compute_outer_root(OuterHeader(terms.initial_weights_root, terms.zero_root))


class FakeChain:
    """Takes every call and writes it down: what the chain makes of it is said by the test. item_gas: of each
    item in a call's lists."""

    def __init__(self, address: str) -> None:
        self.address, self.signing, self.item_gas = address, SIGNING, 0
        self.sent: list[tuple[str, tuple[Any, ...]]] = []
        self.gate = Gate(cast(Connection, None))

    async def require_provable(self) -> None:
        """Its headers can be proven."""

    async def deposit_missing(self, wei: int) -> None:
        """Out of a `Wallet` where a test has put one; else the credit is there."""
        if "purse" in vars(self):
            await self.purse.deposit_missing(wei)

    def __getattr__(self, contract: str) -> Any:
        return _FakeContract(self.sent, contract, self.item_gas)


@dataclass
class _FakeContract:
    sent: list[tuple[str, tuple[Any, ...]]]
    name: str
    item_gas: int

    def encode(self, name: str, *arguments: Any) -> bytes:
        return b""

    async def estimate_gas(self, name: str, *arguments: Any) -> int:
        return self.item_gas * sum(len(one) for one in arguments if isinstance(one, list))

    def __getattr__(self, function: str) -> Any:
        async def send(*arguments: Any) -> Any:
            self.sent.append((f"{self.name}.{function}", arguments))
            return SimpleNamespace(events=(SimpleNamespace(name="VotesCounted"),))

        return send


@dataclass
class Handed:
    """The audit room as this one sees it: votes at hand, by round, and work leaves that it was shown."""

    votes: dict[int, list[Any]] = field(default_factory=dict)
    works: dict[bytes, WorkProof] = field(default_factory=dict)

    room: Any = None
    """What has the records of audits, as `book`; None where there are none."""

    @property
    def known(self) -> Handed:
        return self

    @property
    def book(self) -> Any:
        return None if self.room is None else self.room.book

    def list_handed(self, index: int, block: int) -> Sequence[Any]:
        return tuple(self.votes.get(index, ()))

    def list_works(self) -> dict[bytes, WorkProof]:
        return self.works


# --- The chain ----------------------------------------------------------------------------------------------
def make_world(**changes: Any) -> World:
    """Round 0 runs; solvers and auditors sit in it."""
    named = {"root": get_base_root(), "segment_count": 4, "rounds": 3, "late_chance": 0, **changes}
    world = World(create_game(make_terms(domain=DOMAIN, **named), LIMITS_LOCAL, START_BLOCK))
    for role, seeds in ((SeatRole.SOLVER, SOLVERS), (SeatRole.VERIFIER, AUDITORS)):
        stake = AMOUNTS.solver_stake if role == SeatRole.SOLVER else AMOUNTS.auditor_stake
        for seed in seeds:
            world.send(calls.JoinSeat(role, stake), get_account(seed))
    for seed in range(21, 24):
        world.send(calls.JoinSeat(SeatRole.WHISTLEBLOWER, AMOUNTS.auditor_stake), get_account(seed))
    world.cheats = {seat.account for seat in world.state.seats.values()}
    return world.play(until=lambda w: 0 in w.state.rounds)


def make_votes(
    game: Any, game_round: GameRound, slots: Sequence[int], word: VoteWord = VoteWord.ACCEPT, rank: int = 0
) -> tuple[calls.SignedVote, ...]:
    """The word of every auditor of this rank on these claims."""
    votes = []
    for slot, draw in list_draws(game, game_round):
        if slot in slots:
            segment = get_drawn_segment(game, game_round, slot, draw)
            assert game_round.seed is not None and segment is not None
            about = (game_round.claims[slot].claim_root, game_round.seed, segment, word)
            auditor = game.seats[get_drawn_seat(game, game_round, slot, draw, rank) or 0].account
            votes.append(calls.SignedVote(slot, draw, rank, *about, auditor))
    return tuple(votes)


def deal_anew(state: Any) -> Any:
    """Round 0 with another beacon, as after a reorg."""
    game_round = replace(state.rounds[0], beacon=make_word("another beacon"))
    return replace(state, rounds={**state.rounds, 0: game_round})


async def finish(party: Party, index: int = 0) -> ClaimFinished:
    """The claim of an opened round, trained."""
    game = party.game
    origin = read_origin(view_of(party), game, game.rounds[index])
    made: ClaimFinished = await rooms_of(party).training.finish_claim(origin, lambda: None)
    return made


def hand(slot: int, word: VoteWord = VoteWord.ACCEPT, rank: int = 0, is_opened: bool = True) -> HandedVote:
    """A vote on draw 0 of a claim, as it is handed in."""
    place = slot << 64 | rank << 48 | int(word) << 40 | int(is_opened) << 32
    return HandedVote(place, *[bytes(32)] * 7)


def give(party: Party, *votes: HandedVote) -> None:
    """The audit room of a party has these votes of round 0."""
    handed: Any = party.task.audits
    handed.votes[0] = list(votes)


async def ask_unjoined(party: Party, name: str, question: Message) -> Message:
    """What the node answers after a restart, before it has joined a task."""
    probe = ReachabilityProbe(party.state, party.account, party.is_member)
    handler = ServedData(probe, party.status, party.is_member).find_handler(name)
    assert handler is not None
    return await handler.answer("0x", encode_message(question))


async def _wait_for_ever() -> AsyncIterator[Any]:
    """What the chain does: the test folds it."""
    await asyncio.Event().wait()
    yield


# --- Nodes --------------------------------------------------------------------------------------------------
@dataclass
class Stage:
    """The chain, and the nodes that run."""

    world: World
    folder: Path
    parties: dict[int, Party] = field(default_factory=dict)

    def sync(self) -> None:
        """All nodes have read the chain."""
        for party in self.parties.values():
            party.state.games[TASK] = cast(Any, self.world.state)
            party.state.head_block = self.world.block - 1

    @asynccontextmanager
    async def open(self, seed: int) -> AsyncIterator[Party]:
        """A node that serves and asks inside the block; closed behind it, as after a kill."""
        home = self.folder / f"home{seed}"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            journal = stack.enter_context(Journal(home / "journal.sqlite", RECORDS))
            store, key = BlobStore(home / "blobs", is_durable=False), make_key(seed)
            client = BlobClient(store, RequestSigner(key, SIGNING), HASTE, own_host="127.0.0.1")
            party = self._make_party(seed, home, store, journal, client)
            await stack.enter_async_context(client)
            await self._serve(party, stack)
            self.parties[seed] = party
            stack.callback(self.parties.pop, seed, None)
            self.sync()
            yield party

    def _make_party(self, seed: int, home: Path, store: BlobStore, journal: Journal, client: Any) -> Party:
        lines: list[str] = []
        config = NodeConfig(home, home, "", make_key(seed), notify=lines.append)
        chain, state = (
            cast(Any, FakeChain(get_account(seed))),
            ChainState(get_account(seed), LIMITS_LOCAL, SIGNING),
        )
        state.contests[TASK] = ContestFolds(
            compute_depth(count_tensor_leaves(get_spec().terms.parameter_count))
        )
        status, batches = Status(chain.address), _wait_for_ever()
        party = Party(config, chain, store, journal, client, state, status, batches)
        book = ClaimBook(journal, TASK)
        rooms = cast(Any, Handed()), cast(Any, None)
        party.joined = Joined(TASK, DOMAIN, get_spec(), get_corpus(), book, *rooms)
        return party

    async def _serve(self, party: Party, stack: AsyncExitStack) -> None:
        answers = rooms_of(party).merge_requests.list_answers().items()
        handlers = {name: RequestHandler(merge_requests.BODY_BYTES[name], one) for name, one in answers}
        policy = ReadPolicy(
            lambda account: True,
            lambda account, kind, root: (
                kind in PUBLIC_KINDS or merge_requests.may_read(view_of(party), account, kind, root)
            ),
            party.status.show,
            find_handler=handlers.get,
        )
        identity = load_or_create_identity(party.config.home)
        server = BlobServer(party.store, party.account, SIGNING, identity, policy)
        port = await server.start()
        stack.push_async_callback(server.stop)
        peer = Peer(party.account, f"https://127.0.0.1:{port}", identity.fingerprint)
        for other in (*self.parties.values(), party):
            other.state.network.peers[party.account] = peer
            party.state.network.peers |= other.state.network.peers

    # --- Playing --------------------------------------------------------------------------------------------
    async def commit(self, *seeds: int) -> list[ClaimFinished]:
        """These solvers train round 0 and commit."""
        made = []
        for seed in seeds:
            game_round = self.world.state.rounds[0]
            finished = await finish(self.parties[seed])
            words = (game_round.base_root, game_round.beacon or b"", finished.claim_root, finished.segments)
            self.world.send(calls.CommitRound(0, *words), get_account(seed))
            made.append(finished)
        self.sync()
        return made

    def draw(self, index: int = 0) -> GameRound:
        """The round is closed and drawn."""
        seal_draw(self.world, index)
        self.sync()
        return self.world.state.rounds[index]

    def accept(self, *slots: int) -> None:
        """The chain counts the primaries' ACCEPT on these claims."""
        votes = make_votes(self.world.state, self.world.state.rounds[0], slots)
        self.world.send(calls.JudgeVotes(0, votes), "anybody")
        self.sync()

    def reject(self, *slots: int) -> None:
        """The chain counts REJECT of the primaries and of their first reserves on these claims."""
        for rank in (0, 1):
            game_round = self.world.state.rounds[0]
            votes = make_votes(self.world.state, game_round, slots, VoteWord.REJECT_STATE, rank)
            self.world.send(calls.JudgeVotes(0, votes), "anybody")
        self.sync()

    def get_slot(self, seed: int) -> int:
        game_round = self.world.state.rounds[0]
        accounts = [self.world.state.seats[number].account for number in game_round.pool.solvers]
        return accounts.index(get_account(seed))

    async def fetch_all(self, *seeds: int) -> None:
        """These nodes have every pseudo-gradient of round 0."""
        game_round = self.world.state.rounds[0]
        for seed in seeds:
            duties = [FetchDelta(0, slot, one.claim_root) for slot, one in game_round.claims.items()]
            await asyncio.gather(*(duty.perform(rooms_of(self.parties[seed]).outer_steps) for duty in duties))


@asynccontextmanager
async def open_stage(folder: Path, *seeds: int, **changes: Any) -> AsyncIterator[Stage]:
    """Round 0 runs, and these solvers' nodes."""
    stage = Stage(make_world(**changes), folder)
    async with AsyncExitStack() as stack:
        for seed in seeds:
            await stack.enter_async_context(stage.open(seed))
        yield stage
