"""Every single party silent in turn, for good or in one act, in a task in which each kind of thing happens.

All ends, accepted work is paid, and nobody loses by somebody else's silence. The long form plays every point
(`lab/benchmarks/silence.py`); here each party has some of its points.
"""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from tests.protocol.spec.game.faulty_simulation import PARTIES, PEST, SLEEPER, FaultySimulation
from tests.protocol.spec.game.silences import FOR_GOOD, Points, Silence, find_points, list_flaws, play_silence
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind, RoundPhase
from touchstone.protocol.spec.game.events import (
    ContestOver,
    DisputeOver,
    QueryOver,
    RootFell,
    RootPosted,
    RootStood,
    SeatConvicted,
    SeatLeft,
)
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.vault import ESCROW, credit_of

POINTS_A_PARTY = 2
"""Of each way of being silent, in a quick run."""


@cache
def get_points() -> Points:
    return find_points()


def get_end() -> FaultySimulation:
    worlds = get_points().worlds
    return worlds[max(worlds)]


def choose_points(party: str) -> list[Silence]:
    """Spread over the play: of being silent for good, and of single acts."""
    chosen = []
    for is_for_good in (True, False):
        own = [one for one in get_points().silences if one.party == party]
        own = [one for one in own if (one.act == FOR_GOOD) == is_for_good]
        step = max(1, len(own) // POINTS_A_PARTY)
        chosen += own[PARTIES.index(party) % step :: step][:POINTS_A_PARTY]
    return chosen


@pytest.mark.parametrize("party", PARTIES)
def test_all_ends_and_all_is_paid_whoever_is_silent_whenever(party: str) -> None:
    for silence in choose_points(party):
        assert not list_flaws(play_silence(get_points(), silence), party), silence


def test_every_party_has_points() -> None:
    """But for the keeper and the submitter, who have little to do, each has several."""
    counts = Counter(one.party for one in get_points().silences)
    few = {party for party in PARTIES if counts[party] < 4}
    assert few <= {"keeper", "submitter", SLEEPER, PEST}, counts


def test_the_play_has_each_kind_of_thing_in_it() -> None:
    world = get_end()
    assert not list_flaws(world, None)
    kinds = {type(call) for _, _, call in world.acts}
    missing = {
        calls.Deposit, calls.FreeEpoch, calls.WithdrawCredit, calls.DrawRound, calls.EndQuery,
    }  # fmt: skip
    everything = {one for one in vars(calls).values() if isinstance(one, type) and issubclass(one, GameCall)}
    assert everything - kinds - {GameCall} <= missing
    log = [event for _, event in world.log]
    phases = {one.phase for one in world.state.rounds.values()}
    assert {RoundPhase.POSTED, RoundPhase.STANDING, RoundPhase.UNDONE} <= phases
    assert {RootPosted, RootStood, RootFell, SeatLeft} <= {type(event) for event in log}
    proofs = {event.proof for event in log if isinstance(event, SeatConvicted)}
    assert proofs >= {ProofKind.DISPUTED, ProofKind.WRONG_MERGE, ProofKind.TWO_STATEMENTS}
    ends = {(type(one), one.outcome) for one in log if isinstance(one, ContestOver | QueryOver | DisputeOver)}
    outcomes = (GameOutcome.HOLDS, GameOutcome.FALLS)
    assert {(ContestOver, one) for one in outcomes} | {(DisputeOver, GameOutcome.CLEARED)} <= ends
    assert any(game_round.late_slots for game_round in world.state.rounds.values())


# What would be seen
def test_money_that_is_stuck_open_or_taken_is_seen() -> None:
    """The checks of a play's end, each on an end that is wrong in one thing."""
    end = get_end()
    assert end.state.is_closed

    def find(**changes: object) -> str:
        world = end.fork()
        world.state = replace(world.state, **changes)  # type: ignore[arg-type]
        return " ".join(list_flaws(world, None))

    assert "open: the task is not closed" in find(is_closed=False)
    pot, wei = credit_of("solver0"), end.state.vault.wei[credit_of("solver0")]
    assert "unpaid: solver0" in find(
        vault=replace(end.state.vault, wei={**end.state.vault.wei, pot: wei // 2})
    )
    stuck = {**end.state.vault.wei, ESCROW: 7}
    assert "stuck" in find(vault=replace(end.state.vault, wei=stuck))


def test_a_stake_that_is_lost_without_a_reason_is_seen() -> None:
    world = get_end().fork()
    seat = next(number for number, account in world.accounts.items() if account == "verifier1")
    event = SeatConvicted(seat, ProofKind.VOTE_LEAF, StatementRef(0, 0, 0, 0))
    world.log.append((world.block, event))
    assert any("verifier1, silent, lost its stake" in one for one in list_flaws(world, "verifier1"))
