"""Lets solvers take turns: if one does not act for a while, the next one does."""

from collections.abc import Hashable, Iterator

from touchstone.node.kit.duty import Duty, RoomTools, Wait
from touchstone.node.kit.view import View
from touchstone.node.records.round_seats import list_open_solvers
from touchstone.protocol.spec.game.state import GameRound, GameState

SPREAD_BLOCKS = 2
"""Blocks that each node in line waits for the one before it."""


MARGIN_DIVISOR = 8
"""A node hands in votes that no node has handed in when an eighth of `audit_max` is left."""


FAR = 1 << 62
"""A block number that never comes."""


def rotate(
    view: View, game_round: GameRound, since: int, block: int, duty: Duty[RoomTools]
) -> Duty[RoomTools] | Wait:
    """Returns the duty if it is this node's turn, else a wait for its turn. From block `since` on, when the
    window is nearly over, the turn goes round and round. New votes may come at any time, and two nodes must
    not hand in the same votes at once."""
    margin, count = get_margin(view.game), max(1, len(list_open_solvers(view.game, game_round)))
    blocks = SPREAD_BLOCKS if margin >= SPREAD_BLOCKS * count else 1
    groups = min(count, max(1, margin // blocks))
    group = min(compute_rank(view, game_round) * groups // count, groups - 1)
    turns = (block - since) // blocks
    until = (group - turns) % groups
    return duty if until == 0 else Wait(since + (turns + until) * blocks)


def get_margin(state: GameState) -> int:
    """Returns the number of blocks at the end of a window in which it counts as nearly over."""
    return max(SPREAD_BLOCKS, state.terms.windows.audit_max // MARGIN_DIVISOR)


def take_turn(
    view: View, game_round: GameRound, what: Hashable, block: int, duty: Duty[RoomTools], last: int = FAR
) -> Iterator[Duty[RoomTools] | Wait]:
    """Yields the duty if it is this node's turn, else a wait for its turn. Turns are counted from the block
    in which the duty was first seen to be due; `last` is the last block of its window. In the second half of
    the remaining window any node may act, so that silent nodes cannot delay the duty longer."""
    since = view.claims.seen.setdefault((game_round.index, what), block)
    delay = min(SPREAD_BLOCKS * compute_rank(view, game_round), max(0, last - since) // 2)
    yield duty if block >= since + delay else Wait(since + delay)


def compute_rank(view: View, game_round: GameRound) -> int:
    """Returns how many nodes act before this one in this round. Solvers come first, starting with another one
    in each round; then all others."""
    accounts = [seat.account for seat in list_open_solvers(view.game, game_round)]
    if view.account not in accounts:
        return len(accounts)
    return (accounts.index(view.account) - game_round.index) % len(accounts)
