"""What is said inside disputes and asks, folded from their events; whose move it is, and until when.

    claimant: ROOTS       TRACE        LEAVES (if demanded)
    opener:         NAME        PROVE         LAST

Twin of the stages of `Disputes.sol`. The machine (`disputes.py`) sees a dispute from outside: which account
opened it on which seat. A node that plays in one needs what is here: its moves, and the last block of each.

The moves are folded from the events of `Disputes.sol` and `Asks.sol`. Events come as they are decoded: the
name as in Solidity, values by their names in snake case.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum, IntEnum
from typing import Any

from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Vote, VoteWord

LEAVES_MAX = 8
"""Leaves that an opener may demand, once in a dispute."""


class DisputeStage(IntEnum):
    """Where a dispute stands; the last three are ends."""

    ROOTS = 1
    NAME = 2
    TRACE = 3
    PROVE = 4
    LEAVES = 5
    LAST = 6
    CLEARED = 7
    CONVICTED = 8
    MOOT = 9


class AskEnding(IntEnum):
    """How an ask ended."""

    OPEN = 0
    CLEARED = 1
    CONVICTED = 2
    MOOT = 3


@dataclass(frozen=True)
class DemandedLeaf:
    """A leaf of the buffer at a place of a node (0 its output, 1 and up its operands)."""

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
    """One dispute. seat: of the claimant; clock: the last block of the turn that runs; roots: of the k + 1
    states of the segment; shown: bytes of demanded leaves, in their order."""

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
        """Whether it can still move."""
        return self.stage <= DisputeStage.LAST


@dataclass(frozen=True)
class InnerAsk:
    """One ask. vote: whose signer is asked; clock: the last block for an answer."""

    name: bytes
    seat: int
    vote: Vote
    leaf: int
    asker: str
    clock: int
    ending: AskEnding = AskEnding.OPEN

    @property
    def statement(self) -> StatementRef:
        """The place of the vote."""
        return StatementRef(self.vote.round, self.vote.slot, self.vote.draw, self.vote.rank)


@dataclass(frozen=True)
class InnerBook:
    """All disputes and asks of a task by their names on chain. respond: the task's window for one answer."""

    respond: int
    disputes: Mapping[bytes, InnerDispute] = field(default_factory=dict)
    asks: Mapping[bytes, InnerAsk] = field(default_factory=dict)


class Move(Enum):
    """What an account may do in a dispute."""

    POST_ROOTS = "post roots"
    NAME_STEP = "name a step"
    POST_TRACE = "post the trace"
    PROVE = "prove"
    DEMAND = "demand leaves"
    SHOW_LEAVES = "show leaves"
    END = "end"


CLAIMANT_MOVES = {
    DisputeStage.ROOTS: (Move.POST_ROOTS,),
    DisputeStage.TRACE: (Move.POST_TRACE,),
    DisputeStage.LEAVES: (Move.SHOW_LEAVES,),
}
"""Stages in which silence convicts."""
OPENER_MOVES = {
    DisputeStage.NAME: (Move.NAME_STEP,),
    DisputeStage.PROVE: (Move.PROVE, Move.DEMAND),
    DisputeStage.LEAVES: (Move.PROVE,),
    DisputeStage.LAST: (Move.PROVE,),
}
"""What the opener may do; in LEAVES it need not wait for the leaves."""
TURNS_LEFT = {
    DisputeStage.ROOTS: 5,
    DisputeStage.NAME: 4,
    DisputeStage.TRACE: 3,
    DisputeStage.PROVE: 2,
    DisputeStage.LEAVES: 1,
    DisputeStage.LAST: 0,
}
"""How many turns may follow the one that runs, each of `respond` blocks."""


def list_moves(
    dispute: InnerDispute, account: str, claimant: str, block: int, is_closed: bool = False
) -> tuple[Move, ...]:
    """What `account` may do in `block`. claimant: the account of the accused seat; is_closed: whether that
    seat was convicted elsewhere. Then the dispute has no object, and any account may end it."""
    if not dispute.is_open:
        return ()
    if is_closed or block > dispute.clock:
        return (Move.END,)
    moves: tuple[Move, ...] = ()
    if account == claimant:
        moves += CLAIMANT_MOVES.get(dispute.stage, ())
    if account == dispute.opener:
        moves += OPENER_MOVES.get(dispute.stage, ())
    return moves


def find_outcome(dispute: InnerDispute, is_closed: bool = False) -> DisputeStage:
    """How a dispute ends whose clock has run out: who was silent at its turn loses."""
    if is_closed:
        return DisputeStage.MOOT
    return DisputeStage.CONVICTED if dispute.stage in CLAIMANT_MOVES else DisputeStage.CLEARED


def compute_last_end(dispute: InnerDispute, respond: int) -> int:
    """The first block from which on any account can end the dispute, however it is played."""
    return dispute.clock + respond * TURNS_LEFT.get(dispute.stage, 0) + 1


def is_pursued(
    dispute: InnerDispute, own_step: int | None, until_block: int, margin: int, respond: int
) -> bool:
    """Whether another's dispute makes one's own on the same statement needless (findings, H1): it names the
    very step that one would name, and must end, however it is played, `margin` blocks before the last block
    in which one's own can be opened."""
    is_same = own_step is not None and dispute.step == own_step
    is_in_time = compute_last_end(dispute, respond) + margin <= until_block
    return dispute.is_open and is_same and is_in_time


def list_disputed_segments(book: InnerBook, claim: StatementRef, account: str) -> set[int]:
    """Segments of a claim of `account` whose start it needs: the claim is disputed there, or `account` itself
    disputes a vote on it."""
    return {
        one.segment
        for one in book.disputes.values()
        if one.is_open and (one.statement == claim or is_about_own(one, claim, account))
    }


def is_about_own(dispute: InnerDispute, claim: StatementRef, account: str) -> bool:
    """Whether `account` has opened a dispute on a vote about a claim, which is its own."""
    ref = dispute.statement
    is_vote = ref.draw is not None and (ref.round, ref.slot) == (claim.round, claim.slot)
    return is_vote and dispute.opener == account


def is_answerable(ask: InnerAsk, block: int) -> bool:
    """Whether an answer can still be given in `block`."""
    return ask.ending == AskEnding.OPEN and block <= ask.clock


NO_DRAW = (1 << 32) - 1
"""In place of a draw: the statement is the claim."""
Values = Mapping[str, Any]


def fold_inner(book: InnerBook, event: str, values: Values, block: int) -> InnerBook:
    """The book after an event of the task, named as in Solidity, that was logged in `block`; events of other
    contracts change nothing."""
    return _FOLDS[event](book, values, block) if event in _FOLDS else book


def _fold_opened(book: InnerBook, values: Values, block: int) -> InnerBook:
    statement, segment = _read_statement(values["statement"]), int(values["segment"])
    place = (bytes(values["dispute"]), int(values["seat"]), statement, segment)
    opened = InnerDispute(*place, str(values["opener"]).lower(), int(values["clock_block"]))
    return _put(book, opened)


def _read_statement(ref: Any) -> StatementRef:
    draw = None if ref.draw == NO_DRAW else int(ref.draw)
    return StatementRef(int(ref.round), int(ref.slot), draw, int(ref.rank))


def read_vote(said: Any) -> Vote:
    """A vote as a log names it."""
    vote = Vote(**{one.name: getattr(said, one.name) for one in fields(Vote)})
    return replace(vote, word=VoteWord(vote.word))


def _fold_roots(book: InnerBook, values: Values, block: int) -> InnerBook:
    return _move(book, values, DisputeStage.NAME, roots=tuple(values["roots"]))


def _fold_named(book: InnerBook, values: Values, block: int) -> InnerBook:
    return _move(book, values, DisputeStage.TRACE, step=int(values["step"]))


def _fold_traced(book: InnerBook, values: Values, block: int) -> InnerBook:
    trace = PostedTrace(bytes(values["trace_root"]), values["start"], values["end"])
    return _move(book, values, DisputeStage.PROVE, trace=trace)


def _fold_demanded(book: InnerBook, values: Values, block: int) -> InnerBook:
    dispute = _find(book, values)
    leaf = DemandedLeaf(int(values["node"]), int(values["place"]), int(values["leaf_index"]))
    return _put(book, replace(dispute, demands=(*dispute.demands, leaf)))


def _fold_due(book: InnerBook, values: Values, block: int) -> InnerBook:
    return _move(book, values, DisputeStage.LEAVES)


def _fold_shown(book: InnerBook, values: Values, block: int) -> InnerBook:
    dispute = _find(book, values)
    dispute = replace(dispute, shown=(*dispute.shown, bytes(values["leaf"])))
    if len(dispute.shown) == len(dispute.demands):
        dispute = replace(dispute, stage=DisputeStage.LAST, clock=block + book.respond)
    return _put(book, dispute)


def _fold_ended(book: InnerBook, values: Values, block: int) -> InnerBook:
    return _put(book, replace(_find(book, values), stage=DisputeStage(int(values["outcome"]))))


def _fold_asked(book: InnerBook, values: Values, block: int) -> InnerBook:
    vote, asker = read_vote(values["vote"]), str(values["asker"]).lower()
    place = (bytes(values["id"]), int(values["seat"]), vote, int(values["leaf"]))
    asked = InnerAsk(*place, asker, int(values["last_block"]))
    return replace(book, asks={**book.asks, asked.name: asked})


def _fold_ask_ended(book: InnerBook, values: Values, block: int) -> InnerBook:
    name = bytes(values["id"])
    ended = replace(book.asks[name], ending=AskEnding(int(values["ending"])))
    return replace(book, asks={**book.asks, name: ended})


def _find(book: InnerBook, values: Values) -> InnerDispute:
    return book.disputes[bytes(values["dispute"])]


def _put(book: InnerBook, dispute: InnerDispute) -> InnerBook:
    return replace(book, disputes={**book.disputes, dispute.name: dispute})


def _move(book: InnerBook, values: Values, stage: DisputeStage, **changes: Any) -> InnerBook:
    return _put(book, replace(_find(book, values), stage=stage, clock=int(values["clock_block"]), **changes))


_FOLDS: Mapping[str, Callable[[InnerBook, Values, int], InnerBook]] = {
    "DisputeOpened": _fold_opened,
    "StepRootsPosted": _fold_roots,
    "StepNamed": _fold_named,
    "TracePosted": _fold_traced,
    "LeafDemanded": _fold_demanded,
    "LeavesDue": _fold_due,
    "LeafShown": _fold_shown,
    "DisputeEnded": _fold_ended,
    "AskOpened": _fold_asked,
    "AskEnded": _fold_ask_ended,
}
