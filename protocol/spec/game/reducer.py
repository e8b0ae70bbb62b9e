"""The reducer, `fold`, gives the state after an event. Applied to all events of the chain, it gives the
contract's state.

It trusts the chain: the machine has checked, an event only records. Consequences of an event that leave no
choice (a pool as of this moment, claims that become void with their solver) are computed here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from touchstone.protocol.spec.game import events
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.claim_status import get_claim_status, is_withdrawn
from touchstone.protocol.spec.game.enums import ClaimStatus, GameOutcome, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start, has_place
from touchstone.protocol.spec.game.events import GameEvent
from touchstone.protocol.spec.game.pools import freeze_pool, list_unclosed
from touchstone.protocol.spec.game.state import (
    CountedVote,
    GameRound,
    GameState,
    OpenQuery,
    PendingStart,
    RootContest,
    RunningDispute,
    Seat,
    SlotClaim,
    StatementRef,
)
from touchstone.protocol.spec.game.timing import list_late_missing
from touchstone.protocol.spec.game.vault import move_wei
from touchstone.protocol.spec.round_seeds import compute_grid_block, compute_round_beacon, compute_round_seed

Value = TypeVar("Value")
Key = TypeVar("Key")


def fold(state: GameState, event: GameEvent, block: int) -> GameState:
    """Returns the state after an event of `block`."""
    return _FOLDS[type(event)](state, event, block)


def _with(mapping: Mapping[Key, Value], key: Key, value: Value) -> dict[Key, Value]:
    return {**mapping, key: value}


def _without(mapping: Mapping[Key, Value], key: Key) -> dict[Key, Value]:
    return {k: v for k, v in mapping.items() if k != key}


def _change_seat(state: GameState, number: int, **changes: Any) -> GameState:
    return replace(state, seats=_with(state.seats, number, replace(state.seats[number], **changes)))


def _change_round(state: GameState, index: int, **changes: Any) -> GameState:
    return replace(state, rounds=_with(state.rounds, index, replace(state.rounds[index], **changes)))


def _fold_joined(state: GameState, event: events.SeatJoined, block: int) -> GameState:
    joined, before = state.next_round, state.next_round - 1
    seat = Seat(event.seat, event.role, event.account, joined, joined, before, before)
    seats, former = _with(state.seats, event.seat, seat), _without(state.former, event.seat)
    return replace(state, seats=seats, former=former)


def _fold_freed(state: GameState, event: events.SeatFreed, block: int) -> GameState:
    former = _with(state.former, event.seat, state.seats[event.seat])
    return replace(state, seats=_without(state.seats, event.seat), former=former)


def _fold_convicted(state: GameState, event: events.SeatConvicted, block: int) -> GameState:
    """Closes the seat, makes its undecided claims void, and marks the claim if it is the false statement. If
    that is a REJECT of a late draw that is undecided, the vote counts no more: it takes no pay then, and
    waiting would have restored the pay."""
    for game_round in state.rounds.values():
        state = _void_undecided(state, game_round, event.seat, block)
    if event.statement is not None and event.statement.draw is None:
        state = _mark_convicted(state, event.statement)
    if event.statement is not None and is_withdrawn(state, event.seat, event.statement, block):
        state = _withdraw_vote(state, event.statement)
    if state.seats[event.seat].role == SeatRole.SOLVER:
        state = replace(state, convicted_block=block)
    return _change_seat(state, event.seat, status=SeatStatus.CONVICTED)


def _void_undecided(state: GameState, game_round: GameRound, seat: int, block: int) -> GameState:
    claims = dict(game_round.claims)
    for slot, claim in game_round.claims.items():
        undecided = (ClaimStatus.UNDECIDED, ClaimStatus.LATE_UNDECIDED)
        if claim.seat == seat and get_claim_status(state, game_round, slot, block) in undecided:
            claims[slot] = replace(claim, is_void=True)
    return state if claims == game_round.claims else _change_round(state, game_round.index, claims=claims)


def _mark_convicted(state: GameState, ref: StatementRef) -> GameState:
    game_round = state.rounds[ref.round]
    claim = replace(game_round.claims[ref.slot], is_convicted=True)
    return _change_round(state, ref.round, claims=_with(game_round.claims, ref.slot, claim))


def _withdraw_vote(state: GameState, ref: StatementRef) -> GameState:
    votes, place = state.rounds[ref.round].votes, (ref.slot, ref.draw or 0)
    return _change_round(state, ref.round, votes=_with(votes, place, _without(votes[place], ref.rank)))


def _put_vote(
    state: GameState, index: int, place: tuple[int, int], rank: int, vote: CountedVote
) -> GameState:
    votes = state.rounds[index].votes
    return _change_round(state, index, votes=_with(votes, place, _with(votes.get(place, {}), rank, vote)))


def _fold_start(state: GameState, event: events.StartAsked, block: int) -> GameState:
    first = event.first_round
    state = _freeze(_freeze(state, first), first + 1)
    return replace(state, start=PendingStart(first, event.beacon_block))


def _freeze(state: GameState, index: int) -> GameState:
    """Freezes the pool of a round, unless the task has no such round or the ring no place for it."""
    if index >= state.terms.rounds or not has_place(state, index):
        return state
    return replace(state, pools=_with(state.pools, index, freeze_pool(state)))


def _fold_start_drawn(state: GameState, event: events.StartDrawn, block: int) -> GameState:
    """Handles a recorded start. Replaces beacons that an older seed gave the frozen rounds meanwhile, because
    that seed was known when their pools were frozen."""
    beacons = {index: beacon for index, beacon in state.beacons.items() if index < state.next_round}
    return _deal(replace(state, start=None, beacons=beacons), event.randomness, state.terms.rounds)


def _deal(state: GameState, randomness: bytes, last_round: int) -> GameState:
    """Gives beacons to all frozen rounds up to `last_round` that have neither a beacon nor begun."""
    beacons = dict(state.beacons)
    for index in state.pools:
        if state.next_round <= index <= last_round and index not in beacons:
            beacons[index] = compute_round_beacon(state.terms.domain, index, randomness)
    return replace(state, beacons=beacons)


def _fold_opened(state: GameState, event: events.RoundOpened, block: int) -> GameState:
    index, windows = event.round, state.terms.windows
    pool, beacon = state.pools[index], state.beacons.get(index)
    counted = len(list_unclosed(state, pool.solvers))
    game_round = GameRound(index, pool, event.base_root, opened=block, counted=counted, beacon=beacon)
    if beacon is None:
        grid_block = compute_grid_block(block + windows.delay, windows.draw_grid)
        game_round = replace(game_round, beacon_block=grid_block)
    else:
        game_round = replace(game_round, trained_from=block)
    return replace(state, rounds=_with(state.rounds, index, game_round), next_round=index + 1)


def _fold_dealt(state: GameState, event: events.RoundAssigned, block: int) -> GameState:
    beacon = compute_round_beacon(state.terms.domain, event.round, event.randomness)
    return _change_round(state, event.round, beacon=beacon, trained_from=block)


def _fold_claim(state: GameState, event: events.ClaimTaken, block: int) -> GameState:
    game_round = state.rounds[event.round]
    seat = game_round.pool.solvers[event.slot]
    holder = state.seats[seat]
    claim = SlotClaim(seat, holder.account, holder.joined, event.claim_root, event.segments)
    claims = _with(game_round.claims, event.slot, claim)
    changes: dict[str, Any] = {"claims": claims}
    if game_round.two_thirds is None and 3 * len(claims) >= 2 * game_round.counted:
        changes["two_thirds"] = block
    if len(claims) == game_round.counted:
        changes["filled"] = block
    state = _change_seat(state, seat, last_commit=event.round)
    return _change_round(state, event.round, **changes)


def _fold_closed(state: GameState, event: events.RoundClosed, block: int) -> GameState:
    state = _change_round(state, event.round, closed=event.closing_block)
    is_next_frozen = event.round + 1 in state.pools
    return _freeze(state, event.round + 2) if is_next_frozen else state


def _fold_drawn(state: GameState, event: events.AuditsDrawn, block: int) -> GameState:
    seed = compute_round_seed(state.terms.domain, event.round, event.randomness)
    closed = state.rounds[event.round].closed or 0
    earlier = [r for r in list_late_missing(state, block) if r.index < event.round]
    state = _draw_late(state, tuple(earlier), seed, closed, block)
    return _deal(_change_round(state, event.round, seed=seed), event.randomness, event.round + 2)


def _fold_closing(state: GameState, event: events.ClosingDrawn, block: int) -> GameState:
    seed = compute_round_seed(state.terms.domain, state.next_round, event.randomness)
    return _draw_late(state, list_late_missing(state, block), seed, event.from_block, block)


def _draw_late(
    state: GameState, rounds: tuple[GameRound, ...], seed: bytes, from_block: int, block: int
) -> GameState:
    for game_round in rounds:
        statuses = {slot: get_claim_status(state, game_round, slot, block) for slot in game_round.claims}
        slots = frozenset(slot for slot, status in statuses.items() if status != ClaimStatus.VOID)
        state = _change_round(state, game_round.index, late_seed=seed, late_slots=slots, late_from=from_block)
    return state


def _fold_vote(state: GameState, event: events.VoteCounted, block: int) -> GameState:
    game_round = state.rounds[event.round]
    seat = get_drawn_seat(state, game_round, event.slot, event.draw, event.rank)
    vote = CountedVote(event.word, block)
    state = _put_vote(state, event.round, (event.slot, event.draw), event.rank, vote)
    if seat is None:
        return state
    return _change_seat(state, seat, last_voted=max(state.seats[seat].last_voted, event.round))


def _fold_vote_opened(state: GameState, event: events.VoteOpened, block: int) -> GameState:
    place = (event.slot, event.draw)
    vote = replace(state.rounds[event.round].votes[place][event.rank], is_opened=True)
    return _put_vote(state, event.round, place, event.rank, vote)


def _fold_posted(state: GameState, event: events.RootPosted, block: int) -> GameState:
    game_round = state.rounds[event.round]
    start = block if game_round.fallen is not None else game_round.closed or 0
    state = _change_round(
        state, event.round, phase=RoundPhase.POSTED, root=event.root, merged=event.merged,
        signers=event.signers, root_until=start + state.terms.windows.dispute,
    )  # fmt: skip
    return replace(state, root=event.root)


def _fold_task_paused(state: GameState, event: events.TaskPaused, block: int) -> GameState:
    return replace(_drop_unopened(state), paused_since=block)


def _drop_unopened(state: GameState) -> GameState:
    """Forgets pools and beacons of rounds that were not opened, because nothing needs them any more."""
    pools = {r: pool for r, pool in state.pools.items() if r < state.next_round}
    beacons = {r: beacon for r, beacon in state.beacons.items() if r < state.next_round}
    return replace(state, pools=pools, beacons=beacons, start=None)


def _fold_fell(state: GameState, event: events.RootFell, block: int) -> GameState:
    base_root = state.rounds[event.round].base_root
    state = _change_round(
        state, event.round, phase=RoundPhase.FALLEN, root=None, merged=(), signers=(), fallen=block
    )
    for index, later in state.rounds.items():
        if index > event.round:
            closed = block if later.closed is None else later.closed
            state = _change_round(state, index, phase=RoundPhase.UNDONE, closed=closed)
    return replace(_drop_unopened(state), root=base_root)


def _fold_restored(state: GameState, event: events.PayRestored, block: int) -> GameState:
    restored = state.rounds[event.round].restored | {event.slot}
    return _change_round(state, event.round, restored=restored)


def _fold_epoch_freed(state: GameState, event: events.EpochFreed, block: int) -> GameState:
    """Forgets the rounds of an epoch. A node that needs them later must have kept them. A seat to which
    nothing was paid or charged in the epoch has nothing left to settle there."""
    rounds = {index: one for index, one in state.rounds.items() if get_epoch(index) > event.epoch}
    pools = {index: pool for index, pool in state.pools.items() if get_epoch(index) > event.epoch}
    end = get_epoch_start(event.epoch + 1)
    seats = {n: replace(seat, settled=max(seat.settled, end)) for n, seat in state.seats.items()}
    return replace(state, rounds=rounds, pools=pools, seats=seats, freed_epochs=event.epoch + 1)


def _fold_contest_over(state: GameState, event: events.ContestOver, block: int) -> GameState:
    """Ends a contest. A root that survived may fall to another contest, which needs a block to be opened
    in."""
    is_standing = event.outcome == GameOutcome.HOLDS
    until = block + state.terms.windows.respond if is_standing else state.contested_until
    return replace(state, contests=_without(state.contests, event.contest), contested_until=until)


def _open(state: GameState, kind: str, value: RootContest | OpenQuery | RunningDispute) -> GameState:
    changes: dict[str, Any] = {kind: _with(getattr(state, kind), value.number, value)}
    return replace(state, **changes, next_number=max(state.next_number, value.number + 1))


_FOLDS: dict[type[GameEvent], Callable[[GameState, Any, int], GameState]] = {
    events.WeiMoved: lambda s, e, b: replace(s, vault=move_wei(s.vault, e.source, e.target, e.wei)),
    events.SeatJoined: _fold_joined,
    events.SeatLeft: lambda s, e, b: _change_seat(s, e.seat, status=SeatStatus.LEAVING),
    events.SeatConvicted: _fold_convicted,
    events.SeatFreed: _fold_freed,
    events.SeatSettled: lambda s, e, b: _change_seat(s, e.seat, settled=e.until_round + 1),
    events.TaskHalted: lambda s, e, b: replace(s, is_halted=True),
    events.EpochFreed: _fold_epoch_freed,
    events.TaskClosed: lambda s, e, b: replace(s, is_closed=True),
    events.StartAsked: _fold_start,
    events.StartDrawn: _fold_start_drawn,
    events.RoundOpened: _fold_opened,
    events.RoundAssigned: _fold_dealt,
    events.ClaimTaken: _fold_claim,
    events.RoundClosed: _fold_closed,
    events.AuditsDrawn: _fold_drawn,
    events.ClosingDrawn: _fold_closing,
    events.VoteCounted: _fold_vote,
    events.VoteOpened: _fold_vote_opened,
    events.RootPosted: _fold_posted,
    events.RootStood: lambda s, e, b: _change_round(s, e.round, phase=RoundPhase.STANDING),
    events.TaskPaused: _fold_task_paused,
    events.RootFell: _fold_fell,
    events.PayRestored: _fold_restored,
    events.PayHeld: lambda s, e, b: replace(s, falls=(*s.falls, e.fall)),
    events.ContestMoved: lambda s, e, b: _open(s, "contests", e.contest),
    events.ContestOver: _fold_contest_over,
    events.QueryOpened: lambda s, e, b: _open(s, "queries", e.query),
    events.QueryOver: lambda s, e, b: replace(s, queries=_without(s.queries, e.query)),
    events.StatementDisputed: lambda s, e, b: _open(s, "disputes", e.dispute),
    events.DisputeOver: lambda s, e, b: replace(s, disputes=_without(s.disputes, e.dispute)),
    events.ProofCommitted: lambda s, e, b: replace(s, seals=_with(s.seals, (e.sender, e.digest), b)),
}
