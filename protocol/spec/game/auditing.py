"""Whose turn it is to audit what, and until when it waits. Read from the state, in blocks.

    from .. until     the solver is waited for
    until .. votes    the vote is made and handed in: a third of the time, at least

A vote that decides the merge counts until close + audit_max, one that is paid until twice that. A late audit
decides no merge.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from protocol.spec.audit_draw import RANKS
from protocol.spec.game.drawing import get_drawn_seat, get_drawn_segment, list_draws
from protocol.spec.game.enums import OPENED_WORDS, RoundPhase, SeatStatus
from protocol.spec.game.fates import get_votes, is_draw_over, is_taking_unserved
from protocol.spec.game.pools import get_epoch, get_epoch_start
from protocol.spec.game.state import GameRound, GameState, Seat
from protocol.spec.game.timing import (
    compute_draw_window,
    compute_reserve_block,
    get_votes_from,
    is_late_draw,
)
from protocol.spec.statements import Sealed, Vote, VoteWord

VOTE_SHARE = 3
"""One part in so many of the time is left for the vote."""


@dataclass(frozen=True, order=True)
class AuditPlace:
    """Names a rank of a draw of one claim on one chain: what two statements must share to be of one draw."""

    domain: bytes
    round: int
    base_root: bytes
    seed: bytes
    slot: int
    claim_root: bytes
    draw: int
    rank: int


@dataclass(frozen=True)
class DrawnAudit:
    """An audit that the chain asks for: its place, its segment of the claim, and the seat drawn for it."""

    place: AuditPlace
    segment: int
    segments: int
    seat: Seat
    solver: str


def get_place(said: Sealed) -> AuditPlace:
    """What a seal or a vote is of."""
    where = (said.domain, said.round, said.base_root, said.seed)
    return AuditPlace(*where, said.slot, said.claim_root, said.draw, said.rank)


# --- What is drawn ------------------------------------------------------------------------------------------
def get_drawn(state: GameState, index: int, slot: int, draw: int, rank: int) -> DrawnAudit | None:
    """The audit of a rank of a draw as the chain has it now; None where there is none, where the round is
    undone, or where the auditor was convicted. A convicted solver's claim is audited all the same: votes on
    it are paid, and a primary that is silent is missed."""
    game_round = state.rounds.get(index)
    if game_round is None or game_round.phase == RoundPhase.UNDONE or slot not in game_round.claims:
        return None
    number, claim = get_drawn_seat(state, game_round, slot, draw, rank), game_round.claims[slot]
    seat, solver = state.seats.get(number or 0), state.seats.get(claim.seat)
    segment = get_drawn_segment(state, game_round, slot, draw)
    seed = game_round.late_seed if is_late_draw(state, draw) else game_round.seed
    if seat is None or solver is None or segment is None or seed is None:
        return None
    if seat.status == SeatStatus.CLOSED:
        return None
    where = (state.terms.domain, index, game_round.base_root, seed, slot, claim.claim_root, draw, rank)
    return DrawnAudit(AuditPlace(*where), segment, claim.segments, seat, solver.account)


def find_drawn(state: GameState, place: AuditPlace) -> DrawnAudit | None:
    """The audit of a place that is the chain's; None for any other."""
    drawn = get_drawn(state, place.round, place.slot, place.draw, place.rank)
    return drawn if drawn is not None and drawn.place == place else None


def list_drawn(state: GameState, account: str, block: int) -> Iterator[DrawnAudit]:
    """The audits of one account in rounds of which votes still count at `block`."""
    for index in list_heard(state, block - 2 * state.terms.windows.audit_max):
        game_round = state.rounds[index]
        for slot, draw in list_draws(state, game_round):
            for rank in range(RANKS):
                drawn = get_drawn(state, index, slot, draw, rank)
                if drawn is not None and drawn.seat.account == account:
                    yield drawn


def list_heard(state: GameState, from_block: int) -> Iterator[int]:
    """Rounds that closed, or whose late audits were drawn, at `from_block` or later."""
    for index, game_round in state.rounds.items():
        if max(game_round.closed or 0, game_round.late_from or 0) >= from_block:
            yield index


# --- When it is due -----------------------------------------------------------------------------------------
def get_due_block(state: GameState, place: AuditPlace) -> int:
    """The first block in which a rank may vote. A reserve: once the primary has counted with another word
    than ACCEPT, or after a third of audit_max."""
    start = _get_start(state, place)
    votes = get_votes(state.rounds[place.round], place.slot, place.draw)
    reserves = compute_reserve_block(state, start)
    if place.rank == 0:
        return min(compute_draw_window(state, start)[0], reserves)
    return min(reserves, votes[0].block) if 0 in votes else reserves


def is_wanted(state: GameState, place: AuditPlace, block: int) -> bool:
    """Whether a vote of this place could still count at `block`."""
    game_round = state.rounds[place.round]
    if place.rank in get_votes(game_round, place.slot, place.draw):
        return False
    if block > _get_start(state, place) + 2 * state.terms.windows.audit_max:
        return False
    return not is_draw_over(state, game_round, place.slot, place.draw, block) or is_only_unserved(
        state, place, block
    )


def is_only_unserved(state: GameState, place: AuditPlace, block: int) -> bool:
    """Whether nothing but an UNSERVED counts in the draw, and one that counts now is the second: without it a
    solver that serves nobody keeps its fee."""
    game_round = state.rounds[place.round]
    if not is_taking_unserved(state, game_round, place.slot, place.draw, block):
        return False
    votes = get_votes(game_round, place.slot, place.draw)
    return sum(vote.word == VoteWord.UNSERVED for vote in votes.values()) == 1


def compute_serving_until(state: GameState, place: AuditPlace, block: int) -> int:
    """Until which block the solver is waited for, by an auditor that looks in `block`: a third of the time
    from when it was due is left for the vote."""
    audit_max, start = state.terms.windows.audit_max, _get_start(state, place)
    is_merging = not is_late_draw(state, place.draw) and block <= start + audit_max
    last, due = start + (1 if is_merging else 2) * audit_max, get_due_block(state, place)
    return last - max(0, last - due) // VOTE_SHARE


def compute_ends_until(state: GameState, place: AuditPlace, sealed_block: int) -> int:
    """The same for what follows the seal: a replay that ended late still gives the solver a third of what is
    left."""
    last = _get_start(state, place) + 2 * state.terms.windows.audit_max
    usual = compute_serving_until(state, place, sealed_block)
    return max(usual, sealed_block + max(0, last - sealed_block) // VOTE_SHARE)


def get_heard_until(state: GameState, place: AuditPlace) -> int:
    """The last block in which an opening of this place is paid: later nobody needs to hear of it."""
    return _get_start(state, place) + 3 * state.terms.windows.audit_max


# --- Openings -----------------------------------------------------------------------------------------------
def may_open(state: GameState, vote: Vote, block: int) -> bool:
    """Whether an auditor shows what stands behind its vote: once its draw is decided on chain, or with a
    primary's ACCEPT, which decides it. Earlier it would give reserves something to copy."""
    if vote.word not in OPENED_WORDS:
        return False
    is_deciding = vote.rank == 0 and vote.word == VoteWord.ACCEPT
    return is_deciding or is_draw_over(state, state.rounds[vote.round], vote.slot, vote.draw, block)


# --- The claim before it ------------------------------------------------------------------------------------
def find_last_merged(state: GameState, place: AuditPlace) -> tuple[int, int] | None:
    """(round, slot) of the solver's last merged claim before this one in the same epoch: what its moments
    carry over from. None where there is none. Raises KeyError where a round that may be it is forgotten.
    Twin: `Evidence._lastMerged`."""
    number = state.rounds[place.round].claims[place.slot].seat
    first = max(state.seats[number].joined, get_epoch_start(get_epoch(place.round)))
    for index in range(place.round - 1, first - 1, -1):
        before: GameRound = state.rounds[index]
        if before.phase == RoundPhase.POSTED and number in before.pool.solvers:
            slot = before.pool.solvers.index(number)
            if slot in before.merged:
                return index, slot
    return None


def _get_start(state: GameState, place: AuditPlace) -> int:
    """The close from which the windows of a drawn audit count."""
    start = get_votes_from(state, state.rounds[place.round], place.draw)
    assert start is not None, "only of a draw that is sealed"
    return start
