"""A node that looks at a round which was played on the pure machine, without network: the test says what it
knows of votes, seals and replays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.kit.nodes import open_joined
from tests.node.kit.test_bonds import Wallet
from tests.node.specs import get_spec
from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    START_BLOCK,
    Simulation,
    is_posted,
    make_terms,
    make_word,
)
from touchstone.node.records.audit_records import make_sealed
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameState, create_game
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Vote, VoteOpening, VoteWord
from touchstone.scripts.roles.role_nodes import Member

WEALTH_WEI = 100_000


def make_account(role: SeatRole, number: int) -> str:
    """The address of a member."""
    return "0x" + make_word(role, number).hex()[:40]


SOLVERS = [make_account(SeatRole.SOLVER, number) for number in range(3)]
VERIFIERS = [make_account(SeatRole.VERIFIER, number) for number in range(5)]
ONLOOKERS = [make_account(SeatRole.WHISTLEBLOWER, number) for number in range(3)]
ONLOOKER, OTHER_ONLOOKER, _ = ONLOOKERS
MEMBERS = (SOLVERS, VERIFIERS, ONLOOKERS)


@cache
def play_round(last: int = 0) -> GameState:
    """Round `last` is posted: all claims up to it are accepted."""
    terms = make_terms(segment_count=get_spec().terms.segment_count)
    world = Simulation(create_game(terms, BOUNDS_LOCAL, START_BLOCK))
    groups = zip((SeatRole.SOLVER, SeatRole.VERIFIER, SeatRole.WHISTLEBLOWER), MEMBERS, strict=True)
    for role, accounts in groups:
        stake = AMOUNTS.solver_stake if role == SeatRole.SOLVER else AMOUNTS.auditor_stake
        for account in accounts:
            world.send(calls.JoinSeat(role, stake), account)
    return world.play(partial(is_posted, index=last)).state


def get_solver(slot: int = 0) -> str:
    """The account of a claim of round 0."""
    game = play_round()
    return game.seats[game.rounds[0].claims[slot].seat].account


def make_header(name: str, step: int = 2) -> StateHeader:
    """A state with made-up roots."""
    return StateHeader(make_word(name, "W"), make_word(name, "m"), make_word(name, "v"), step, step)


def make_boundary(name: str) -> BoundaryProof:
    return BoundaryProof(make_header(name), make_word(name, "salt"), (make_word(name, "path"),) * 3)


def make_vote(
    word: VoteWord = VoteWord.ACCEPT, rank: int = 0, end: bytes | None = None, slot: int = 0, **changes: Any
) -> KnownVote:
    """The vote of the seat that the chain drew for a rank of a claim of round 0. end: root of its own end, so
    that the vote is known with its opening; None: the node has no opening of it."""
    drawn = get_drawn(play_round(), 0, slot, 0, rank)
    assert drawn is not None
    sealed = make_sealed(drawn.place, drawn.segment, make_word("start leaf"), make_word("seal", rank))
    vote = replace(Vote(**vars(sealed), end_leaf=make_word("end leaf"), word=word, named_leaf=0), **changes)
    opening = (
        None if end is None else VoteOpening(vote, make_word("claimed"), make_word("salt"), end, b"s" * 32)
    )
    return KnownVote(vote, make_word("signed", vote) * 2, drawn.seat.account, opening)


@contextmanager
def open_onlooker(folder: Path, account: str = ONLOOKER, game: GameState | None = None) -> Iterator[Member]:
    """The node of an account, at the close of round 0."""
    game = game or play_round()
    with open_joined(folder, game, account=account) as node:
        chain: Any = node.chain
        chain.vault = chain.token = Wallet(WEALTH_WEI, 0)
        node.state.head_block = game.rounds[0].closed or 0
        for seat in game.seats.values():
            node.state.network.peers[seat.account] = Peer(seat.account, "https://127.0.0.1:1", bytes(32))
        yield node
