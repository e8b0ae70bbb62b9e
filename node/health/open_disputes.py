"""Counts the open disputes, queries and contests of an account, by side."""

from collections import Counter

from touchstone.node.health.deadlines import ACCUSED, ASK, CONTEST, DISPUTE, OPEN, OPENER, find_side
from touchstone.node.kit.view import View
from touchstone.protocol.adapters.reports.metrics_server import Samples
from touchstone.protocol.spec.game.inner_contest import ENDED
from touchstone.protocol.spec.game.inner_dispute import QueryEnding
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import Seat


def count_disputes(view: View) -> Samples:
    """Counts the disputes, queries and contests that this account opened or has to answer, by outcome."""
    game, account, found = view.game, view.account, Counter[tuple[str, ...]]()
    seat, inner = find_seat(game, account), view.chain_state.inner[view.task]
    for dispute in inner.disputes.values():
        end = OPEN if dispute.is_open else dispute.stage.name.lower()
        found[DISPUTE, _describe_side(seat, dispute.opener, dispute.seat, account), end] += 1
    for ask in inner.queries.values():
        end = OPEN if ask.ending == QueryEnding.OPEN else ask.ending.name.lower()
        found[ASK, _describe_side(seat, ask.asker, ask.seat, account), end] += 1
    for contest in view.chain_state.contests[view.task].contests.values():
        end = contest.turn.name.lower() if contest.turn in ENDED else OPEN
        found[CONTEST, find_side(game, contest.contester, contest.round, account), end] += 1
    return {labels: float(count) for labels, count in found.items() if labels[1]}


def _describe_side(seat: Seat | None, opener: str, accused: int, account: str) -> str:
    if opener == account:
        return OPENER
    return ACCUSED if seat is not None and seat.number == accused else ""
