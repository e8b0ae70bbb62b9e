"""A round on the pure machine, and solvers with real stores, journals and servers that train and merge it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from tests.kit.nodes import SIGNING, TASK, get_account, get_told, open_joined
from tests.node.specs import get_spec
from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    START_BLOCK,
    Simulation,
    make_terms,
    make_word,
    seal_draw,
)
from touchstone.node.loop.served_data import ServedData
from touchstone.node.models.outer_step import FetchDelta
from touchstone.node.records.claim_records import ClaimFinished
from touchstone.node.records.handed_votes import HandedVote
from touchstone.node.serving.reachability_probe import ReachabilityProbe
from touchstone.node.training.claims import read_origin
from touchstone.protocol.adapters.messages import Message, encode_message
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.server import BlobServer
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, list_draws
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameRound, create_game
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.roles.role_nodes import Member

DOMAIN = make_word("domain")
SOLVERS, AUDITORS = (1, 2, 3), range(11, 17)
"""Seeds of keys."""


@cache
def get_base_root() -> bytes:
    terms = get_spec().terms
    return compute_outer_root(OuterHeader(terms.initial_weights_root, terms.zero_root))


# The chain
def make_world(**changes: Any) -> Simulation:
    """Round 0 runs; solvers and auditors sit in it."""
    named = {"root": get_base_root(), "segment_count": 4, "rounds": 3, "late_chance": 0, **changes}
    world = Simulation(create_game(make_terms(domain=DOMAIN, **named), BOUNDS_LOCAL, START_BLOCK))
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


async def finish(node: Member, index: int = 0) -> ClaimFinished:
    """The claim of an opened round, trained."""
    game = node.game
    origin = read_origin(node.get_view(), game, game.rounds[index])
    made: ClaimFinished = await node.rooms.training.finish_claim(origin, lambda: None)
    return made


def hand(slot: int, word: VoteWord = VoteWord.ACCEPT, rank: int = 0, is_opened: bool = True) -> HandedVote:
    """A vote on draw 0 of a claim, as it is handed in."""
    none = bytes(32)
    return HandedVote(
        slot, 0, rank, int(word), is_opened, 0, none, none, none, (none, none, none, none), none, none
    )


def give(node: Member, *votes: HandedVote) -> None:
    """The audit room of a party has these votes of round 0."""
    get_told(node).handed[0] = list(votes)


def make_served(node: Member) -> ServedData:
    """What a node offers before it has joined a task."""
    return ServedData(
        ReachabilityProbe(node.state, node.account, node.is_member), node.status, node.is_member
    )


async def ask_unjoined(node: Member, name: str, question: Message) -> Message:
    """What the node answers after a restart, before it has joined a task."""
    handler = make_served(node).find_handler(name)
    assert handler is not None
    return await handler.answer("0x", encode_message(question))


async def _wait_for_ever() -> AsyncIterator[Any]:
    """What the chain does: the test folds it."""
    await asyncio.Event().wait()
    yield


# Nodes
@dataclass
class Stage:
    """The chain, and the nodes that run."""

    world: Simulation
    folder: Path
    nodes: dict[int, Member] = field(default_factory=dict)

    def sync(self) -> None:
        """All nodes have read the chain."""
        for node in self.nodes.values():
            node.state.games[TASK] = cast(Any, self.world.state)
            node.state.head_block = self.world.block - 1

    @asynccontextmanager
    async def open(self, seed: int) -> AsyncIterator[Member]:
        """A node that serves and asks inside the block; closed behind it, as after a kill."""
        home = self.folder / f"home{seed}"
        async with AsyncExitStack() as stack:
            node = stack.enter_context(open_joined(home, self.world.state, seed=seed))
            await stack.enter_async_context(node.client)
            node.served = make_served(node)
            node.served.rooms = node.task.list_served(node.find_view)
            identity = load_or_create_identity(home)
            server = BlobServer(node.store, node.account, SIGNING, identity, node.served.make_policy())
            port = await server.start()
            stack.push_async_callback(server.stop)
            peer = Peer(node.account, f"https://127.0.0.1:{port}", identity.fingerprint)
            for other in (*self.nodes.values(), node):
                other.state.network.peers[node.account] = peer
                node.state.network.peers |= other.state.network.peers
            self.nodes[seed] = node
            stack.callback(self.nodes.pop, seed, None)
            self.sync()
            yield node

    # Playing
    async def commit(self, *seeds: int) -> list[ClaimFinished]:
        """These solvers train round 0 and commit."""
        made = []
        for seed in seeds:
            game_round = self.world.state.rounds[0]
            finished = await finish(self.nodes[seed])
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
            await asyncio.gather(*(duty.perform(self.nodes[seed].rooms.outer_steps) for duty in duties))


@asynccontextmanager
async def open_stage(folder: Path, *seeds: int, **changes: Any) -> AsyncIterator[Stage]:
    """Round 0 runs, and these solvers' nodes."""
    stage = Stage(make_world(**changes), folder)
    async with AsyncExitStack() as stack:
        for seed in seeds:
            await stack.enter_async_context(stage.open(seed))
        yield stage
