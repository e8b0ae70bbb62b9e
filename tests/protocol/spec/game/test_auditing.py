"""Whose turn it is to audit what, until when it waits, and what a claim's moments carry over from."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.protocol.spec.game.simulation import (
    Simulation,
    commit,
    is_posted,
    make_quiet_world,
    make_world,
    seal_draw,
    vote,
)
from touchstone.protocol.spec.game.audit_deadlines import (
    compute_ends_until,
    compute_serving_until,
    get_due_block,
    get_heard_until,
    is_only_unserved,
    is_wanted,
    may_open,
)
from touchstone.protocol.spec.game.drawn_audits import (
    AuditPlace,
    find_drawn,
    find_stated,
    get_drawn,
    get_ever_drawn,
    list_drawn,
)
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.previous_claim import find_last_merged
from touchstone.protocol.spec.game.state import GameRound, GameState, Pool, SlotClaim, compute_seat_id
from touchstone.protocol.spec.statements import Vote, VoteWord


@pytest.fixture
def world() -> Simulation:
    made = make_quiet_world(late_chance=0)
    assert commit(made, "solver0") is None
    seal_draw(made)
    return made


def test_every_rank_of_every_draw_is_somebodys(world: Simulation) -> None:
    game = world.get_now()
    accounts = [f"verifier{n}" for n in range(5)]
    found = [drawn for account in accounts for drawn in list_drawn(game, account, world.block)]
    assert sorted(one.place.rank for one in found) == [0, 1, 2]
    assert all(find_drawn(game, one.place) == one and one.solver == "solver0" for one in found)
    assert list(list_drawn(game, "solver0", world.block)) == []
    last = (game.rounds[0].closed or 0) + 60
    assert [len(list(list_drawn(game, found[0].seat.account, block))) for block in (last, last + 1)] == [1, 0]


def test_another_fork_is_not_drawn(world: Simulation) -> None:
    game = world.get_now()
    drawn = get_drawn(game, 0, 0, 0, 0)
    assert drawn is not None
    for name in ("domain", "base_root", "seed", "claim_root"):
        other: dict[str, Any] = {name: bytes(32)}
        assert find_drawn(game, replace(drawn.place, **other)) is None
    for name in ("round", "slot", "draw", "rank"):
        other = {name: 3}
        assert find_drawn(game, replace(drawn.place, **other)) is None
    closed = replace(drawn.seat, status=SeatStatus.CONVICTED)
    assert find_drawn(replace(game, seats={**game.seats, closed.number: closed}), drawn.place) is None
    undone = replace(game.rounds[0], phase=RoundPhase.UNDONE)
    assert find_drawn(replace(game, rounds={0: undone}), drawn.place) is None


def test_who_was_drawn_is_known_also_where_nothing_is_audited_any_more(world: Simulation) -> None:
    game, place = world.get_now(), (0, 0, 0, 0)
    undone = replace(game, rounds={0: replace(game.rounds[0], phase=RoundPhase.UNDONE)})
    assert get_drawn(undone, *place) is None
    assert get_ever_drawn(undone, *place) == get_ever_drawn(game, *place) == get_drawn(game, *place)
    assert get_ever_drawn(game, *place) is not None
    assert get_ever_drawn(game, 1, 0, 0, 0) is None and get_ever_drawn(game, 0, 99, 0, 0) is None


def test_what_an_auditor_said_stays_its_own_after_the_solver_is_gone(world: Simulation) -> None:
    """An auditor that does not find its own statement answers no dispute on it, and is convicted."""
    game = world.get_now()
    drawn = get_drawn(game, 0, 0, 0, 0)
    assert drawn is not None
    number = game.rounds[0].claims[0].seat
    paid_out = {one: seat for one, seat in game.seats.items() if one != number}
    taken = {**paid_out, number: replace(game.seats[number], account="other", joined=9)}
    undone = {0: replace(game.rounds[0], phase=RoundPhase.UNDONE)}
    for later in (replace(game, seats=paid_out), replace(game, seats=taken), replace(game, rounds=undone)):
        assert find_stated(later, drawn.place) == drawn and drawn.solver == "solver0"
    assert find_stated(replace(game, rounds={}), drawn.place) is None
    assert find_stated(game, replace(drawn.place, seed=bytes(32))) is None


def test_windows_of_an_audit_by_hand(world: Simulation) -> None:
    """Windows of a local chain: delay 1, a grid of 2, audit_max 30."""
    game, closed = world.get_now(), world.get_now().rounds[0].closed
    assert closed is not None
    primary, reserve = (get_drawn(game, 0, 0, 0, rank) for rank in (0, 1))
    assert primary is not None and reserve is not None
    due = get_due_block(game, primary.place)
    assert due == world.block and get_due_block(game, reserve.place) == closed + 10
    assert compute_serving_until(game, primary.place, due) == closed + 30 - (closed + 30 - due) // 3
    assert compute_serving_until(game, reserve.place, due) == closed + 24
    # Too late for the merge, in time for pay.
    assert compute_serving_until(game, reserve.place, closed + 31) == closed + 60 - 50 // 3
    # Who sealed late waits a third of what is left for the end.
    assert compute_ends_until(game, primary.place, due) == compute_serving_until(game, primary.place, due)
    assert compute_ends_until(game, primary.place, closed + 30) == closed + 40
    assert get_heard_until(game, primary.place) == closed + 90
    assert is_wanted(game, primary.place, closed + 60) and not is_wanted(game, primary.place, closed + 61)


def test_an_accept_is_opened_where_no_reserve_can_come_before_it(world: Simulation) -> None:
    """A reserve that sees a pending opening copies both ends out of it, once its own vote may come first."""
    game, closed = world.get_now(), world.get_now().rounds[0].closed or 0
    accept = cast(Vote, SimpleNamespace(round=0, slot=0, draw=0, rank=0, word=VoteWord.ACCEPT))
    reserves = closed + game.terms.windows.audit_max // 3
    shown = [may_open(game, accept, reserves - left) for left in (4, 3, 2, 0)]
    assert shown == [True, True, False, False]
    assert not may_open(game, replace_fields(accept, rank=1), reserves - 4)
    assert not may_open(game, replace_fields(accept, word=VoteWord.REJECT_STATE), reserves - 4)
    assert vote(world, 0, 0, 0, VoteWord.ACCEPT)
    assert may_open(world.get_now(), accept, reserves), "decided on chain"


def replace_fields(made: Vote, **fields: Any) -> Vote:
    """The vote, but for these fields."""
    return cast(Vote, SimpleNamespace(**{**vars(made), **fields}))


def test_an_unserved_alone_counts_in_a_failed_draw_while_it_is_the_second(world: Simulation) -> None:
    def look() -> tuple[bool, bool]:
        game = world.get_now()
        drawn = get_drawn(game, 0, 0, 0, 2)
        assert drawn is not None
        return is_wanted(game, drawn.place, world.block), is_only_unserved(game, drawn.place, world.block)

    assert look() == (True, False)
    assert vote(world, 0, 0, 0, VoteWord.UNSERVED) and look() == (True, False)
    before = world.state
    assert vote(world, 0, 0, 1, VoteWord.ABSTAIN) and look() == (True, True)
    world.state = before
    assert vote(world, 0, 0, 1, VoteWord.UNSERVED) and look() == (False, False), "two have said so"
    world.state = before
    assert vote(world, 0, 0, 1, VoteWord.ACCEPT) and look() == (True, False)


def test_moments_carry_over_from_the_last_merged_claim() -> None:
    """Twin of `Evidence._lastMerged`: posted rounds that merged the seat's claim, not before it joined."""
    world = make_world(rounds=4, late_chance=0).play(
        until=lambda w: is_posted(w, 1) and len(w.state.rounds) > 2
    )
    world.play(until=lambda w: len(w.state.rounds[2].claims) > 0)
    game = world.get_now()
    slot = min(game.rounds[2].claims)
    place = get_place(game, slot)
    number = game.rounds[2].claims[slot].seat
    before = game.rounds[1].pool.solvers.index(number)
    assert find_last_merged(game, place) == (1, before)
    unmerged = replace(game.rounds[1], merged=())
    assert find_last_merged(with_rounds(game, unmerged), place) == (0, before)
    standing = replace(game.rounds[0], phase=RoundPhase.STANDING)
    assert find_last_merged(with_rounds(game, unmerged, standing), place) is None
    claim = replace(game.rounds[2].claims[slot], joined=1)
    young = replace(game.rounds[2], claims={**game.rounds[2].claims, slot: claim})
    assert find_last_merged(with_rounds(game, unmerged, young), place) is None
    gone = {one: seat for one, seat in game.seats.items() if one != number}
    assert find_last_merged(replace(game, seats=gone), place) == (1, before), "its solver was paid out"
    with pytest.raises(KeyError):
        find_last_merged(replace(game, rounds={2: game.rounds[2]}), place)


@pytest.mark.parametrize(
    ("index", "merged", "expected"),
    [(15, (2,), 2), (16, (2, 15), None), (20, (15,), None), (20, (16,), 16), (33, (31,), None)],
)
def test_moments_carry_over_within_an_epoch_only(
    index: int, merged: tuple[int, ...], expected: int | None
) -> None:
    """An auditor that expects moments of the epoch before rejects right starts, and is convicted of it."""
    world = make_world(late_chance=0)
    number = compute_seat_id(SeatRole.SOLVER, 0)
    claims = {0: SlotClaim(number, "solver0", 0, b"root", 4)}
    one = GameRound(0, Pool((number,)), b"base", 0, 1, claims=claims, phase=RoundPhase.POSTED)
    rounds = {i: replace(one, index=i, merged=(0,) if i in merged else ()) for i in range(40)}
    game = replace(world.state, rounds=rounds, next_round=40)
    place = AuditPlace(game.terms.domain, index, b"base", b"seed", 0, b"root", 0, 0)
    assert find_last_merged(game, place) == (None if expected is None else (expected, 0))


def get_place(game: GameState, slot: int) -> AuditPlace:
    claim = game.rounds[2].claims[slot]
    return AuditPlace(game.terms.domain, 2, game.rounds[2].base_root, bytes(32), slot, claim.claim_root, 0, 0)


def with_rounds(game: GameState, *changed: GameRound) -> GameState:
    return replace(game, rounds={**game.rounds, **{one.index: one for one in changed}})
