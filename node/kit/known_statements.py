"""Finds the statements that this node knows, the seats that answer for them now, and random queries.

It also puts statements into the forms that the contracts take. Whether a statement can be held against a seat
is a pure function of the state.

Some ACCEPTs are queried at random, although nothing speaks against them. Otherwise a lone auditor could seal
noise instead of a replay, vote ACCEPT and be paid. In a task that allows hardware noise its own end may
differ from the claim's, and two roots do not show how far. Queried for a leaf of its end, it cannot show one
inside the limits, and loses its seat. An auditor whose end equals the claim's is never queried: it has
replayed, or was handed the right root by the solver. If it made up one root for both ends, it names a leaf
that the claim does not have, and the solver proves that (`evidence.py`).

Whistleblowers send these queries; if a task has none, verifiers do. Each of them picks votes by a secret of
its own. Together they query about one of SPOT_QUERIES such votes, and `protocol/economics/money_rules.py`
makes stakes large enough for that. They first read the votes from the chain, because auditors hand their
votes only to solvers.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from touchstone.node.kit.view import View
from touchstone.node.records.dispute_records import StatementKey
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.spec.game.assignments import get_late_draw, get_segments
from touchstone.protocol.spec.game.audit_deadlines import get_heard_until
from touchstone.protocol.spec.game.claim_status import (
    get_claim_status,
    get_votes,
    is_draw_over,
    is_statement_decided,
)
from touchstone.protocol.spec.game.dispute_moves import Move, list_moves
from touchstone.protocol.spec.game.drawn_audits import get_place
from touchstone.protocol.spec.game.enums import ClaimStatus, SeatRole, SeatStatus
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerDispute, InnerQuery, QueryEnding
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat, SlotClaim, StatementRef
from touchstone.protocol.spec.game.timing import get_statement_until, is_late_draw
from touchstone.protocol.spec.params import SPOT_QUERIES
from touchstone.protocol.spec.statement_checks import is_vote_complete
from touchstone.protocol.spec.statements import Sealed, Vote, VoteWord


def get_inner(view: View) -> InnerBook:
    """Returns the state inside the disputes and queries of the joined task."""
    return view.chain_state.inner[view.task]


def get_now(view: View) -> GameState:
    """Returns the joined task as a call of the next block finds it. Rounds that are over by then are closed
    in it."""
    book, block = view.cases, view.head_block + 1
    if book.now is None or book.now[0] is not view.game or book.now[1] != block:
        book.now = (view.game, block, get_state_at(view.game, block))
    return book.now[2]


def find_vote(view: View, statement_key: StatementKey) -> KnownVote | None:
    """Returns the vote of a statement key; None for a claim's, and if the vote is not known."""
    votes = view.audits.list_votes(statement_key.ref.round) if statement_key.signature else ()
    return next((one for one in votes if one.signature == statement_key.signature), None)


def sign_form(vote: Vote, signature: bytes) -> dict[str, Any]:
    """Returns a vote and its signature as the contracts take them (`SignedVote`)."""
    return {"vote": vote, "r": signature[:32], "vs": signature[32:]}


def seal_form(said: Sealed, signature: bytes) -> dict[str, Any]:
    """Returns a seal and its signature as the contracts take them (`SignedSealed`)."""
    return {"said": said, "r": signature[:32], "vs": signature[32:]}


def get_question(opened: InnerQuery) -> dict[str, Any]:
    """Returns the fields of a query as `IQueries.Question` has them."""
    return {"vote": opened.vote, "leaf": opened.leaf, "seat": opened.seat, "asker": opened.asker}


def find_claim(state: GameState, index: int, slot: int) -> SlotClaim | None:
    """Returns the claim in a slot, or None."""
    game_round = state.rounds.get(index)
    return None if game_round is None else game_round.claims.get(slot)


def find_solver(state: GameState, index: int, slot: int) -> str | None:
    """Returns the account of a claim's solver, or None if there is no claim. The solver may have no seat any
    more."""
    claim = find_claim(state, index, slot)
    return None if claim is None else claim.account


def find_signer(state: GameState, said: Sealed, auditor: str) -> Seat | None:
    """Returns the seat that answers for what `auditor` has signed, None if the statement is not of this
    chain."""
    game_round, seat = state.rounds.get(said.round), find_seat(state, auditor)
    if game_round is None or seat is None or seat.settled > said.round:
        return None
    role = SeatRole.WHISTLEBLOWER if is_late_draw(state, said.draw) else SeatRole.VERIFIER
    return seat if seat.role == role and is_of_chain(state, game_round, said) else None


def is_of_chain(state: GameState, game_round: GameRound, said: Sealed) -> bool:
    """Returns whether a statement is about the round, claim and seed of the current chain. After a reorg it
    may be about others."""
    claim = game_round.claims.get(said.slot)
    seed = game_round.late_seed if is_late_draw(state, said.draw) else game_round.seed
    if claim is None or seed is None or said.draw > state.terms.draws or said.segment >= claim.segments:
        return False
    expected = (state.terms.domain, game_round.base_root, claim.claim_root, seed)
    return (said.domain, said.base_root, said.claim_root, said.seed) == expected


def find_accused(state: GameState, ref: StatementRef, known: KnownVote | None) -> Seat | None:
    """Returns the seat that answers for a claim, or for a known vote. None if no seat answers for it any
    more."""
    if known is not None:
        is_whole = is_vote_complete(known.vote)
        return find_signer(state, known.vote, known.auditor) if is_whole else None
    claim = find_claim(state, ref.round, ref.slot)
    seat = None if claim is None else state.seats.get(claim.seat)
    return seat if seat is not None and seat.joined <= ref.round and seat.settled <= ref.round else None


def is_counted(state: GameState, known: KnownVote) -> bool:
    """Returns whether this vote is the one that counts on chain for its place."""
    vote = known.vote
    return vote.rank in get_votes(state.rounds[vote.round], vote.slot, vote.draw)


def is_withheld(view: View, known: KnownVote) -> bool:
    """Returns whether the signer of a counted vote withholds its opening. It does if it answered a query
    instead, or if it is too late for an opening. A vote that does not count harms no claim, so it is left
    alone."""
    state = get_now(view)
    if known.opening is not None or not is_counted(state, known):
        return False
    seat, asks = find_accused(state, known.ref, known), get_inner(view).queries.values()
    cleared = [one.seat for one in asks if one.vote == known.vote and one.ending == QueryEnding.CLEARED]
    is_answered = seat is not None and seat.number in cleared
    return is_answered or view.head_block >= get_heard_until(state, get_place(known.vote))


def is_provable(state: GameState, ref: StatementRef, seat: Seat | None, me: str, block: int) -> bool:
    """Returns whether a statement can be proven false in `block`: its seat is open, and another account's."""
    if seat is None or seat.status == SeatStatus.CONVICTED or seat.account == me:
        return False
    return block <= get_statement_until(state, ref)


def is_disputable(state: GameState, ref: StatementRef, seat: Seat | None, me: str, block: int) -> bool:
    """Returns whether a statement can be disputed: once its claim is decided, and a vote's own draw."""
    return is_statement_decided(state, ref, block) and is_provable(state, ref, seat, me, block)


def are_steps_shown(state: GameState, game_round: GameRound, slot: int, segment: int, block: int) -> bool:
    """Returns whether the steps of a segment may be shown before a dispute. They may once no auditor can copy
    from them: the draws of this segment and of the one before it are over. (The claim may have failed by
    another draw.) For undrawn segments, the late draw must be known too, and late audits of these two
    segments be over."""
    if get_claim_status(state, game_round, slot, block) not in (ClaimStatus.ACCEPTED, ClaimStatus.VOID):
        return False
    segments = get_segments(state, game_round, slot)
    draws = [draw for draw, one in enumerate(segments) if one in (segment, segment - 1)]
    if not all(is_draw_over(state, game_round, slot, draw, block) for draw in draws):
        return False
    if segment in segments:
        return True
    late = get_late_draw(state, game_round, slot)
    if late is None or late.segment not in (segment, segment - 1):
        return game_round.late_seed is not None or not state.terms.late_chance
    return block > (game_round.late_from or block) + 2 * state.terms.windows.audit_max


def list_provable_rounds(state: GameState, block: int) -> list[GameRound]:
    """Returns the rounds with a statement, claim or vote, that can still be proven false in `block`."""
    window = state.terms.windows.dispute
    return [one for one in state.rounds.values() if one.claims and _is_recent(one, block - window)]


def _is_recent(game_round: GameRound, since: int) -> bool:
    return game_round.closed is None or max(game_round.closed, game_round.late_from or 0) >= since


def find_spot_leaf(
    game: GameState, account: str, dice: bytes, known: KnownVote, leaf_count: int
) -> int | None:
    """Returns the leaf that `account` asks the signer of a vote for, None if it does not ask. `dice` are 32
    random bytes that `account` keeps secret."""
    opening = known.opening
    if known.vote.word != VoteWord.ACCEPT or opening is None:
        return None
    is_shared = opening.own_end_root == opening.claim_end_root
    is_asked = is_spot(game, account, dice, known.ref) and not is_shared
    return int.from_bytes(_throw(dice, known.ref)[8:16]) % leaf_count if is_asked else None


def is_spot(game: GameState, account: str, dice: bytes, ref: StatementRef) -> bool:
    """Returns whether the secret dice of `account` pick the ACCEPT in this place for a query."""
    askers = count_askers(game, account)
    return askers > 0 and int.from_bytes(_throw(dice, ref)[:8]) % (SPOT_QUERIES * askers) == 0


def list_spot_slots(game: GameState, account: str, dice: bytes, game_round: GameRound) -> Iterator[int]:
    """Yields slots of a round that have a vote `account` may have to query once it has read it."""
    for (slot, draw), votes in game_round.votes.items() if not game.terms.is_exact else ():
        for rank, counted in votes.items():
            ref = StatementRef(game_round.index, slot, draw, rank)
            is_accept = counted.is_opened and counted.word == VoteWord.ACCEPT
            if is_accept and is_spot(game, account, dice, ref):
                yield slot


def _throw(dice: bytes, ref: StatementRef) -> bytes:
    place = (ref.round, ref.slot, ref.draw or 0, ref.rank)
    return hashlib.sha256(dice + b"".join(one.to_bytes(8) for one in place)).digest()


def count_askers(game: GameState, account: str) -> int:
    """Returns how many seats share the random queries; 0 if `account` has none of them."""
    seated = [one for one in game.seats.values() if one.status == SeatStatus.ACTIVE]
    for role in (SeatRole.WHISTLEBLOWER, SeatRole.VERIFIER):
        asking = [one.account for one in seated if one.role == role]
        if asking:
            return len(asking) if account in asking else 0
    return 0


def list_playable(view: View, block: int) -> Iterator[tuple[InnerDispute, tuple[Move, ...]]]:
    """Yields open disputes, with what this node may do in each."""
    for dispute in get_inner(view).disputes.values():
        seat = get_now(view).seats.get(dispute.seat)
        if dispute.is_open and seat is not None:
            is_closed = seat.status == SeatStatus.CONVICTED
            yield dispute, list_moves(dispute, view.account, seat.account, block, is_closed)


def find_claimant(view: View, dispute: InnerDispute) -> str | None:
    """Returns the account of the accused seat."""
    seat = get_now(view).seats.get(dispute.seat)
    return None if seat is None else seat.account
