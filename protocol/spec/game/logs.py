"""Computes the machine's state of a task from the contracts' events.

Events come decoded: the name as in Solidity, values by their names in snake case. Each becomes events of the
machine, which `reducer.py` applies to the state. A node that applies all events of a task in the chain's
order has the contracts' state.

A contract's event says less than the machine's. The rest follows from the state: how deep a contest is, when
a dispute ends at the latest, how a slash is split.
"""

from collections.abc import Callable, Mapping

from touchstone.protocol.spec.game import events
from touchstone.protocol.spec.game.challenge_logs import (
    apply_child_named,
    apply_contest_ended,
    apply_contested,
    apply_dispute_ended,
    apply_dispute_opened,
    apply_given,
    apply_nodes_posted,
    apply_query_ended,
    apply_query_opened,
)
from touchstone.protocol.spec.game.conviction_logs import (
    apply_pay_restored,
    apply_restitution_held,
    apply_root_fell,
    apply_seat_convicted,
    apply_statement_convicted,
)
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.events import GameEvent
from touchstone.protocol.spec.game.log_values import Values, list_bits
from touchstone.protocol.spec.game.logged_game import Ledger, LoggedGame
from touchstone.protocol.spec.game.seat_logs import (
    apply_claimed_revenue,
    apply_closed,
    apply_freed,
    apply_joined,
    apply_revenue,
    apply_settled,
    apply_topped_up,
)
from touchstone.protocol.spec.game.state import compute_seat_id
from touchstone.protocol.spec.statements import VoteWord

VOTE_BYTES = 4
"""Slot, draw, rank and verdict of a vote, a byte each."""


def apply_log(game: LoggedGame, name: str, values: Values, block: int) -> LoggedGame:
    """Returns the game after an event of its task in `block`. Events with unknown names change nothing."""
    handle = _HANDLERS.get(name)
    if handle is None:
        return game
    ledger = Ledger(game, block)
    handle(ledger, values)
    return ledger.game


def _list_votes(values: Values) -> list[tuple[int, int, int, int]]:
    said = bytes(values["votes"])
    return [tuple(said[i : i + VOTE_BYTES]) for i in range(0, len(said), VOTE_BYTES)]  # type: ignore[misc]


def _apply_counted(ledger: Ledger, values: Values) -> None:
    for slot, draw, rank, word in _list_votes(values):
        ledger.emit(events.VoteCounted(int(values["round"]), slot, draw, rank, VoteWord(word)))


def _apply_opened(ledger: Ledger, values: Values) -> None:
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
    "StartDrawn": lambda v: events.StartDrawn(v["randomness"]),
    "RoundOpened": lambda v: events.RoundOpened(v["round"], v["base_root"]),
    "RoundAssigned": lambda v: events.RoundAssigned(v["round"], v["randomness"]),
    "ClaimTaken": lambda v: events.ClaimTaken(v["round"], v["slot"], v["claim_root"], v["segments"]),
    "RoundClosed": lambda v: events.RoundClosed(v["round"], v["closing_block"]),
    "AuditsDrawn": lambda v: events.AuditsDrawn(v["round"], v["randomness"]),
    "ClosingDrawn": lambda v: events.ClosingDrawn(v["from_block"], v["randomness"]),
    "RootPosted": _make_posted,
    "RootStood": lambda v: events.RootStood(v["round"]),
    "TaskPaused": lambda v: events.TaskPaused(),
}
"""Events of the contracts that equal one of the machine's."""


def _apply_same(name: str) -> Callable[[Ledger, Values], None]:
    return lambda ledger, values: ledger.emit(_SAME[name](values))


_HANDLERS: Mapping[str, Callable[[Ledger, Values], None]] = {
    **{name: _apply_same(name) for name in _SAME},
    "SeatJoined": apply_joined,
    "SeatToppedUp": apply_topped_up,
    "SeatFreed": apply_freed,
    "SeatSettled": apply_settled,
    "TaskClosed": apply_closed,
    "RevenuePaid": apply_revenue,
    "RevenueClaimed": apply_claimed_revenue,
    "VotesCounted": _apply_counted,
    "VotesOpened": _apply_opened,
    "SeatConvicted": apply_seat_convicted,
    "RootFell": apply_root_fell,
    "StatementConvicted": apply_statement_convicted,
    "PayRestored": apply_pay_restored,
    "RestitutionHeld": apply_restitution_held,
    "Contested": apply_contested,
    "NodesPosted": apply_nodes_posted,
    "ChildNamed": apply_child_named,
    "ContestEnded": apply_contest_ended,
    "QueryOpened": apply_query_opened,
    "QueryEnded": apply_query_ended,
    "DisputeOpened": apply_dispute_opened,
    "DisputeEnded": apply_dispute_ended,
    "Given": apply_given,
}
