"""Derives the status of draws and claims from counted votes, which decide merging and pay, never a stake."""

from collections.abc import Mapping

from touchstone.protocol.spec.game.assignments import count_claim_draws, get_drawn_seat, get_drawn_segment
from touchstone.protocol.spec.game.enums import REJECT_WORDS, ClaimStatus, DrawStatus
from touchstone.protocol.spec.game.pools import is_convicted
from touchstone.protocol.spec.game.state import CountedVote, GameRound, GameState, StatementRef
from touchstone.protocol.spec.game.timing import get_votes_from, is_draw_missed, is_late_draw
from touchstone.protocol.spec.statements import VoteWord

NO_VOTES: Mapping[int, CountedVote] = {}


def get_votes(game_round: GameRound, slot: int, draw: int) -> Mapping[int, CountedVote]:
    """Returns the counted votes of a draw by rank, in the order in which they counted."""
    return game_round.votes.get((slot, draw), NO_VOTES)


def compute_draw_status(votes: Mapping[int, CountedVote]) -> DrawStatus:
    """Returns the status of a draw. It is ACCEPTED once the primary, or both reserves, vote ACCEPT, and
    FAILED once that has become impossible."""
    accepts = {rank: vote.word == VoteWord.ACCEPT for rank, vote in votes.items()}
    if accepts.get(0) or (accepts.get(1) and accepts.get(2)):
        return DrawStatus.ACCEPTED
    is_primary_against = accepts.get(0) is False
    is_reserve_against = accepts.get(1) is False or accepts.get(2) is False
    return DrawStatus.FAILED if is_primary_against and is_reserve_against else DrawStatus.UNDECIDED


def is_unserved(votes: Mapping[int, CountedVote]) -> bool:
    """Returns whether two of a draw's three auditors voted UNSERVED."""
    return sum(vote.word == VoteWord.UNSERVED for vote in votes.values()) >= 2


def count_unserved(game_round: GameRound, slot: int) -> int:
    """Returns the number of draws of a claim in which two auditors voted UNSERVED; each costs the solver a
    fee."""
    return sum(is_unserved(votes) for place, votes in game_round.votes.items() if place[0] == slot)


def is_rejected_late(votes: Mapping[int, CountedVote]) -> bool:
    """Returns whether a late audit takes a claim's pay. It does if the late draw has failed, and two auditors
    say that the claim is false or was not served. An auditor that abstains does not count against it."""
    against = sum(vote.word in REJECT_WORDS or vote.word == VoteWord.UNSERVED for vote in votes.values())
    return against >= 2 and compute_draw_status(votes) == DrawStatus.FAILED


def get_decided_block(votes: Mapping[int, CountedVote]) -> int:
    """Returns the block in which an accepted draw was decided. No vote counts after that. (In a failed draw
    an UNSERVED still does.)"""
    return max(vote.block for vote in votes.values())


def get_accepted_block(state: GameState, game_round: GameRound, slot: int) -> int | None:
    """Returns the block by which votes had accepted all draws of a claim; None if they have not."""
    if game_round.seed is None:
        return None
    all_votes = [get_votes(game_round, slot, d) for d in range(count_claim_draws(state, game_round, slot))]
    if any(compute_draw_status(votes) != DrawStatus.ACCEPTED for votes in all_votes):
        return None
    return max(get_decided_block(votes) for votes in all_votes)


def get_claim_status(state: GameState, game_round: GameRound, slot: int, block: int) -> ClaimStatus:
    """Returns the status of a claim of a round at `block`. Raises KeyError if the slot has not committed."""
    claim, closed = game_round.claims[slot], game_round.closed
    if claim.is_void or claim.is_convicted or is_draw_missed(state, game_round, block):
        return ClaimStatus.VOID
    if closed is None:
        return ClaimStatus.UNDECIDED
    draws = range(count_claim_draws(state, game_round, slot))
    if any(compute_draw_status(get_votes(game_round, slot, d)) == DrawStatus.FAILED for d in draws):
        return ClaimStatus.VOID
    if get_accepted_block(state, game_round, slot) is not None:
        return ClaimStatus.ACCEPTED
    audit_max = state.terms.windows.audit_max
    if block > closed + 2 * audit_max:
        return ClaimStatus.VOID
    return ClaimStatus.LATE_UNDECIDED if block > closed + audit_max else ClaimStatus.UNDECIDED


def has_undecided(state: GameState, game_round: GameRound, block: int) -> bool:
    """Returns whether the votes on a claim of the round are still open, with time left for the merge."""
    statuses = (get_claim_status(state, game_round, slot, block) for slot in game_round.claims)
    return any(status == ClaimStatus.UNDECIDED for status in statuses)


def list_mergeable(state: GameState, game_round: GameRound, block: int) -> tuple[int, ...]:
    """Returns the slots of claims that may be merged: accepted by close + audit_max, of seats that are not
    convicted. A convicted seat cannot be accused again, so nobody could show that a claim of it is false."""
    closed, merged = game_round.closed, []
    for slot in sorted(game_round.claims):
        accepted = get_accepted_block(state, game_round, slot)
        is_accepted = get_claim_status(state, game_round, slot, block) == ClaimStatus.ACCEPTED
        in_time = closed is not None and (accepted or 0) <= closed + state.terms.windows.audit_max
        if is_accepted and in_time and not is_convicted(state, game_round.claims[slot].seat):
            merged.append(slot)
    return tuple(merged)


def is_draw_over(state: GameState, game_round: GameRound, slot: int, draw: int, block: int) -> bool:
    """Returns whether a draw is decided, or its time is over. Then no vote counts any more, except an
    UNSERVED in a failed draw (`is_taking_unserved`)."""
    start = get_votes_from(state, game_round, draw)
    if start is None or get_drawn_segment(state, game_round, slot, draw) is None:
        return False
    is_decided = compute_draw_status(get_votes(game_round, slot, draw)) != DrawStatus.UNDECIDED
    return is_decided or block > start + 2 * state.terms.windows.audit_max


def is_statement_decided(state: GameState, ref: StatementRef, block: int) -> bool:
    """Returns whether a claim is accepted or void and, for a vote, its own draw is decided or out of time.
    Earlier a reserve could copy what the accused auditor has to show in a dispute."""
    game_round = state.rounds[ref.round]
    status = get_claim_status(state, game_round, ref.slot, block)
    if status not in (ClaimStatus.ACCEPTED, ClaimStatus.VOID):
        return False
    if ref.draw is None:
        return True
    start = get_votes_from(state, game_round, ref.draw)
    is_decided = compute_draw_status(get_votes(game_round, ref.slot, ref.draw)) != DrawStatus.UNDECIDED
    return is_decided or (start is not None and block > start + 2 * state.terms.windows.audit_max)


def is_taking_unserved(state: GameState, game_round: GameRound, slot: int, draw: int, block: int) -> bool:
    """Returns whether an UNSERVED counts in a failed draw: it does until the draw's time is over. Otherwise a
    solver that serves no auditor could save the fee if it owned a reserve that abstains first."""
    start = get_votes_from(state, game_round, draw)
    has_failed = compute_draw_status(get_votes(game_round, slot, draw)) == DrawStatus.FAILED
    return has_failed and start is not None and block <= start + 2 * state.terms.windows.audit_max


def is_withdrawn(state: GameState, number: int, ref: StatementRef, block: int) -> bool:
    """Returns whether a statement of a seat is a counted REJECT of a late draw that is not decided. In a
    primary draw a REJECT stays: without it the draw of two liars, convicted one after the other, would never
    fail, and their slashes would restore nothing."""
    if ref.draw is None or not is_late_draw(state, ref.draw) or not is_open_reject(state, ref, block):
        return False
    return get_drawn_seat(state, state.rounds[ref.round], ref.slot, ref.draw, ref.rank) == number


def is_open_reject(state: GameState, ref: StatementRef, block: int) -> bool:
    """Returns whether a statement is a counted REJECT, and its draw is not decided yet."""
    game_round = state.rounds[ref.round]
    if ref.draw is None or ref.slot not in game_round.claims:
        return False
    vote = get_votes(game_round, ref.slot, ref.draw).get(ref.rank)
    is_reject = vote is not None and vote.word in REJECT_WORDS
    return is_reject and not is_draw_over(state, game_round, ref.slot, ref.draw, block)
