"""Says whose move it is in a dispute, until when, and how it ends if a party is silent."""

from enum import Enum

from touchstone.protocol.spec.game.inner_dispute import (
    DisputeStage,
    InnerBook,
    InnerDispute,
    InnerQuery,
    QueryEnding,
)
from touchstone.protocol.spec.game.state import StatementRef


class Move(Enum):
    """A move that an account may make in a dispute."""

    POST_ROOTS = "post roots"
    NAME_STEP = "name a step"
    POST_TRACE = "post the trace"
    PROVE = "prove"
    DEMAND = "demand leaves"
    SHOW_LEAVES = "show leaves"
    END = "end"


CLAIMANT_MOVES = {
    DisputeStage.ROOTS: (Move.POST_ROOTS,),
    DisputeStage.TRACE: (Move.POST_TRACE,),
    DisputeStage.LEAVES: (Move.SHOW_LEAVES,),
}
"""Moves of the claimant, by stage; in these stages silence convicts the claimant."""
OPENER_MOVES = {
    DisputeStage.NAME: (Move.NAME_STEP,),
    DisputeStage.PROVE: (Move.PROVE, Move.DEMAND),
    DisputeStage.LEAVES: (Move.PROVE,),
    DisputeStage.LAST: (Move.PROVE,),
}
"""Moves of the opener, by stage. In LEAVES the opener need not wait for the leaves."""
TURNS_LEFT = {
    DisputeStage.ROOTS: 5,
    DisputeStage.NAME: 4,
    DisputeStage.TRACE: 3,
    DisputeStage.PROVE: 2,
    DisputeStage.LEAVES: 1,
    DisputeStage.LAST: 0,
}
"""How many turns, each of `respond` blocks, may follow the present one, by stage."""


def list_moves(
    dispute: InnerDispute, account: str, claimant: str, block: int, is_closed: bool = False
) -> tuple[Move, ...]:
    """Returns the moves of `account` in `block`. `claimant` is the account of the accused seat. `is_closed`
    says that this seat was convicted in another case; then any account may end the dispute."""
    if not dispute.is_open:
        return ()
    if is_closed or block > dispute.clock:
        return (Move.END,)
    moves: tuple[Move, ...] = ()
    if account == claimant:
        moves += CLAIMANT_MOVES.get(dispute.stage, ())
    if account == dispute.opener:
        moves += OPENER_MOVES.get(dispute.stage, ())
    return moves


def find_outcome(dispute: InnerDispute, is_closed: bool = False) -> DisputeStage:
    """Returns the outcome of a dispute whose time is over: the side that was silent at its turn loses."""
    if is_closed:
        return DisputeStage.MOOT
    return DisputeStage.CONVICTED if dispute.stage in CLAIMANT_MOVES else DisputeStage.CLEARED


def compute_last_end(dispute: InnerDispute, respond: int) -> int:
    """Returns the first block from which any account can end the dispute, however it is played."""
    return dispute.clock + respond * TURNS_LEFT.get(dispute.stage, 0) + 1


def is_pursued(
    dispute: InnerDispute, own_step: int | None, until_block: int, margin: int, respond: int
) -> bool:
    """Returns whether another account's dispute makes an own dispute about the same statement needless
    (findings, H1). The other dispute must name the same step. However it is played, it must also end `margin`
    blocks before the last block in which the own one can be opened."""
    is_same = own_step is not None and dispute.step == own_step
    is_in_time = compute_last_end(dispute, respond) + margin <= until_block
    return dispute.is_open and is_same and is_in_time


def list_disputed_segments(book: InnerBook, claim: StatementRef, account: str) -> set[int]:
    """Returns the segments of a claim of `account` whose start the account needs, because the claim is
    disputed there, or because the account disputes a vote there."""
    return {
        one.segment
        for one in book.disputes.values()
        if one.is_open and (one.statement == claim or is_about_own(one, claim, account))
    }


def is_about_own(dispute: InnerDispute, claim: StatementRef, account: str) -> bool:
    """Returns whether `account` has opened a dispute about a vote on its own claim."""
    ref = dispute.statement
    is_vote = ref.draw is not None and (ref.round, ref.slot) == (claim.round, claim.slot)
    return is_vote and dispute.opener == account


def is_answerable(query: InnerQuery, block: int) -> bool:
    """Returns whether an answer can still be given in `block`."""
    return query.ending == QueryEnding.OPEN and block <= query.clock
