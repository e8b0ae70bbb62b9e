"""Defines the machine's events, one frozen class each.

An event tells a node all that it needs to update the state. It has no block, because `fold` gets the block in
which the event was logged.
"""

from dataclasses import dataclass

from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind, SeatRole
from touchstone.protocol.spec.game.state import Fall, OpenQuery, RootContest, RunningDispute, StatementRef
from touchstone.protocol.spec.game.vault import Pot
from touchstone.protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class GameEvent:
    """The base of all events."""


@dataclass(frozen=True)
class WeiMoved(GameEvent):
    """Money went from one pot to another."""

    source: Pot
    target: Pot
    wei: int


@dataclass(frozen=True)
class SeatJoined(GameEvent):
    """A seat was taken."""

    seat: int
    role: SeatRole
    account: str


@dataclass(frozen=True)
class SeatLeft(GameEvent):
    """A seat takes part in no pool that is frozen later, because it left, was silent, or was paid out."""

    seat: int


@dataclass(frozen=True)
class SeatConvicted(GameEvent):
    """A seat was convicted. `statement` is the false statement, None for a merge signature."""

    seat: int
    proof: ProofKind
    statement: StatementRef | None


@dataclass(frozen=True)
class SeatFreed(GameEvent):
    """A seat was paid out; its number may be used again."""

    seat: int


@dataclass(frozen=True)
class SeatSettled(GameEvent):
    """A seat has settled all rounds up to and including `until_round`."""

    seat: int
    until_round: int


@dataclass(frozen=True)
class TaskHalted(GameEvent):
    """No later round opens."""


@dataclass(frozen=True)
class EpochFreed(GameEvent):
    """The places of an epoch's rounds may be used again. No call can name these rounds any more."""

    epoch: int


@dataclass(frozen=True)
class TaskClosed(GameEvent):
    """The task is closed."""


@dataclass(frozen=True)
class StartAsked(GameEvent):
    """The pools of one or two rounds were frozen. The randomness of `beacon_block` will be their beacon."""

    first_round: int
    beacon_block: int


@dataclass(frozen=True)
class StartDrawn(GameEvent):
    """The start's beacon is known."""

    randomness: bytes


@dataclass(frozen=True)
class RoundOpened(GameEvent):
    """Members train the round from base_root."""

    round: int
    base_root: bytes


@dataclass(frozen=True)
class RoundAssigned(GameEvent):
    """A round that opened without a beacon got one."""

    round: int
    randomness: bytes


@dataclass(frozen=True)
class ClaimTaken(GameEvent):
    """A seat committed to a claim."""

    round: int
    slot: int
    claim_root: bytes
    segments: int


@dataclass(frozen=True)
class RoundClosed(GameEvent):
    """Commitments ended with `closing_block`. The pool of the round after next was frozen as of the end of
    that block, if the ring has a place for it."""

    round: int
    closing_block: int


@dataclass(frozen=True)
class AuditsDrawn(GameEvent):
    """The audits of a round, the late audits of earlier rounds and the shards of later rounds are drawn."""

    round: int
    randomness: bytes


@dataclass(frozen=True)
class ClosingDrawn(GameEvent):
    """The late audits of the last rounds are drawn. Their votes count from `from_block`."""

    from_block: int
    randomness: bytes


@dataclass(frozen=True)
class VoteCounted(GameEvent):
    """A vote counts."""

    round: int
    slot: int
    draw: int
    rank: int
    word: VoteWord


@dataclass(frozen=True)
class VoteOpened(GameEvent):
    """A counted vote was opened, so it is paid."""

    round: int
    slot: int
    draw: int
    rank: int


@dataclass(frozen=True)
class RootPosted(GameEvent):
    """A majority merged the round."""

    round: int
    root: bytes
    merged: tuple[int, ...]
    signers: tuple[int, ...]


@dataclass(frozen=True)
class RootStood(GameEvent):
    """The root that the round started from stays."""

    round: int


@dataclass(frozen=True)
class TaskPaused(GameEvent):
    """The task pauses: no round follows for now."""


@dataclass(frozen=True)
class RootFell(GameEvent):
    """A posted root lost a contest, and later rounds are undone."""

    round: int


@dataclass(frozen=True)
class PayRestored(GameEvent):
    """A slash has paid `account` for a claim that a false REJECT made void."""

    round: int
    slot: int
    account: str
    wei: int


@dataclass(frozen=True)
class PayHeld(GameEvent):
    """The pay that a fall has undone, and what is set aside for it."""

    fall: Fall


@dataclass(frozen=True)
class ContestMoved(GameEvent):
    """A contest was opened, or its turn has changed."""

    contest: RootContest


@dataclass(frozen=True)
class ContestOver(GameEvent):
    """A contest has ended: HOLDS, FALLS or MOOT."""

    contest: int
    outcome: GameOutcome


@dataclass(frozen=True)
class QueryOpened(GameEvent):
    """A query was opened."""

    query: OpenQuery


@dataclass(frozen=True)
class QueryOver(GameEvent):
    """A query has ended: CLEARED, CONVICTED or MOOT."""

    query: int
    outcome: GameOutcome


@dataclass(frozen=True)
class StatementDisputed(GameEvent):
    """A dispute was opened."""

    dispute: RunningDispute


@dataclass(frozen=True)
class DisputeOver(GameEvent):
    """A dispute has ended: CLEARED, CONVICTED or MOOT."""

    dispute: int
    outcome: GameOutcome


@dataclass(frozen=True)
class ProofCommitted(GameEvent):
    """`sender` has committed to a proof, which it may show from the next block on."""

    sender: str
    digest: bytes
