"""Whose turn it is to audit what, how long it waits, and when it says ABSTAIN instead of UNSERVED.

All of it is read from the state, in blocks.

    from .. until     the solver is waited for
    until .. votes    the vote is made and handed in: a third of the time, at least

A vote that decides the merge counts until close + audit_max, one that is paid until twice that. A late audit
decides no merge.

Truthful UNSERVED votes can cost an auditor fees. Beyond a share of its stake it says ABSTAIN instead. A draw
in which two auditors say UNSERVED costs the solver the fee F, and each of these auditors as well. Fees are
taken at settlement, long after the vote, for sixteen rounds at once. Until then the stake does not show them,
so a node counts what it owes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.assignments import (
    get_draw_role,
    get_drawn_seat,
    get_drawn_segment,
    get_late_draw,
    get_segments,
    list_draws,
)
from touchstone.protocol.spec.game.claim_status import (
    get_votes,
    is_draw_over,
    is_taking_unserved,
    is_unserved,
)
from touchstone.protocol.spec.game.enums import OPENED_WORDS, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start
from touchstone.protocol.spec.game.pools import get_stake
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat
from touchstone.protocol.spec.game.terms import (
    ANSWERS_MAX,
    EPOCH_ROUNDS,
    RING_ROUNDS,
    GameTerms,
    compute_duty_blocks,
)
from touchstone.protocol.spec.game.timing import (
    compute_draw_window,
    compute_reserve_block,
    get_votes_from,
    is_late_draw,
    list_late_missing,
)
from touchstone.protocol.spec.statements import Sealed, Vote, VoteWord

COMPARED_ENDS = frozenset({VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA})
"""Words after which both ends were compared."""
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
    """The account that made the claim. Its seat may be gone."""


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
    if game_round is None or game_round.phase == RoundPhase.UNDONE:
        return None
    return get_ever_drawn(state, index, slot, draw, rank)


def get_ever_drawn(state: GameState, index: int, slot: int, draw: int, rank: int) -> DrawnAudit | None:
    """The audit of a rank of a draw, as `get_drawn` gives it, but also in a round that is undone. Nothing is
    audited there any more, but what was said is answered for: votes are read, and auditors shown steps."""
    game_round = state.rounds.get(index)
    if game_round is None or slot not in game_round.claims:
        return None
    number, claim = get_drawn_seat(state, game_round, slot, draw, rank), game_round.claims[slot]
    seat, segment = state.seats.get(number or 0), get_drawn_segment(state, game_round, slot, draw)
    seed = game_round.late_seed if is_late_draw(state, draw) else game_round.seed
    if seat is None or seat.status == SeatStatus.CLOSED or segment is None or seed is None:
        return None
    claimed = (game_round.base_root, seed, slot, claim.claim_root)
    place = AuditPlace(state.terms.domain, game_round.index, *claimed, draw, rank)
    return DrawnAudit(place, segment, claim.segments, seat, claim.account)


def find_drawn(state: GameState, place: AuditPlace) -> DrawnAudit | None:
    """The audit of a place that is the chain's; None for any other."""
    drawn = get_drawn(state, place.round, place.slot, place.draw, place.rank)
    return drawn if drawn is not None and drawn.place == place else None


def find_stated(state: GameState, place: AuditPlace) -> DrawnAudit | None:
    """The audit that a seal or a vote is of. Unlike `find_drawn`, also in a round that is undone: what an
    auditor said there can still be asked about and disputed, and it answers."""
    stated = get_ever_drawn(state, place.round, place.slot, place.draw, place.rank)
    return stated if stated is not None and stated.place == place else None


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
    """Whether only an UNSERVED can still count in the draw, and the next one would be the second. Without a
    second one, a solver that serves no auditor pays no fee."""
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
    """The last block in which an opening of this place is paid. After it no node needs to hear of it."""
    return _get_start(state, place) + 3 * state.terms.windows.audit_max


# --- Openings -----------------------------------------------------------------------------------------------
def may_open(state: GameState, vote: Vote, block: int) -> bool:
    """Whether an auditor shows what stands behind its vote: once its draw is decided on chain, or with a
    primary's ACCEPT, which decides it. Earlier it would give reserves something to copy."""
    if vote.word not in OPENED_WORDS:
        return False
    is_deciding = vote.rank == 0 and vote.word == VoteWord.ACCEPT
    return is_deciding or is_draw_over(state, state.rounds[vote.round], vote.slot, vote.draw, block)


# --- What every account may read ----------------------------------------------------------------------------
REORG_BLOCKS = 16
"""A chain may take back its last blocks. So a window counts as open for so many blocks more, wherever a node
gives something away, or deletes it, once no window is open any more."""


def is_boundary_public(state: GameState, game_round: GameRound, slot: int, boundary: int, block: int) -> bool:
    """Whether any account may read a boundary of a claim in `block`: its round has a root, and of the segment
    that ends there no vote counts any more, and none will. Who could read it earlier could seal it as its own
    end. The slot may be one without a claim."""
    claim, closed, audit_max = game_round.claims.get(slot), game_round.closed, state.terms.windows.audit_max
    is_there = claim is not None and 0 <= boundary <= claim.segments
    if not is_there or closed is None or game_round.phase != RoundPhase.POSTED:
        return False
    until, ended, late_from = closed + 2 * audit_max, boundary - 1, game_round.late_from
    if boundary > 0 and ended not in get_segments(state, game_round, slot):
        if any(one.index == game_round.index for one in list_late_missing(state, block - REORG_BLOCKS)):
            return False
        if late_from is not None:
            # From here on the late draw is known. In place of the block that decided it another may come.
            until = max(until, compute_draw_window(state, late_from)[0])
        late = get_late_draw(state, game_round, slot)
        if late is not None and late.segment == ended:
            until = max(until, (late_from or 0) + 2 * audit_max)
    return block > until + REORG_BLOCKS


def is_segment_public(state: GameState, game_round: GameRound, slot: int, segment: int, block: int) -> bool:
    """Whether any account may read both ends of a segment of a claim. Its start is the end of the segment
    before."""
    return all(is_boundary_public(state, game_round, slot, one, block) for one in (segment, segment + 1))


# --- The claim before it ------------------------------------------------------------------------------------
def find_last_merged(state: GameState, place: AuditPlace) -> tuple[int, int] | None:
    """(round, slot) of the solver's last merged claim before this one in the same epoch: what its moments
    carry over from. None where there is none. Raises KeyError where a round that may be it is forgotten.
    Twin: `Evidence._lastMerged`."""
    claim = state.rounds[place.round].claims[place.slot]
    number, first = claim.seat, max(claim.joined, get_epoch_start(get_epoch(place.round)))
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


UNSERVED_DIVISOR = 2
"""A node risks at most one part in so many of its stake for saying the truth."""
ROUNDS_AHEAD = 2
"""Pools of so many rounds are frozen before a settlement can take a seat out of them."""
VotePlace = tuple[int, int, int]
"""(round, slot, draw)."""


# --- How many draws a seat can have -------------------------------------------------------------------------
def count_round_draws(terms: GameTerms, role: SeatRole) -> int:
    """The most draws of a round in which one seat is primary or reserve, in any pool that can play: draws
    take the places round and round, each rank by itself."""
    if role == SeatRole.SOLVER or (role == SeatRole.WHISTLEBLOWER and not terms.late_chance):
        return 0
    if role == SeatRole.VERIFIER:
        return RANKS * -(-terms.draws * terms.solver_seats // terms.least_verifiers)
    return RANKS * -(-terms.solver_seats // terms.least_whistleblowers)


def compute_settling_blocks(terms: GameTerms, round_blocks: int) -> int:
    """Blocks from the close of a round until a seat can settle it, at the latest: `get_duty_until` with late
    audits a round later, and then a dispute that is opened in its last block. Its own owner may open it."""
    duty = round_blocks + compute_duty_blocks(terms.windows)
    return duty + 2 * ANSWERS_MAX * terms.windows.respond


def count_pending_rounds(terms: GameTerms, round_blocks: int) -> int:
    """The most rounds whose fees a seat owes at once: an epoch, which it settles as a whole, the rounds that
    close before the last of it settles, and those whose pools are frozen by then. Where no contest is open,
    and rounds take `round_blocks`. Never more than the ring has places for."""
    later = compute_settling_blocks(terms, round_blocks) // round_blocks
    return min(RING_ROUNDS, EPOCH_ROUNDS + later + ROUNDS_AHEAD)


def count_pending_draws(terms: GameTerms, role: SeatRole, round_blocks: int) -> int:
    """The most draws of one seat before the fees of the first are taken."""
    return count_round_draws(terms, role) * count_pending_rounds(terms, round_blocks)


# --- What a node asks before it votes -----------------------------------------------------------------------
def compute_owed_fees(state: GameState, number: int, block: int, signed: Collection[VotePlace] = ()) -> int:
    """Wei that the UNSERVED votes of a seat can still cost it. `signed`: draws whose UNSERVED vote it has
    signed and the chain may not have counted yet."""
    counted = {
        (index, slot, draw)
        for index, game_round in state.rounds.items()
        for (slot, draw), votes in game_round.votes.items()
        for rank, vote in votes.items()
        if vote.word == VoteWord.UNSERVED and get_drawn_seat(state, game_round, slot, draw, rank) == number
    }
    owed = sum(_may_cost(state, number, place, block) for place in counted | set(signed))
    return owed * state.terms.amounts.unserved_fee


def _may_cost(state: GameState, number: int, place: VotePlace, block: int) -> bool:
    """Whether an UNSERVED vote costs its seat the fee, or still may: two say so, or another such vote counts
    yet."""
    index, slot, draw = place
    game_round = state.rounds.get(index)
    if game_round is None or index < state.seats[number].settled:
        return False
    is_over = is_draw_over(state, game_round, slot, draw, block)
    is_taking = not is_over or is_taking_unserved(state, game_round, slot, draw, block)
    if is_taking and game_round.phase != RoundPhase.UNDONE:
        return True
    votes = get_votes(game_round, slot, draw)
    is_counted = any(
        vote.word == VoteWord.UNSERVED and get_drawn_seat(state, game_round, slot, draw, rank) == number
        for rank, vote in votes.items()
    )
    return is_counted and is_unserved(votes)


def may_say_unserved(
    state: GameState, number: int, place: VotePlace, block: int, signed: Collection[VotePlace] = ()
) -> bool:
    """Whether a node votes UNSERVED on a draw that was not served to it. Otherwise it says ABSTAIN, which is
    free.

    Never where two auditors have said UNSERVED: a third such vote would only cost its own seat. And never
    where all that its votes can cost, this one included, is more than its stake / UNSERVED_DIVISOR. So
    solvers that serve no auditor cannot take more of an honest stake, however long fees stay unsettled."""
    seat = state.seats.get(number)
    game_round: GameRound | None = state.rounds.get(place[0])
    if seat is None or game_round is None or seat.status == SeatStatus.CLOSED:
        return False
    if seat.role != get_draw_role(state, place[2]) or is_unserved(get_votes(game_round, *place[1:])):
        return False
    owed = compute_owed_fees(state, number, block, {*signed, place})
    return owed <= get_stake(state, number) // UNSERVED_DIVISOR
