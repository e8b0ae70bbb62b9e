"""Applies events of contests, queries and disputes: they open with a bond, move, and end."""

from dataclasses import replace

from touchstone.protocol.spec.game.bond_outcomes import forfeit_bond, return_bond
from touchstone.protocol.spec.game.enums import ContestTurn, GameOutcome
from touchstone.protocol.spec.game.events import (
    ContestMoved,
    ContestOver,
    DisputeOver,
    QueryOpened,
    QueryOver,
    StatementDisputed,
)
from touchstone.protocol.spec.game.log_values import Values, read_statement, read_vote
from touchstone.protocol.spec.game.logged_game import Ledger
from touchstone.protocol.spec.game.money_book import UNNAMED, name_account
from touchstone.protocol.spec.game.state import OpenQuery, RootContest, RunningDispute, StatementRef
from touchstone.protocol.spec.game.timing import compute_dispute_clock
from touchstone.protocol.spec.game.vault import bond_of, credit_of

# The numbers of the ends in `IContests.Turn`, `IQueries.Ending` and `IDisputes.Stage`.
_CONTEST_ENDS = {4: GameOutcome.HOLDS, 5: GameOutcome.FALLS, 6: GameOutcome.MOOT}
_QUERY_ENDS = {1: GameOutcome.CLEARED, 2: GameOutcome.CONVICTED, 3: GameOutcome.MOOT}
_DISPUTE_ENDS = {7: GameOutcome.CLEARED, 8: GameOutcome.CONVICTED, 9: GameOutcome.MOOT}
_LOSSES = (GameOutcome.HOLDS, GameOutcome.CLEARED)
"""Outcomes in which the opener loses its bond."""


def apply_contested(ledger: Ledger, values: Values) -> None:
    """Applies Contested: the contest is about the posting that stands now."""
    number, index = ledger.open(values["id"]), int(values["round"])
    until, clock = ledger.state.rounds[index].root_until, int(values["clock_block"])
    opened = RootContest(number, index, values["root"], until, values["contester"], ContestTurn.ANSWER, clock)
    ledger.emit(ContestMoved(opened))
    ledger.move(credit_of(opened.contester), bond_of(number), values["bond_wei"])


def apply_nodes_posted(ledger: Ledger, values: Values) -> None:
    """Applies NodesPosted: the contester must name one."""
    _move_contest(ledger, values, turn=ContestTurn.CONTESTER, answerer=values["answerer"])


def apply_child_named(ledger: Ledger, values: Values) -> None:
    """Applies ChildNamed: a node to be answered, or the leaf."""
    contest = ledger.state.contests[ledger.game.names[values["id"]]]
    level = contest.level + 1
    is_leaf = level >= ledger.state.terms.contest_levels
    _move_contest(ledger, values, turn=ContestTurn.LEAF if is_leaf else ContestTurn.ANSWER, level=level)


def _move_contest(ledger: Ledger, values: Values, **changes: object) -> None:
    contest = ledger.state.contests[ledger.game.names[values["id"]]]
    changes["clock"] = int(values["clock_block"])
    ledger.emit(ContestMoved(replace(contest, **changes)))  # type: ignore[arg-type]


def apply_contest_ended(ledger: Ledger, values: Values) -> None:
    """Applies ContestEnded. If the root falls, the next events tell so."""
    number, outcome = ledger.close(values["id"]), _CONTEST_ENDS[int(values["outcome"])]
    contest = ledger.state.contests[number]
    # The vault's next event names the account that brought the leaf (`apply_given`).
    answerer = UNNAMED if contest.turn == ContestTurn.LEAF else contest.answerer or UNNAMED
    _end_bond(ledger, number, outcome, contest.contester, answerer)
    ledger.emit(ContestOver(number, outcome))


def _end_bond(ledger: Ledger, number: int, outcome: GameOutcome, owner: str, answerer: str) -> None:
    """Ends a bond. `answerer` is the account that had to answer."""
    if outcome in _LOSSES:
        forfeit_bond(ledger, number, answerer)
    else:
        return_bond(ledger, number, owner)


def apply_given(ledger: Ledger, values: Values) -> None:
    """Applies Given, an event of the vault: it names the account that got the money of a bond."""
    if UNNAMED in ledger.game.money.accounts:
        money = name_account(ledger.game.money, values["account"])
        ledger.state = replace(ledger.game, money=money)


def apply_query_opened(ledger: Ledger, values: Values) -> None:
    """Applies QueryOpened."""
    number, vote = ledger.open(values["id"]), read_vote(values["vote"])
    ref = StatementRef(vote.round, vote.slot, vote.draw, vote.rank)
    place = (number, ref, int(values["seat"]), vote.word, int(values["leaf"]))
    ledger.emit(QueryOpened(OpenQuery(*place, values["asker"], int(values["last_block"]))))
    ledger.move(credit_of(values["asker"]), bond_of(number), values["bond_wei"])


def apply_query_ended(ledger: Ledger, values: Values) -> None:
    """Applies QueryEnded. If the seat is convicted, the next events tell so."""
    number, outcome = ledger.close(values["id"]), _QUERY_ENDS[int(values["ending"])]
    query = ledger.state.queries[number]
    _end_bond(ledger, number, outcome, query.asker, ledger.state.seats[query.seat].account)
    ledger.emit(QueryOver(number, outcome))


def apply_dispute_opened(ledger: Ledger, values: Values) -> None:
    """Applies DisputeOpened. The event has the deadline of the first turn; the state gets the deadline of the
    last turn."""
    number, ref = ledger.open(values["dispute"]), read_statement(values["statement"])
    clock = compute_dispute_clock(ledger.state, ledger.block)
    opened = RunningDispute(number, ref, int(values["seat"]), values["opener"], clock)
    ledger.emit(StatementDisputed(opened))
    ledger.move(credit_of(opened.opener), bond_of(number), values["bond_wei"])


def apply_dispute_ended(ledger: Ledger, values: Values) -> None:
    """Applies DisputeEnded. If the seat is convicted, the next events tell so."""
    number, outcome = ledger.close(values["dispute"]), _DISPUTE_ENDS[int(values["outcome"])]
    dispute = ledger.state.disputes[number]
    _end_bond(ledger, number, outcome, dispute.opener, ledger.state.seats[dispute.seat].account)
    ledger.emit(DisputeOver(number, outcome))
