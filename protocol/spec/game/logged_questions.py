"""Logs of contests, asks, disputes and convictions, as events of the machine.

A log says less than the machine's event. What it leaves out follows from the state: how deep a contest is,
by when a dispute is over at the latest, how a slash is shared.
"""

from dataclasses import replace

from protocol.spec.game.convicting import burn_lost_pay, forfeit_bond, return_bond
from protocol.spec.game.enums import ContestTurn, GameOutcome, ProofKind
from protocol.spec.game.events import (
    AskOpened,
    AskOver,
    ContestMoved,
    ContestOver,
    DisputeOver,
    PayHeld,
    PayRestored,
    SeatConvicted,
    StatementDisputed,
)
from protocol.spec.game.inner_folding import read_vote
from protocol.spec.game.ledger import Ledger, Values, read_statement
from protocol.spec.game.purse import BURNED, OUTSIDE, SLASHED, bond_of, restitution_of, stake_of
from protocol.spec.game.state import (
    Fall,
    OpenAsk,
    RootContest,
    RunningDispute,
    StatementRef,
)
from protocol.spec.game.timing import compute_dispute_clock

# Numbers of the ends in `IContests.Turn`, `IAsks.Ending` and `IDisputes.Stage`.
_CONTEST_ENDS = {4: GameOutcome.STANDS, 5: GameOutcome.FALLS, 6: GameOutcome.MOOT}
_ASK_ENDS = {1: GameOutcome.CLEARED, 2: GameOutcome.CONVICTED, 3: GameOutcome.MOOT}
_DISPUTE_ENDS = {7: GameOutcome.CLEARED, 8: GameOutcome.CONVICTED, 9: GameOutcome.MOOT}
_LOSSES = (GameOutcome.STANDS, GameOutcome.CLEARED)
"""Who opened it has lost its bond."""


# --- Contests -----------------------------------------------------------------------------------------------
def take_contested(ledger: Ledger, values: Values) -> None:
    """Contested: it contests the posting that stands now."""
    number, index = ledger.open(values["id"]), int(values["round"])
    until, clock = ledger.state.rounds[index].root_until, int(values["clock_block"])
    opened = RootContest(number, index, values["root"], until, values["contester"], ContestTurn.ANSWER, clock)
    ledger.emit(ContestMoved(opened))
    ledger.move(OUTSIDE, bond_of(number), values["bond_wei"])


def take_nodes_posted(ledger: Ledger, values: Values) -> None:
    """NodesPosted: the contester has to name one."""
    _move_contest(ledger, values, turn=ContestTurn.CONTESTER, answerer=values["answerer"])


def take_child_named(ledger: Ledger, values: Values) -> None:
    """ChildNamed: a node to be answered, or the leaf."""
    contest = ledger.state.contests[ledger.game.names[values["id"]]]
    level = contest.level + 1
    is_leaf = level >= ledger.state.terms.contest_levels
    _move_contest(ledger, values, turn=ContestTurn.LEAF if is_leaf else ContestTurn.ANSWER, level=level)


def _move_contest(ledger: Ledger, values: Values, **changes: object) -> None:
    contest = ledger.state.contests[ledger.game.names[values["id"]]]
    changes["clock"] = int(values["clock_block"])
    ledger.emit(ContestMoved(replace(contest, **changes)))  # type: ignore[arg-type]


def take_contest_ended(ledger: Ledger, values: Values) -> None:
    """ContestEnded. A fall is told by the logs behind it."""
    number, outcome = ledger.close(values["id"]), _CONTEST_ENDS[int(values["outcome"])]
    _end_bond(ledger, number, outcome)
    ledger.emit(ContestOver(number, outcome))


def _end_bond(ledger: Ledger, number: int, outcome: GameOutcome) -> None:
    """Who was put to the trouble, or who gets its bond back, is outside."""
    if outcome in _LOSSES:
        forfeit_bond(ledger, number, "")
    else:
        return_bond(ledger, number, "")


# --- Asks and disputes --------------------------------------------------------------------------------------
def take_ask_opened(ledger: Ledger, values: Values) -> None:
    """AskOpened."""
    number, vote = ledger.open(values["id"]), read_vote(values["vote"])
    ref = StatementRef(vote.round, vote.slot, vote.draw, vote.rank)
    place = (number, ref, int(values["seat"]), vote.word, int(values["leaf"]))
    ledger.emit(AskOpened(OpenAsk(*place, values["asker"], int(values["last_block"]))))
    ledger.move(OUTSIDE, bond_of(number), values["bond_wei"])


def take_ask_ended(ledger: Ledger, values: Values) -> None:
    """AskEnded. A conviction is told by the logs behind it."""
    number, outcome = ledger.close(values["id"]), _ASK_ENDS[int(values["ending"])]
    _end_bond(ledger, number, outcome)
    ledger.emit(AskOver(number, outcome))


def take_dispute_opened(ledger: Ledger, values: Values) -> None:
    """DisputeOpened. The log has the clock of the first turn, the machine that of the last."""
    number, ref = ledger.open(values["dispute"]), read_statement(values["statement"])
    clock = compute_dispute_clock(ledger.state, ledger.block)
    opened = RunningDispute(number, ref, int(values["seat"]), values["opener"], clock)
    ledger.emit(StatementDisputed(opened))
    ledger.move(OUTSIDE, bond_of(number), values["bond_wei"])


def take_dispute_ended(ledger: Ledger, values: Values) -> None:
    """DisputeEnded. A conviction is told by the logs behind it."""
    number, outcome = ledger.close(values["dispute"]), _DISPUTE_ENDS[int(values["outcome"])]
    _end_bond(ledger, number, outcome)
    ledger.emit(DisputeOver(number, outcome))


# --- Convictions --------------------------------------------------------------------------------------------
def take_seat_convicted(ledger: Ledger, values: Values) -> None:
    """SeatConvicted: the stake is taken. Who shares it is told by the log behind it."""
    ledger.emit(SeatConvicted(int(values["seat"]), ProofKind(int(values["proof"])), None))
    ledger.move(stake_of(int(values["seat"])), SLASHED, values["stake_wei"])


def take_statement_convicted(ledger: Ledger, values: Values) -> None:
    """StatementConvicted: of what the seat was convicted."""
    ref, proof = read_statement(values["statement"]), ProofKind(int(values["proof"]))
    ledger.emit(SeatConvicted(int(values["seat"]), proof, ref))
    ledger.share_slash()


def take_pay_restored(ledger: Ledger, values: Values) -> None:
    """PayRestored: out of what the slash would have burned."""
    index, slot = int(values["round"]), int(values["slot"])
    ledger.move(BURNED, OUTSIDE, values["wei_"])
    burn_lost_pay(ledger, ledger.state.rounds[index], slot)
    ledger.emit(PayRestored(index, slot))


def take_restitution_held(ledger: Ledger, values: Values) -> None:
    """RestitutionHeld: the end of a fall."""
    number, held = int(values["fall"]), int(values["held_wei"])
    owed = int(values["owed_wei"])
    ledger.emit(PayHeld(Fall(number, int(values["first_round"]), int(values["last_round"]), owed, held)))
    ledger.share_slash(restitution_of(number), held)
