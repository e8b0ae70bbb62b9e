"""One contest of an outer root as its events tell it, and whose move it is. Twin of
`contracts/OuterContest.sol`.

The poster opens its tree downwards, the rival names the child that differs, at a leaf anybody hands in the
inputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from protocol.spec.events import Event
from protocol.spec.game_events import ChildNamed, Contested, ContestEnded, NodesPosted
from protocol.spec.merkle import Levels, hash_node
from protocol.spec.params import ZERO_WORD

FANOUT_LEVELS = 4
"""Levels that the poster opens in one move: 16 nodes, so three moves reach any leaf of a million
parameters."""


class Turn(IntEnum):
    """Whose move it is. LEAF: anybody's, and the rival loses when nobody moves."""

    NONE = 0
    POSTER = 1
    RIVAL = 2
    LEAF = 3


@dataclass(frozen=True)
class ContestState:
    """A running contest: at node `index` of `level` (0 the root) of one tensor tree (0 W, 1 M)."""

    task: bytes
    round: int
    rival: str
    tensor: int
    clock_block: int
    turn: Turn
    level: int = 0
    index: int = 0
    nodes: tuple[bytes, ...] = ()

    @property
    def key(self) -> tuple[bytes, int, str]:
        """Its name: each rival plays one contest a round."""
        return self.task, self.round, self.rival


def start_contest(event: Contested, depth: int) -> ContestState:
    """A contest from the event that opens it; `depth` of the tensor trees."""
    turn = Turn.LEAF if depth == 0 else Turn.POSTER
    return ContestState(event.task, event.round, event.rival, event.tensor, event.clock_block, turn)


def process_contest_event(state: ContestState, event: Event, depth: int) -> ContestState:
    """The contest after one event; those of other contests leave it as it is."""
    if not isinstance(event, NodesPosted | ChildNamed | ContestEnded):
        return state
    if (event.task, event.round, event.rival) != state.key:
        return state
    match event:
        case NodesPosted():
            return replace(state, turn=Turn.RIVAL, nodes=event.nodes, clock_block=event.clock_block)
        case ChildNamed():
            turn = Turn.LEAF if event.level == depth else Turn.POSTER
            moved = replace(state, level=event.level, index=event.index)
            return replace(moved, turn=turn, nodes=(), clock_block=event.clock_block)
        case ContestEnded():
            return replace(state, turn=Turn.NONE)


def is_move_of(state: ContestState, account: str, poster: str) -> bool:
    """Whether `account` has to move. A leaf concerns both sides."""
    movers = {Turn.POSTER: (poster,), Turn.RIVAL: (state.rival,), Turn.LEAF: (poster, state.rival)}
    return account in movers.get(state.turn, ())


def compute_nodes_below(levels: Levels, level: int, index: int) -> list[bytes]:
    """The nodes at most FANOUT_LEVELS below a node of a tree, left to right; padding where there is no leaf.

    `levels` from the leaves up, as `merkle.compute_levels` gives them; `level` counts from the root."""
    depth = len(levels) - 1
    down = min(FANOUT_LEVELS, depth - level)
    height, first = depth - level - down, index << down
    row, padding = levels[height], compute_padding(height)
    return [row[place] if place < len(row) else padding for place in range(first, first + (1 << down))]


def compute_padding(height: int) -> bytes:
    """The node `height` above the leaves that holds only missing leaves."""
    padding = ZERO_WORD
    for _ in range(height):
        padding = hash_node(padding, padding)
    return padding


def find_differing(own: Sequence[bytes], posted: Sequence[bytes]) -> int | None:
    """Position of the first node that differs, None where all are equal."""
    return next((i for i, (a, b) in enumerate(zip(own, posted, strict=True)) if a != b), None)
