"""Which seats sit in a round, who audits what, and what counted votes make of a claim.

Who audits what, from the seeds in the state. The draws themselves are `protocol/spec/audit_draws.py`.

Votes decide merging and pay, never a stake.

Pools: which seats sit in a round. A pool is frozen before the seed that deals the round is known.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import lru_cache

from touchstone.protocol.spec.audit_draws import (
    RANKS,
    VERIFIER_POOL,
    WHISTLEBLOWER_POOL,
    LateDraw,
    compute_permutation,
    count_draws,
    count_places,
    draw_circle_segments,
    draw_late,
    get_auditor_places,
)
from touchstone.protocol.spec.game.enums import REJECT_WORDS, ClaimFate, DrawFate, SeatRole, SeatStatus
from touchstone.protocol.spec.game.purse import stake_of
from touchstone.protocol.spec.game.state import CountedVote, DrawPlace, GameRound, GameState, Pool, Seat
from touchstone.protocol.spec.game.terms import EPOCH_ROUNDS, RING_ROUNDS
from touchstone.protocol.spec.game.timing import get_votes_from, is_late_draw, is_unsealed
from touchstone.protocol.spec.statements import VoteWord

# --- Draws, votes and fates ---------------------------------------------------------------------------------
_permute = lru_cache(maxsize=256)(compute_permutation)
_draw_segments = lru_cache(maxsize=1 << 14)(draw_circle_segments)
_draw_late = lru_cache(maxsize=1 << 14)(draw_late)


def get_segments(state: GameState, game_round: GameRound, slot: int) -> tuple[int, ...]:
    """The drawn segments of a claim in the order of its draws; empty before the draw is sealed."""
    claim = game_round.claims.get(slot)
    if claim is None or game_round.seed is None:
        return ()
    return _draw_segments(game_round.seed, slot, state.terms.draws, claim.segments)


def get_late_draw(state: GameState, game_round: GameRound, slot: int) -> LateDraw | None:
    """The late audit of a claim, None where there is none (yet)."""
    claim, pool = game_round.claims.get(slot), game_round.pool.whistleblowers
    if claim is None or game_round.late_seed is None or slot not in game_round.late_slots:
        return None
    if len(pool) < RANKS:
        return None
    segments = get_segments(state, game_round, slot)
    chance, slots = state.terms.late_chance, len(game_round.pool.solvers)
    return _draw_late(game_round.late_seed, slot, chance, segments, claim.segments, len(pool), slots)


def list_draws(state: GameState, game_round: GameRound) -> tuple[DrawPlace, ...]:
    """Every (slot, draw) of a round that is drawn, late ones last of their claim."""
    places: list[DrawPlace] = []
    for slot in sorted(game_round.claims):
        places += [(slot, draw) for draw in range(len(get_segments(state, game_round, slot)))]
        if get_late_draw(state, game_round, slot) is not None:
            places.append((slot, state.terms.draws))
    return tuple(places)


def get_drawn_segment(state: GameState, game_round: GameRound, slot: int, draw: int) -> int | None:
    """The segment of a draw, None where there is no such draw."""
    if is_late_draw(state, draw):
        late = get_late_draw(state, game_round, slot)
        return None if late is None else late.segment
    segments = get_segments(state, game_round, slot)
    return segments[draw] if 0 <= draw < len(segments) else None


def get_drawn_seat(state: GameState, game_round: GameRound, slot: int, draw: int, rank: int) -> int | None:
    """The seat that is drawn for a rank of a draw, None where there is no such draw."""
    if not 0 <= rank < RANKS or get_drawn_segment(state, game_round, slot, draw) is None:
        return None
    slots = len(game_round.pool.solvers)
    late = get_late_draw(state, game_round, slot) if is_late_draw(state, draw) else None
    if late is not None and game_round.late_seed is not None:
        pool = game_round.pool.whistleblowers
        return _get_placed(pool, game_round.late_seed, WHISTLEBLOWER_POOL, slots, late.places[rank])
    pool, draws = game_round.pool.verifiers, state.terms.draws
    places = get_auditor_places(len(pool), slot, draw, draws, slots)
    return _get_placed(pool, game_round.seed or b"", VERIFIER_POOL, draws * slots, places[rank])


def _get_placed(pool: tuple[int, ...], seed: bytes, role_tag: str, draws: int, place: int) -> int:
    """The seat at a place of a pool's permutation, which is dealt as far as the round's draws reach."""
    return pool[_permute(seed, role_tag, len(pool), count_places(len(pool), draws))[place]]


def get_draw_role(state: GameState, draw: int) -> SeatRole:
    """Which role audits a draw."""
    return SeatRole.WHISTLEBLOWER if is_late_draw(state, draw) else SeatRole.VERIFIER


def count_claim_draws(state: GameState, game_round: GameRound, slot: int) -> int:
    """How many draws decide a claim."""
    return count_draws(state.terms.draws, game_round.claims[slot].segments)


NO_VOTES: Mapping[int, CountedVote] = {}


def get_votes(game_round: GameRound, slot: int, draw: int) -> Mapping[int, CountedVote]:
    """The counted votes of a draw by rank, in the order in which they counted."""
    return game_round.votes.get((slot, draw), NO_VOTES)


def compute_draw_fate(votes: Mapping[int, CountedVote]) -> DrawFate:
    """ACCEPTED: the primary, or both reserves, say ACCEPT. FAILED: that has become impossible."""
    accepts = {rank: vote.word == VoteWord.ACCEPT for rank, vote in votes.items()}
    if accepts.get(0) or (accepts.get(1) and accepts.get(2)):
        return DrawFate.ACCEPTED
    is_primary_against = accepts.get(0) is False
    is_reserve_against = accepts.get(1) is False or accepts.get(2) is False
    return DrawFate.FAILED if is_primary_against and is_reserve_against else DrawFate.UNDECIDED


def is_unserved(votes: Mapping[int, CountedVote]) -> bool:
    """Whether two of three auditors counted with UNSERVED."""
    return sum(vote.word == VoteWord.UNSERVED for vote in votes.values()) >= 2


def count_unserved(game_round: GameRound, slot: int) -> int:
    """Draws of a claim in which two auditors said UNSERVED; each costs the solver a fee."""
    return sum(is_unserved(votes) for place, votes in game_round.votes.items() if place[0] == slot)


def is_rejected_late(votes: Mapping[int, CountedVote]) -> bool:
    """Whether a late audit takes a claim's pay: it has failed, and two say that the claim is false or was not
    served. Who abstains says nothing against it."""
    against = sum(vote.word in REJECT_WORDS or vote.word == VoteWord.UNSERVED for vote in votes.values())
    return against >= 2 and compute_draw_fate(votes) == DrawFate.FAILED


def get_decided_block(votes: Mapping[int, CountedVote]) -> int:
    """In which block an accepted draw was decided: no vote counts after the one that decides. (In a failed
    one an UNSERVED still does.)"""
    return max(vote.block for vote in votes.values())


def get_accepted_block(state: GameState, game_round: GameRound, slot: int) -> int | None:
    """In which block the votes had accepted a claim, None where they have not."""
    if game_round.seed is None:
        return None
    all_votes = [get_votes(game_round, slot, d) for d in range(count_claim_draws(state, game_round, slot))]
    if any(compute_draw_fate(votes) != DrawFate.ACCEPTED for votes in all_votes):
        return None
    return max(get_decided_block(votes) for votes in all_votes)


def get_claim_fate(state: GameState, game_round: GameRound, slot: int, block: int) -> ClaimFate:
    """What a claim of a round is at `block`. Raises KeyError where the slot has not committed."""
    claim, closed = game_round.claims[slot], game_round.closed
    if claim.is_void or claim.is_convicted or is_unsealed(state, game_round, block):
        return ClaimFate.VOID
    if closed is None:
        return ClaimFate.UNDECIDED
    draws = range(count_claim_draws(state, game_round, slot))
    if any(compute_draw_fate(get_votes(game_round, slot, d)) == DrawFate.FAILED for d in draws):
        return ClaimFate.VOID
    if get_accepted_block(state, game_round, slot) is not None:
        return ClaimFate.ACCEPTED
    audit_max = state.terms.windows.audit_max
    if block > closed + 2 * audit_max:
        return ClaimFate.VOID
    return ClaimFate.LATE_UNDECIDED if block > closed + audit_max else ClaimFate.UNDECIDED


def has_undecided(state: GameState, game_round: GameRound, block: int) -> bool:
    """Whether a claim of the round is still to be decided in time for the merge."""
    fates = (get_claim_fate(state, game_round, slot, block) for slot in game_round.claims)
    return any(fate == ClaimFate.UNDECIDED for fate in fates)


def list_mergeable(state: GameState, game_round: GameRound, block: int) -> tuple[int, ...]:
    """Slots of the claims that may be merged: accepted by close + audit_max, not convicted."""
    closed, merged = game_round.closed, []
    for slot in sorted(game_round.claims):
        accepted = get_accepted_block(state, game_round, slot)
        is_accepted = get_claim_fate(state, game_round, slot, block) == ClaimFate.ACCEPTED
        in_time = closed is not None and (accepted or 0) <= closed + state.terms.windows.audit_max
        if is_accepted and in_time:
            merged.append(slot)
    return tuple(merged)


def is_draw_over(state: GameState, game_round: GameRound, slot: int, draw: int, block: int) -> bool:
    """Whether a draw is decided, or its time is over. Then no vote counts any more, but for an UNSERVED where
    it failed (`is_taking_unserved`)."""
    start = get_votes_from(state, game_round, draw)
    if start is None or get_drawn_segment(state, game_round, slot, draw) is None:
        return False
    is_decided = compute_draw_fate(get_votes(game_round, slot, draw)) != DrawFate.UNDECIDED
    return is_decided or block > start + 2 * state.terms.windows.audit_max


def is_taking_unserved(state: GameState, game_round: GameRound, slot: int, draw: int, block: int) -> bool:
    """Whether an UNSERVED counts in a draw that has failed: until its time is over. Otherwise a solver that
    serves no auditor would save its fee by a reserve of its own that abstains first."""
    start = get_votes_from(state, game_round, draw)
    has_failed = compute_draw_fate(get_votes(game_round, slot, draw)) == DrawFate.FAILED
    return has_failed and start is not None and block <= start + 2 * state.terms.windows.audit_max


# --- Pools --------------------------------------------------------------------------------------------------
def get_required_stake(state: GameState, role: SeatRole) -> int:
    """What a seat of this role must have at stake to sit, in wei."""
    amounts = state.terms.amounts
    return amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake


def is_sitting(state: GameState, seat: Seat) -> bool:
    """Whether a pool that is frozen now takes the seat: open, and with its stake whole."""
    has_stake = get_stake(state, seat.number) >= get_required_stake(state, seat.role)
    return seat.status == SeatStatus.OPEN and has_stake


def get_stake(state: GameState, number: int) -> int:
    """What a seat has at stake, in wei."""
    return state.purse.get_wei(stake_of(number))


def is_closed(state: GameState, number: int) -> bool:
    """Whether a seat was convicted."""
    return state.seats[number].status == SeatStatus.CLOSED


def find_seat(state: GameState, account: str) -> Seat | None:
    """The seat of an account, None where it has none."""
    return next((seat for seat in state.seats.values() if seat.account == account), None)


def freeze_pool(state: GameState) -> Pool:
    """The pool of a round that is frozen now. Of the solvers those with the largest stakes sit; the others
    stay members and wait. Larger stakes displace smaller ones only here, so a seat that displaces another
    also serves in the pool."""
    sitting = sorted(number for number, seat in state.seats.items() if is_sitting(state, seat))
    by_role = {role: tuple(n for n in sitting if state.seats[n].role == role) for role in SeatRole}
    solvers = tuple(sorted(choose_largest(state, by_role[SeatRole.SOLVER])))
    return Pool(solvers, by_role[SeatRole.VERIFIER], by_role[SeatRole.WHISTLEBLOWER])


def choose_largest(state: GameState, numbers: Iterable[int]) -> tuple[int, ...]:
    """As many solver seats as there are places: those with the largest stakes, of equal ones the lower number
    first."""
    ordered = sorted(numbers, key=lambda number: (-get_stake(state, number), number))
    return tuple(ordered[: state.terms.solver_seats])


def get_epoch(index: int) -> int:
    """The epoch of a round."""
    return index // EPOCH_ROUNDS


def get_epoch_start(epoch: int) -> int:
    """The first round of an epoch."""
    return epoch * EPOCH_ROUNDS


def has_place(state: GameState, index: int) -> bool:
    """Whether the ring of rounds has a place for one more."""
    return get_epoch(index) - state.freed_epochs < RING_ROUNDS // EPOCH_ROUNDS


def is_held(pool: Pool, seat: Seat) -> bool:
    """Whether a pool holds a seat. Its numbers ascend, and it may have thousands."""
    numbers = pool.get_seats(seat.role)
    place = bisect_left(numbers, seat.number)
    return place < len(numbers) and numbers[place] == seat.number


def list_unclosed(state: GameState, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the seats that were not convicted."""
    return tuple(n for n in numbers if state.seats[n].status != SeatStatus.CLOSED)


def is_enough(state: GameState, pool: Pool) -> bool:
    """Whether a round can be played with a pool: convicted seats do not count."""
    terms = state.terms
    leasts = (terms.least_solvers, terms.least_verifiers, terms.least_whistleblowers)
    return all(
        len(list_unclosed(state, pool.get_seats(role))) >= least
        for role, least in zip(SeatRole, leasts, strict=True)
    )
