"""Folds the moves inside a contest from the events of `Contests.sol`, and says whose turn it is.

Events come decoded: the name as in Solidity, values by their names in snake case.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from touchstone.protocol.spec.contest_tree import compute_nodes_below
from touchstone.protocol.spec.game.log_values import Values
from touchstone.protocol.spec.merkle import Levels


class InnerTurn(IntEnum):
    """Whose move a contest waits for; the last three are outcomes. As in `IContests.Turn`."""

    ANSWER = 1
    CONTESTER = 2
    LEAF = 3
    HOLDS = 4
    FALLS = 5
    MOOT = 6


ENDED = frozenset({InnerTurn.HOLDS, InnerTurn.FALLS, InnerTurn.MOOT})


@dataclass(frozen=True)
class InnerContest:
    """A contest by its events. `tensor` is 0 for weights, 1 for momentum. `level` is 0 at the posted root,
    else 1 + the depth of the contested node in its tensor's tree, where it is node `index`. `nodes` were
    posted by the last answer. `clock` is the last block of the next move."""

    name: bytes
    round: int
    root: bytes
    contester: str
    clock: int
    turn: InnerTurn = InnerTurn.ANSWER
    tensor: int = 0
    level: int = 0
    index: int = 0
    nodes: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class ContestFolds:
    """The contests of one task by their names. `depth` is the depth of the task's tensor trees."""

    depth: int
    contests: Mapping[bytes, InnerContest] = field(default_factory=dict)


def fold_contest(book: ContestFolds, event: str, values: Values) -> ContestFolds:
    """Returns the book after an event of the task. Events of other contracts change nothing."""
    if event not in _FOLDS:
        return book
    contest = _FOLDS[event](book, values)
    return replace(book, contests={**book.contests, contest.name: contest})


def _fold_contested(book: ContestFolds, values: Values) -> InnerContest:
    place = (bytes(values["id"]), int(values["round"]), bytes(values["root"]))
    return InnerContest(*place, str(values["contester"]).lower(), int(values["clock_block"]))


def _fold_posted(book: ContestFolds, values: Values) -> InnerContest:
    nodes, clock = tuple(values["nodes"]), int(values["clock_block"])
    contest = book.contests[bytes(values["id"])]
    return replace(contest, turn=InnerTurn.CONTESTER, nodes=nodes, clock=clock)


def _fold_named(book: ContestFolds, values: Values) -> InnerContest:
    depth = int(values["level"])
    turn = InnerTurn.LEAF if depth == book.depth else InnerTurn.ANSWER
    contest = book.contests[bytes(values["id"])]
    moved = replace(contest, turn=turn, nodes=(), clock=int(values["clock_block"]))
    return replace(moved, tensor=int(values["tensor"]), level=1 + depth, index=int(values["index"]))


def _fold_ended(book: ContestFolds, values: Values) -> InnerContest:
    return replace(book.contests[bytes(values["id"])], turn=InnerTurn(int(values["outcome"])))


_FOLDS: Mapping[str, Callable[[ContestFolds, Values], InnerContest]] = {
    "Contested": _fold_contested,
    "NodesPosted": _fold_posted,
    "ChildNamed": _fold_named,
    "ContestEnded": _fold_ended,
}


def compute_answer(contest: InnerContest, tensor: Levels) -> tuple[bytes, ...]:
    """Returns the nodes that an answer shows below a contested node of a tensor's tree. `tensor` is all
    levels of that tree, leaves first."""
    return tuple(compute_nodes_below(tensor, contest.level - 1, contest.index))
