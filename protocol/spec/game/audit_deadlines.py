"""Says when an audit is due: how long the auditor waits for the solver, and when votes and openings count.

All of it is read from the state, in blocks.

    from .. until     the auditor waits for the solver
    until .. votes    the auditor votes, and the vote is handed in: at least a third of the time

A vote counts for the merge until close + audit_max, and for pay until twice that. A late audit does not
decide about the merge.
"""

from touchstone.protocol.spec.game.claim_status import get_votes, is_draw_over, is_taking_unserved
from touchstone.protocol.spec.game.drawn_audits import AuditPlace
from touchstone.protocol.spec.game.enums import OPENED_WORDS
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.timing import (
    compute_draw_window,
    compute_reserve_block,
    get_votes_from,
    is_late_draw,
)
from touchstone.protocol.spec.statements import Vote, VoteWord

PENDING_BLOCKS = 2
"""The blocks that a call with an opening may wait until it is mined."""
VOTE_SHARE = 3
"""One part in VOTE_SHARE of the time is reserved for the vote."""


def get_due_block(state: GameState, place: AuditPlace) -> int:
    """Returns the first block in which a rank may vote. A reserve may vote once the primary's vote has
    counted and is not ACCEPT, or after a third of audit_max."""
    start = get_start(state, place)
    votes = get_votes(state.rounds[place.round], place.slot, place.draw)
    reserves = compute_reserve_block(state, start)
    if place.rank == 0:
        return min(compute_draw_window(state, start)[0], reserves)
    return min(reserves, votes[0].block) if 0 in votes else reserves


def is_wanted(state: GameState, place: AuditPlace, block: int) -> bool:
    """Returns whether a vote for this place could still count at `block`."""
    game_round = state.rounds[place.round]
    if place.rank in get_votes(game_round, place.slot, place.draw):
        return False
    if block > get_start(state, place) + 2 * state.terms.windows.audit_max:
        return False
    return not is_draw_over(state, game_round, place.slot, place.draw, block) or is_only_unserved(
        state, place, block
    )


def is_only_unserved(state: GameState, place: AuditPlace, block: int) -> bool:
    """Returns whether only an UNSERVED vote can still count in the draw, as the second one. Without a second
    one, a solver that serves no auditor pays no fee."""
    game_round = state.rounds[place.round]
    if not is_taking_unserved(state, game_round, place.slot, place.draw, block):
        return False
    votes = get_votes(game_round, place.slot, place.draw)
    return sum(vote.word == VoteWord.UNSERVED for vote in votes.values()) == 1


def compute_serving_until(state: GameState, place: AuditPlace, block: int) -> int:
    """Returns the block until which an auditor waits for the solver's data, as of `block`. A third of the
    time since the audit was due is reserved for the vote."""
    audit_max, start = state.terms.windows.audit_max, get_start(state, place)
    is_merging = not is_late_draw(state, place.draw) and block <= start + audit_max
    last, due = start + (1 if is_merging else 2) * audit_max, get_due_block(state, place)
    return last - max(0, last - due) // VOTE_SHARE


def compute_ends_until(state: GameState, place: AuditPlace, committed_block: int) -> int:
    """Returns the block until which an auditor that has sealed waits for the solver to show its end. If the
    replay ended late, the solver still gets a third of the remaining time."""
    last = get_start(state, place) + 2 * state.terms.windows.audit_max
    usual = compute_serving_until(state, place, committed_block)
    return max(usual, committed_block + max(0, last - committed_block) // VOTE_SHARE)


def get_heard_until(state: GameState, place: AuditPlace) -> int:
    """Returns the last block in which an opening of this place is paid. After that block no node needs to
    accept an opening."""
    return get_start(state, place) + 3 * state.terms.windows.audit_max


def may_open(state: GameState, vote: Vote, block: int) -> bool:
    """Returns whether an opening may be shown in a call for `block`. It may once the draw is decided on
    chain, because reserves could copy an earlier one. A primary's ACCEPT decides its draw, so its opening may
    come with it while no vote of a reserve could count before a call that waits for some blocks."""
    game_round = state.rounds[vote.round]
    start = get_votes_from(state, game_round, vote.draw)
    if vote.word not in OPENED_WORDS or start is None:
        return False
    is_deciding = vote.rank == 0 and vote.word == VoteWord.ACCEPT
    is_first = block + PENDING_BLOCKS < compute_reserve_block(state, start)
    return is_deciding and is_first or is_draw_over(state, game_round, vote.slot, vote.draw, block)


def get_start(state: GameState, place: AuditPlace) -> int:
    """Returns the block of the close from which the deadlines of a drawn audit count."""
    start = get_votes_from(state, state.rounds[place.round], place.draw)
    assert start is not None, "the draw is not recorded"
    return start
