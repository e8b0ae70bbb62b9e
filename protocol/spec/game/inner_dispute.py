"""A dispute and a query from inside: the stages of `IDisputes.sol`, and what was posted so far.

    claimant: ROOTS       TRACE        LEAVES (if demanded)
    opener:         NAME        PROVE         LAST

The machine (`disputes.py`) sees a dispute from outside: which account opened it on which seat. A node that
takes part needs the inside: the moves (`dispute_moves.py`), and the last block for each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Vote

LEAVES_MAX = 8
"""The most leaves that an opener may demand, once in a dispute."""


class DisputeStage(IntEnum):
    """The stage of a dispute; the last three are outcomes."""

    ROOTS = 1
    NAME = 2
    TRACE = 3
    PROVE = 4
    LEAVES = 5
    LAST = 6
    CLEARED = 7
    CONVICTED = 8
    MOOT = 9


class QueryEnding(IntEnum):
    """How a query ended."""

    OPEN = 0
    CLEARED = 1
    CONVICTED = 2
    MOOT = 3


@dataclass(frozen=True)
class DemandedLeaf:
    """A leaf of the buffer at a place of a node (0 is the output, 1 and up are operands)."""

    node: int
    place: int
    leaf_index: int


@dataclass(frozen=True)
class PostedTrace:
    """What the claimant has posted of the named step: the trace's root and the states around the step."""

    root: bytes
    start: StateHeader
    end: StateHeader


@dataclass(frozen=True)
class InnerDispute:
    """One dispute. `seat` is the claimant's. `clock` is the last block of the present turn. `roots` are the
    roots of the segment's k + 1 states. `shown` are the bytes of demanded leaves, in order."""

    name: bytes
    seat: int
    statement: StatementRef
    segment: int
    opener: str
    clock: int
    stage: DisputeStage = DisputeStage.ROOTS
    roots: tuple[bytes, ...] = ()
    step: int | None = None
    trace: PostedTrace | None = None
    demands: tuple[DemandedLeaf, ...] = ()
    shown: tuple[bytes, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether the dispute has not ended."""
        return self.stage <= DisputeStage.LAST


@dataclass(frozen=True)
class InnerQuery:
    """One query. `vote` is the queried vote; `clock` is the last block for an answer."""

    name: bytes
    seat: int
    vote: Vote
    leaf: int
    asker: str
    clock: int
    ending: QueryEnding = QueryEnding.OPEN

    @property
    def statement(self) -> StatementRef:
        """The place of the vote."""
        return StatementRef(self.vote.round, self.vote.slot, self.vote.draw, self.vote.rank)


@dataclass(frozen=True)
class InnerBook:
    """All disputes and queries of a task by their names on chain. `respond` is the task's window for one
    answer."""

    respond: int
    disputes: Mapping[bytes, InnerDispute] = field(default_factory=dict)
    queries: Mapping[bytes, InnerQuery] = field(default_factory=dict)
