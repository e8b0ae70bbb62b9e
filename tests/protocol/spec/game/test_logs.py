"""The contracts' logs, folded, are the machine's state: after every block of plays in which money moves.

`telling.py` says what they would log of each event; `tests/rounds` has the same with a real chain.
"""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache

import pytest

from tests.architecture.solidity import list_files, read_declarations
from tests.protocol.spec.game.cashier import Cashier
from tests.protocol.spec.game.mishaps import play_mishaps
from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    KEEPER,
    START_BLOCK,
    Simulation,
    make_terms,
    make_word,
    post,
    solver,
)
from tests.protocol.spec.game.telling import list_logs
from tests.protocol.spec.game.test_posting import A, R, make_expensive_fall, make_judged
from touchstone.protocol.economics.account_money import compute_money
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind, SeatStatus
from touchstone.protocol.spec.game.events import ContestOver, EpochFreed, GameEvent
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.logs import _HANDLERS, apply_log
from touchstone.protocol.spec.game.money_book import AccountBook, MoneyBook, SettledRound, note_event
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.state import GameState, StatementRef, create_game
from touchstone.protocol.spec.game.terms import EPOCH_ROUNDS, RING_ROUNDS
from touchstone.protocol.spec.game.vault import REVENUE, PotKind, Vault

ELSEWHERE = {
    "TaskPosted", "StepRootsPosted", "StepNamed", "TracePosted", "LeafDemanded", "LeavesDue", "LeafShown",
    "VotesRelayed", "HaltVoted",
}  # fmt: skip
"""What a log of a task says that is no part of the round's state: its terms, moves inside a dispute, votes
that were handed in again, how its shares vote."""
OF_VAULT = {"Given"}
"""What is read of the vault: it names no task, and whoever reads it knows the task by its pots."""


@cache
def read_events() -> dict[str, set[str]]:
    """The events that the contracts declare, and the names of their values in snake case."""
    declared = [one for path in list_files() for one in read_declarations(path) if one.kind == "event"]
    return {
        one.name: {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), n) for n in one.parameters}
        for one in declared
    }


# Plays
ODD = replace(
    AMOUNTS, solver_stake=2_003, auditor_stake=501, query_bond=41, dispute_bond=81, contest_bond=301
)


def send_next(world: Simulation, call: calls.GameCall, sender: str) -> None:
    """Each call in a block of its own: after each block all is compared."""
    world.jump(world.block + 1)
    world.send(call, sender)


def play_fall() -> Simulation:
    """A root falls; the slash pays undone work, and its rest is burned when the task closes."""
    world = make_expensive_fall()
    world.cheats -= {KEEPER}
    world.send(calls.TopUp(solver(4), 7), "solver4")
    world.play()
    assert world.state.is_closed and world.state.falls[0].held
    return world


def play_questions() -> Simulation:
    """A false REJECT loses its seat and pays the claim; of other questions some are answered, some moot."""
    world = make_judged((R, A, A), rounds=1, amounts=ODD)
    asked, rejected, other = (StatementRef(0, slot, 0, 0) for slot in (1, 0, 2))
    for call in (
        calls.QueryVote(asked, A, 7, 41), calls.AnswerQuery(0), calls.QueryVote(rejected, R, 7, 41),
        calls.DisputeStatement(rejected, 81), calls.DisputeStatement(StatementRef(0, 2), 81),
        calls.EndDispute(2, outcome=GameOutcome.CONVICTED), calls.EndQuery(1), calls.EndDispute(3),
        calls.QueryVote(other, A, 7, 41), calls.AnswerQuery(4, exceeds_limits=True),
        calls.CommitProof(make_word("d")),
    ):  # fmt: skip
        send_next(world, call, "finder")
    proof = calls.ConvictSeat(StatementRef(0, 1), ProofKind.DELTA_LEAF, make_word("d"))
    send_next(world, proof, "finder")
    assert world.state.rounds[0].restored == {0} and not (world.state.queries or world.state.disputes)
    assert sum(seat.status == SeatStatus.CONVICTED for seat in world.state.seats.values()) == 3
    return world


def play_contests() -> Simulation:
    """One contest ends at its leaf, one by a silent contester, one is unanswered, and the last is moot."""
    world = make_judged(rounds=2, amounts=ODD)
    assert post(world, (0, 1), (0, 2), root=make_word("wrong")) is None
    for number in range(4):
        send_next(world, calls.OpenContest(0, 301 * (number + 1)), f"contester {number}")
    for _ in range(2):
        send_next(world, calls.AnswerContest(0), "solver2")
        send_next(world, calls.NameChild(0, 3), "contester 0")
    send_next(world, calls.AnswerContest(1), "solver2")
    send_next(world, calls.BringLeaf(0), "solver1")
    world.jump(world.block + 10)
    for number in (1, 2, 3):
        send_next(world, calls.EndRootContest(number), "x")
    outcomes = [event.outcome.name for _, event in world.log if isinstance(event, ContestOver)]
    assert outcomes == ["HOLDS", "HOLDS", "FALLS", "MOOT"] and not world.state.contests
    return world


def tell(
    game: LoggedGame, state: GameState, told: list[GameEvent], block: int
) -> tuple[LoggedGame, GameState]:
    """Logs and machine after the events of a block."""
    for place, event in enumerate(told):
        for name, values in list_logs(state, told, place):
            assert set(values) <= read_events()[name], "nothing is read that the contracts do not log"
            game = apply_log(game, name, values, block)
        state = fold(state, event, block)
    return game, state


PLAYS = (play_fall, play_questions, play_contests, play_mishaps)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
def test_the_logs_of_a_block_leave_the_state_that_the_machine_has(play: Callable[[], Simulation]) -> None:
    """But for credits and seals of proofs, which the contracts keep for all tasks together. Who has won and
    lost what is the same as well."""
    world = play()
    state = create_game(world.state.terms, BOUNDS_LOCAL, START_BLOCK)
    game = LoggedGame(state.terms, state.bounds, state.vault, state.root, START_BLOCK)
    cashier = Cashier(state)
    for block in sorted({block for block, _ in world.log}):
        game, state = tell(game, state, [event for at, event in world.log if at == block], block)
        for one in (field.name for field in fields(GameState) if field.name != "seals"):
            mine, right = getattr(game, one), getattr(state, one)
            assert mine == keep_own(right) if one == "vault" else mine == right, (one, block, mine, right)
        assert set(game.names.values()) == {*state.queries, *state.contests, *state.disputes}
        cashier.take([one for one in world.log if one[0] <= block])
        assert game.money == cashier.book, block
    assert state == world.state


def keep_own(vault: Vault) -> Vault:
    return Vault({pot: wei for pot, wei in vault.wei.items() if pot.kind != PotKind.CREDIT})


# Names
def test_every_log_of_a_task_is_taken_or_tells_nothing_of_the_round() -> None:
    """A log that the contracts add, or a name that is misspelt, would leave a node behind without a word."""
    of_tasks = {name for name, values in read_events().items() if "task" in values}
    assert of_tasks - set(_HANDLERS) == ELSEWHERE and set(_HANDLERS) <= of_tasks | OF_VAULT


def test_a_log_of_another_name_changes_nothing_and_one_of_what_is_not_open_is_an_error() -> None:
    state = create_game(make_judged().state.terms, BOUNDS_LOCAL, START_BLOCK)
    game = LoggedGame(state.terms, state.bounds, state.vault, state.root, START_BLOCK)
    assert apply_log(game, "LeafShown", {"dispute": b"d"}, 200) is game
    for name, values in (("ContestEnded", {"outcome": 4}), ("QueryEnded", {"ending": 1})):
        with pytest.raises(KeyError):
            apply_log(game, name, {"id": b"unknown", **values}, 200)


def test_one_log_of_many_votes_counts_each_in_its_order() -> None:
    """Four bytes a vote: slot, draw, rank and word."""
    world = make_judged((None, None, None))
    own = {field.name: getattr(world.state, field.name) for field in fields(GameState)}
    votes = bytes([0, 0, 0, R, 0, 0, 1, A, 2, 0, 0, A])
    game = apply_log(LoggedGame(**own), "VotesCounted", {"round": 0, "votes": votes}, 120)
    game = apply_log(game, "VotesOpened", {"round": 0, "votes": votes[4:8]}, 121)
    counted = {
        place: [(rank, vote.word, vote.block, vote.is_opened) for rank, vote in votes.items()]
        for place, votes in game.rounds[0].votes.items()
    }
    assert counted == {(0, 0): [(0, R, 120, False), (1, A, 120, True)], (2, 0): [(0, A, 120, False)]}


def test_revenue_is_spent_by_its_payer_and_won_by_holders_of_shares() -> None:
    """What nobody has claimed lies in a pot of its own, of which the machine knows nothing."""
    terms = make_terms()
    state = create_game(terms, BOUNDS_LOCAL, START_BLOCK)
    game = LoggedGame(terms, state.bounds, state.vault, state.root, START_BLOCK)
    game = apply_log(game, "RevenuePaid", {"payer": "payer", "wei_": 9}, START_BLOCK)
    game = apply_log(game, "RevenueClaimed", {"holder": "holder", "wei_": 5}, START_BLOCK)
    assert game.vault.get_wei(REVENUE) == 4
    money = compute_money(game, game.money, START_BLOCK)
    assert money["payer"].sums == {MoneyReason.PAID_REVENUE: 9} and money["payer"].change == -9
    assert money["holder"].sums == {MoneyReason.REVENUE: 5} and money["holder"].change == 5


def test_rounds_are_forgotten_once_the_ring_has_gone_round() -> None:
    """Sums stay. Without it a node would keep each round of each seat for ever."""
    settled = SettledRound(START_BLOCK, {MoneyReason.AUDIT: 1})
    book = AccountBook({MoneyReason.AUDIT: 400}, {(7, index): settled for index in range(400)})
    state, last = create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK), 400 // EPOCH_ROUNDS - 1
    found = note_event(MoneyBook({"a": book}), state, EpochFreed(last), START_BLOCK).find("a")
    assert found.sums == book.sums
    assert min(index for _, index in found.rounds) == (last + 1) * EPOCH_ROUNDS - RING_ROUNDS
