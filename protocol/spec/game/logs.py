"""The logs of the round's contracts, folded: what they make of a task is the machine's own state.

Logs come as they are decoded: the event's name as in Solidity, its values by their names in snake case. Each
becomes events of the machine; `folding.py` does the rest. A node that takes all logs of a task in the chain's
order has the state that the contracts have.
"""

from collections.abc import Callable, Mapping

from protocol.spec.game import events, logged_questions
from protocol.spec.game.earnings import compute_restitution
from protocol.spec.game.enums import SeatRole
from protocol.spec.game.events import GameEvent
from protocol.spec.game.ledger import Ledger, LoggedGame, Values, list_bits
from protocol.spec.game.logged_terms import start_game
from protocol.spec.game.pools import get_stake
from protocol.spec.game.purse import BURNED, ESCROW, OUTSIDE, restitution_of, stake_of
from protocol.spec.game.settling import is_in_pool
from protocol.spec.game.state import compute_seat_id
from protocol.spec.statements import VoteWord

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
    ledger.move(OUTSIDE, stake_of(seat), values["stake_wei"])


def _take_topped_up(ledger: Ledger, values: Values) -> None:
    ledger.move(OUTSIDE, stake_of(values["seat"]), values["wei_"])


def _take_freed(ledger: Ledger, values: Values) -> None:
    seat = int(values["seat"])
    ledger.move(stake_of(seat), OUTSIDE, get_stake(ledger.state, seat))
    ledger.emit(events.SeatFreed(seat))


def _take_settled(ledger: Ledger, values: Values) -> None:
    """The log has the sums of pay and fees; what a slash holds for undone rounds is computed."""
    seat, until = ledger.state.seats[int(values["seat"])], int(values["until_round"])
    for index in range(seat.settled, until + 1):
        game_round = ledger.state.rounds[index]
        if is_in_pool(game_round, seat):
            fall, wei = compute_restitution(ledger.state, seat, game_round, ledger.block)
            ledger.move(restitution_of(fall), OUTSIDE, wei)
    ledger.move(ESCROW, OUTSIDE, values["paid_wei"])
    ledger.move(ESCROW, BURNED, values["burned_wei"])
    ledger.move(stake_of(seat.number), BURNED, values["fee_wei"])
    ledger.emit(events.SeatSettled(seat.number, until))


def _take_closed(ledger: Ledger, values: Values) -> None:
    for fall in ledger.state.falls:
        pot = restitution_of(fall.number)
        ledger.move(pot, BURNED, ledger.state.purse.get_wei(pot))
    ledger.move(ESCROW, OUTSIDE, values["refund_wei"])
    ledger.emit(events.GameClosed())


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
    "VotesCounted": _take_counted,
    "VotesOpened": _take_opened,
    "SeatConvicted": logged_questions.take_seat_convicted,
    "StatementConvicted": logged_questions.take_statement_convicted,
    "PayRestored": logged_questions.take_pay_restored,
    "RestitutionHeld": logged_questions.take_restitution_held,
    "Contested": logged_questions.take_contested,
    "NodesPosted": logged_questions.take_nodes_posted,
    "ChildNamed": logged_questions.take_child_named,
    "ContestEnded": logged_questions.take_contest_ended,
    "AskOpened": logged_questions.take_ask_opened,
    "AskEnded": logged_questions.take_ask_ended,
    "DisputeOpened": logged_questions.take_dispute_opened,
    "DisputeEnded": logged_questions.take_dispute_ended,
}
