"""Every single party silent in turn, from every point on: all ends, all is paid out, and nobody else loses.

The task has everything in it: a false claim that is disputed, a claim that is rejected, an query, a frivolous
dispute, a contest of a right root, a seat that leaves, one that joins. The points are the
acts of a party in the play where nobody is silent: before each of them it falls silent for good.
"""

from collections.abc import Iterator
from functools import cache

import pytest

from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    KEEPER,
    START_BLOCK,
    SUBMITTER,
    Simulation,
    make_terms,
    make_world,
    solver,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.claim_status import get_claim_status, get_votes, is_unserved
from touchstone.protocol.spec.game.enums import ClaimStatus, GameOutcome, RoundPhase, SeatRole
from touchstone.protocol.spec.game.events import SeatConvicted, SeatSettled
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.round_machine import fold_all
from touchstone.protocol.spec.game.state import StatementRef, create_game
from touchstone.protocol.spec.game.vault import PotKind
from touchstone.protocol.spec.statements import VoteWord

CHEAT, PEST, JOINER = "solver3", "pest", "joiner"
PARTIES = (
    *(f"solver{i}" for i in range(4)), *(f"verifier{i}" for i in range(5)),
    *(f"whistle{i}" for i in range(3)), SUBMITTER, KEEPER, PEST, JOINER,
)  # fmt: skip


def plan(world: Simulation) -> Iterator[tuple[str, GameCall]]:
    """What the parties do besides their duties, each once."""
    done = {(sender, type(call)) for _, sender, call in world.acts}
    for sender, call in _list_plans(world):
        if (sender, type(call)) not in done:
            yield sender, call


def _list_plans(world: Simulation) -> Iterator[tuple[str, GameCall]]:
    now = world.get_now()
    if 1 in now.rounds and now.rounds[1].trained_from is not None:
        yield JOINER, calls.JoinSeat(SeatRole.SOLVER, 2_500)
        if leaving := find_seat(now, "verifier4"):
            yield "verifier4", calls.LeaveSeat(leaving.number)
    if 1 in now.rounds and now.rounds[0].phase == RoundPhase.POSTED:
        yield PEST, calls.OpenContest(0, 300)
        slot = now.rounds[0].merged[0]
        yield PEST, calls.DisputeStatement(StatementRef(0, slot), 80)
        yield PEST, calls.QueryVote(StatementRef(0, slot, 0, 0), VoteWord.ACCEPT, 1, 40)
    for number, contest in now.contests.items():
        if contest.contester == PEST and contest.turn.name == "CONTESTER" and contest.level == 0:
            yield PEST, calls.NameChild(number, 5)
    if 2 in now.rounds:
        slot = now.rounds[1].pool.solvers.index(solver(3))
        if slot in now.rounds[1].claims:
            yield "whistle0", calls.DisputeStatement(StatementRef(1, slot), 80)
    for number, dispute in now.disputes.items():
        is_lost = world.is_statement_false(dispute.statement) or _is_account_silent(world, dispute.seat)
        if dispute.opener == "whistle0" and is_lost:
            yield "whistle0", calls.EndDispute(number, outcome=GameOutcome.CONVICTED)
    if 3 in now.rounds:
        yield SUBMITTER, calls.HaltTask()


def _is_account_silent(world: Simulation, number: int) -> bool:
    return world.is_silent(world.state.seats[number].account)


def play(silent: str | None, acts: int) -> Simulation:
    world = make_world(solvers=4, rounds=5)
    world.plans = [plan]
    world.false_claims = {(CHEAT, 1)}
    if silent is not None:
        world.patience = {silent: acts}
    world.play()
    return world


@cache
def play_without_silence() -> Simulation:
    return play(None, 0)


def list_points(party: str) -> tuple[int, ...]:
    """After how many acts: each one; of a keeper, for which another stands in, the first of each kind."""
    own = [call for _, sender, call in play_without_silence().acts if sender == party]
    if party != KEEPER:
        return tuple(range(len(own)))
    kinds = [type(call) for call in own]
    return tuple(sorted({kinds.index(kind) for kind in kinds}))


# What must hold whoever was silent
def check_end(world: Simulation, silent: str | None) -> None:
    state = world.state
    assert state.is_closed, "the task has closed"
    assert not (state.contests or state.queries or state.disputes or state.seats), "nothing is open"
    kinds = {pot.kind for pot in state.vault.wei}
    assert kinds <= {PotKind.CREDIT, PotKind.BURNED}, "no money is stuck"
    world.withdraw_all()
    total = world.state.vault.compute_total() + sum(world.withdrawn.values())
    escrow = create_game(state.terms, BOUNDS_LOCAL, 0).vault.compute_total()
    assert total == escrow + sum(world.deposited.values()), "no money was made or lost"
    assert all(r.phase != RoundPhase.RUNNING for r in state.rounds.values())
    for account in set(PARTIES) - {silent, CHEAT, SUBMITTER, PEST}:
        assert world.get_gain(account) >= get_least_gain(world, account, silent), account


def get_least_gain(world: Simulation, account: str, silent: str | None) -> int:
    """Pay for all accepted work and for every opened vote, less F for a truthful UNSERVED that stands."""
    state, gain = world.state, 0
    for game_round in state.rounds.values():
        if game_round.phase == RoundPhase.UNDONE:
            continue
        for slot in game_round.claims:
            status = get_claim_status(state, game_round, slot, world.block)
            if world.claimants[game_round.index, slot] == account and status == ClaimStatus.ACCEPTED:
                late = get_votes(game_round, slot, state.terms.draws)
                gain += 0 if is_unserved(late) else AMOUNTS.solver_pay
    for (index, slot, draw, _), (voter, word) in world.voters.items():
        votes = get_votes(state.rounds[index], slot, draw)
        if voter == account and word == VoteWord.ACCEPT:
            gain += AMOUNTS.late_pay if draw == state.terms.draws else AMOUNTS.audit_pay
        if voter == account and word == VoteWord.UNSERVED and is_unserved(votes):
            gain -= AMOUNTS.unserved_fee
    return gain


@pytest.mark.parametrize("party", PARTIES)
def test_whoever_is_silent_from_whenever_on_all_ends_and_others_lose_nothing(party: str) -> None:
    points = list_points(party)
    assert points, "the party has something to do"
    for point in points:
        world = play(party, point)
        check_end(world, party)
        convicted = {event.seat for _, event in world.log if isinstance(event, SeatConvicted)}
        accounts = {world.accounts[number] for number in convicted}
        assert accounts <= {CHEAT, party}, "nobody else loses a seat"


def test_the_play_has_everything_in_it() -> None:
    world = play_without_silence()
    check_end(world, None)
    kinds = {type(call) for _, _, call in world.acts}
    missing = {
        calls.Deposit, calls.FreeEpoch, calls.TopUp, calls.WithdrawCredit, calls.CommitProof,
        calls.ConvictSeat, calls.DrawRound, calls.LetStand, calls.BringLeaf, calls.MarkSilent, calls.EndQuery,
    }  # fmt: skip
    everything = {one for one in vars(calls).values() if isinstance(one, type) and issubclass(one, GameCall)}
    assert everything - kinds - {GameCall} <= missing
    assert len(world.state.rounds) == 4
    assert any(isinstance(event, SeatConvicted) for _, event in world.log), "the cheat was convicted"


def test_who_folds_the_events_has_the_same_state() -> None:
    world = play(CHEAT, list_points(CHEAT)[1])
    state = create_game(make_terms(rounds=5), BOUNDS_LOCAL, START_BLOCK)
    for block, event in world.log:
        state = fold_all(state, (event,), block)
    assert state == world.state
    assert any(isinstance(event, SeatSettled) for _, event in world.log)
