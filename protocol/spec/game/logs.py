"""The logs of the round's contracts, folded: what they make of a task is the machine's own state.

Logs come as they are decoded: the event's name as in Solidity, its values by their names in snake case. Each
becomes events of the machine; `reducer.py` does the rest. A node that takes all logs of a task in the chain's
order has the state that the contracts have.

A log says less than the machine's event. What it leaves out follows from the state: how deep a contest is,
by when a dispute is over at the latest, how a slash is shared.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from touchstone.protocol.spec.game import events
from touchstone.protocol.spec.game.bond_outcomes import forfeit_bond, return_bond
from touchstone.protocol.spec.game.compensation import burn_lost_pay
from touchstone.protocol.spec.game.dispute_reducer import read_vote
from touchstone.protocol.spec.game.enums import ContestTurn, GameOutcome, ProofKind, SeatRole
from touchstone.protocol.spec.game.events import (
    AskOpened,
    AskOver,
    ContestMoved,
    ContestOver,
    DisputeOver,
    GameEvent,
    PayHeld,
    PayRestored,
    SeatConvicted,
    StatementDisputed,
)
from touchstone.protocol.spec.game.ledger import (
    Ledger,
    LoggedGame,
    Values,
    list_bits,
    read_statement,
    start_game,
)
from touchstone.protocol.spec.game.money_book import UNNAMED, name_account
from touchstone.protocol.spec.game.pools import get_stake
from touchstone.protocol.spec.game.purse import (
    BURNED,
    ESCROW,
    REVENUE,
    SLASHED,
    bond_of,
    credit_of,
    restitution_of,
    stake_of,
)
from touchstone.protocol.spec.game.restitution import compute_restitution
from touchstone.protocol.spec.game.settling import is_in_pool
from touchstone.protocol.spec.game.state import (
    Fall,
    OpenAsk,
    RootContest,
    RunningDispute,
    StatementRef,
    compute_seat_id,
)
from touchstone.protocol.spec.game.timing import compute_dispute_clock
from touchstone.protocol.spec.statements import VoteWord

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
    ledger.move(credit_of(opened.contester), bond_of(number), values["bond_wei"])


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
    contest = ledger.state.contests[number]
    # Who brought the leaf is told by the purse's log behind it (`take_given`).
    answerer = UNNAMED if contest.turn == ContestTurn.LEAF else contest.answerer or UNNAMED
    _end_bond(ledger, number, outcome, contest.contester, answerer)
    ledger.emit(ContestOver(number, outcome))


def _end_bond(ledger: Ledger, number: int, outcome: GameOutcome, owner: str, answerer: str) -> None:
    """answerer: who was put to the trouble."""
    if outcome in _LOSSES:
        forfeit_bond(ledger, number, answerer)
    else:
        return_bond(ledger, number, owner)


def take_given(ledger: Ledger, values: Values) -> None:
    """Given, of the purse: money of the task's bonds to an account."""
    if UNNAMED in ledger.game.money.accounts:
        money = name_account(ledger.game.money, values["account"])
        ledger.state = replace(ledger.game, money=money)


# --- Asks and disputes --------------------------------------------------------------------------------------
def take_ask_opened(ledger: Ledger, values: Values) -> None:
    """AskOpened."""
    number, vote = ledger.open(values["id"]), read_vote(values["vote"])
    ref = StatementRef(vote.round, vote.slot, vote.draw, vote.rank)
    place = (number, ref, int(values["seat"]), vote.word, int(values["leaf"]))
    ledger.emit(AskOpened(OpenAsk(*place, values["asker"], int(values["last_block"]))))
    ledger.move(credit_of(values["asker"]), bond_of(number), values["bond_wei"])


def take_ask_ended(ledger: Ledger, values: Values) -> None:
    """AskEnded. A conviction is told by the logs behind it."""
    number, outcome = ledger.close(values["id"]), _ASK_ENDS[int(values["ending"])]
    ask = ledger.state.asks[number]
    _end_bond(ledger, number, outcome, ask.asker, ledger.state.seats[ask.seat].account)
    ledger.emit(AskOver(number, outcome))


def take_dispute_opened(ledger: Ledger, values: Values) -> None:
    """DisputeOpened. The log has the clock of the first turn, the machine that of the last."""
    number, ref = ledger.open(values["dispute"]), read_statement(values["statement"])
    clock = compute_dispute_clock(ledger.state, ledger.block)
    opened = RunningDispute(number, ref, int(values["seat"]), values["opener"], clock)
    ledger.emit(StatementDisputed(opened))
    ledger.move(credit_of(opened.opener), bond_of(number), values["bond_wei"])


def take_dispute_ended(ledger: Ledger, values: Values) -> None:
    """DisputeEnded. A conviction is told by the logs behind it."""
    number, outcome = ledger.close(values["dispute"]), _DISPUTE_ENDS[int(values["outcome"])]
    dispute = ledger.state.disputes[number]
    _end_bond(ledger, number, outcome, dispute.opener, ledger.state.seats[dispute.seat].account)
    ledger.emit(DisputeOver(number, outcome))


# --- Convictions --------------------------------------------------------------------------------------------
def take_seat_convicted(ledger: Ledger, values: Values) -> None:
    """SeatConvicted: the stake is taken. It is shared with the log behind it."""
    ledger.state = replace(ledger.game, finder=values["finder"])
    ledger.emit(SeatConvicted(int(values["seat"]), ProofKind(int(values["proof"])), None))
    ledger.move(stake_of(int(values["seat"])), SLASHED, values["stake_wei"])


def take_statement_convicted(ledger: Ledger, values: Values) -> None:
    """StatementConvicted: of what the seat was convicted."""
    ref, proof = read_statement(values["statement"]), ProofKind(int(values["proof"]))
    ledger.emit(SeatConvicted(int(values["seat"]), proof, ref))
    ledger.share_slash()


def take_pay_restored(ledger: Ledger, values: Values) -> None:
    """PayRestored: out of what the slash would have burned."""
    index, slot, account = int(values["round"]), int(values["slot"]), values["account"]
    ledger.move(BURNED, credit_of(account), values["wei_"])
    burn_lost_pay(ledger, ledger.state.rounds[index], slot)
    ledger.emit(PayRestored(index, slot, account, values["wei_"]))


def take_restitution_held(ledger: Ledger, values: Values) -> None:
    """RestitutionHeld: the end of a fall."""
    number, held = int(values["fall"]), int(values["held_wei"])
    owed = int(values["owed_wei"])
    ledger.emit(PayHeld(Fall(number, int(values["first_round"]), int(values["last_round"]), owed, held)))
    ledger.share_slash(restitution_of(number), held)


__all__ = ["LoggedGame", "start_game", "take_log"]
VOTE_BYTES = 4
"""slot, draw, rank and word of a vote, a byte each."""


def take_log(game: LoggedGame, name: str, values: Values, block: int) -> LoggedGame:
    """The game after a log of its task that stands in `block`. Names that the round does not know change
    nothing."""
    take = _TAKERS.get(name)
    if take is None:
        return game
    ledger = Ledger(game, block)
    take(ledger, values)
    return ledger.game


# --- Seats and the task -------------------------------------------------------------------------------------
def _take_joined(ledger: Ledger, values: Values) -> None:
    seat = int(values["seat"])
    ledger.emit(events.SeatJoined(seat, SeatRole(seat >> 16), values["account"]))
    ledger.move(credit_of(values["account"]), stake_of(seat), values["stake_wei"])


def _take_topped_up(ledger: Ledger, values: Values) -> None:
    seat = int(values["seat"])
    ledger.move(credit_of(ledger.state.seats[seat].account), stake_of(seat), values["wei_"])


def _take_freed(ledger: Ledger, values: Values) -> None:
    seat = int(values["seat"])
    account = ledger.state.seats[seat].account
    ledger.move(stake_of(seat), credit_of(account), get_stake(ledger.state, seat))
    ledger.emit(events.SeatFreed(seat))


def _take_settled(ledger: Ledger, values: Values) -> None:
    """The log has the sums of pay and fees; what a slash holds for undone rounds is computed."""
    seat, until = ledger.state.seats[int(values["seat"])], int(values["until_round"])
    credit = credit_of(seat.account)
    for index in range(seat.settled, until + 1):
        game_round = ledger.state.rounds[index]
        if is_in_pool(game_round, seat):
            fall, wei = compute_restitution(ledger.state, seat, game_round, ledger.block)
            ledger.move(restitution_of(fall), credit, wei)
    ledger.move(ESCROW, credit, values["paid_wei"])
    ledger.move(ESCROW, BURNED, values["burned_wei"])
    ledger.move(stake_of(seat.number), BURNED, values["fee_wei"])
    ledger.emit(events.SeatSettled(seat.number, until))


def _take_closed(ledger: Ledger, values: Values) -> None:
    for fall in ledger.state.falls:
        pot = restitution_of(fall.number)
        ledger.move(pot, BURNED, ledger.state.purse.get_wei(pot))
    ledger.move(ESCROW, credit_of(ledger.state.terms.submitter), values["refund_wei"])
    ledger.emit(events.GameClosed())


def _take_revenue(ledger: Ledger, values: Values) -> None:
    ledger.move(credit_of(values["payer"]), REVENUE, values["wei_"])


def _take_claimed_revenue(ledger: Ledger, values: Values) -> None:
    ledger.move(REVENUE, credit_of(values["holder"]), values["wei_"])


# --- Votes and roots ----------------------------------------------------------------------------------------
def _list_votes(values: Values) -> list[tuple[int, int, int, int]]:
    said = bytes(values["votes"])
    return [tuple(said[i : i + VOTE_BYTES]) for i in range(0, len(said), VOTE_BYTES)]  # type: ignore[misc]


def _take_counted(ledger: Ledger, values: Values) -> None:
    for slot, draw, rank, word in _list_votes(values):
        ledger.emit(events.VoteCounted(int(values["round"]), slot, draw, rank, VoteWord(word)))


def _take_opened(ledger: Ledger, values: Values) -> None:
    for slot, draw, rank, _ in _list_votes(values):
        ledger.emit(events.VoteOpened(int(values["round"]), slot, draw, rank))


def _make_posted(v: Values) -> GameEvent:
    signers = tuple(compute_seat_id(SeatRole.SOLVER, number) for number in list_bits(v["signers"]))
    return events.RootPosted(v["round"], v["root"], list_bits(v["merged"]), signers)


_SAME: Mapping[str, Callable[[Values], GameEvent]] = {
    "SeatLeft": lambda v: events.SeatLeft(v["seat"]),
    "TaskHalted": lambda v: events.TaskHalted(),
    "EpochFreed": lambda v: events.EpochFreed(v["epoch"]),
    "StartAsked": lambda v: events.StartAsked(v["first_round"], v["beacon_block"]),
    "StartSealed": lambda v: events.StartSealed(v["randomness"]),
    "RoundOpened": lambda v: events.RoundOpened(v["round"], v["base_root"]),
    "RoundDealt": lambda v: events.RoundDealt(v["round"], v["randomness"]),
    "ClaimTaken": lambda v: events.ClaimTaken(v["round"], v["slot"], v["claim_root"], v["segments"]),
    "RoundClosed": lambda v: events.RoundClosed(v["round"], v["closing_block"]),
    "AuditsDrawn": lambda v: events.AuditsDrawn(v["round"], v["randomness"]),
    "ClosingDrawn": lambda v: events.ClosingDrawn(v["from_block"], v["randomness"]),
    "RootPosted": _make_posted,
    "RootStood": lambda v: events.RootStood(v["round"]),
    "TaskStood": lambda v: events.TaskStood(),
    "RootFell": lambda v: events.RootFell(v["round"]),
}
"""Logs that say what an event of the machine says."""


def _take_same(name: str) -> Callable[[Ledger, Values], None]:
    return lambda ledger, values: ledger.emit(_SAME[name](values))


_TAKERS: Mapping[str, Callable[[Ledger, Values], None]] = {
    **{name: _take_same(name) for name in _SAME},
    "SeatJoined": _take_joined,
    "SeatToppedUp": _take_topped_up,
    "SeatFreed": _take_freed,
    "SeatSettled": _take_settled,
    "GameClosed": _take_closed,
    "RevenuePaid": _take_revenue,
    "RevenueClaimed": _take_claimed_revenue,
    "VotesCounted": _take_counted,
    "VotesOpened": _take_opened,
    "SeatConvicted": take_seat_convicted,
    "StatementConvicted": take_statement_convicted,
    "PayRestored": take_pay_restored,
    "RestitutionHeld": take_restitution_held,
    "Contested": take_contested,
    "NodesPosted": take_nodes_posted,
    "ChildNamed": take_child_named,
    "ContestEnded": take_contest_ended,
    "AskOpened": take_ask_opened,
    "AskEnded": take_ask_ended,
    "DisputeOpened": take_dispute_opened,
    "DisputeEnded": take_dispute_ended,
    "Given": take_given,
}
