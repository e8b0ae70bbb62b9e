"""Tells an operator news of its task that it could not notice otherwise."""

from collections.abc import Iterator

from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake, get_stake, is_sitting
from touchstone.protocol.spec.game.timing import get_live_round
from touchstone.protocol.spec.tokens import format_tokens


def list_news(game: LoggedGame, account: str) -> Iterator[str]:
    """Yields two kinds of news: no further round opens (seats are paid out days later), and the operator's
    own seat is in no round."""
    seat = find_seat(game, account)
    is_through = game.next_round >= game.terms.rounds and get_live_round(game) is None
    if game.is_halted or is_through:
        cause = "the task is halted" if game.is_halted else f"round {game.next_round - 1} was the last"
        yield (
            f"{cause}: no further round opens. Keep this node up until it ends by itself: its work can "
            "still be challenged (`touchstone status` tells until when)"
        )
    elif seat is not None and seat.status == SeatStatus.ACTIVE and not is_sitting(game, seat):
        has_wei, least_wei = get_stake(game, seat.number), get_required_stake(game, seat.role)
        yield (
            f"WARNING: the stake of this seat is {format_tokens(has_wei)}, and the task asks for "
            f"{format_tokens(least_wei)}: it will be in no further round. Raise it (`touchstone stake`), or "
            "leave (`touchstone leave`)"
        )
