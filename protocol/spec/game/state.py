"""The state of a task's rounds: its words and its values. `folding.py` moves it on, every other module
reads it.

The words of the round's machine: roles, phases, what an auditor says, what becomes of a claim.

Nothing in it depends on the clock. What a block alone decides (a window is over, a claim is late) is computed
for that block by the functions of `timing.py` and `rounds.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from touchstone.protocol.spec.game.purse import ESCROW, Purse
from touchstone.protocol.spec.game.terms import DeploymentLimits, GameTerms, compute_escrow
from touchstone.protocol.spec.statements import COMPARED, VoteWord


class SeatRole(IntEnum):
    """What a seat is for."""

    SOLVER = 1
    VERIFIER = 2
    WHISTLEBLOWER = 3


class SeatStatus(IntEnum):
    """OPEN sits in pools to come. LEAVING serves in frozen pools only, then its stake is paid out. CLOSED was
    convicted: its stake is gone and nothing it does counts."""

    OPEN = 1
    LEAVING = 2
    CLOSED = 3


class RoundPhase(IntEnum):
    """RUNNING until its root is posted or its base root stands. FALLEN: its posted root lost a contest and it
    waits for a new majority. UNDONE: an earlier root fell, so it merges nothing and pays no solver; auditors
    are paid for what was opened before."""

    RUNNING = 1
    POSTED = 2
    STANDING = 3
    FALLEN = 4
    UNDONE = 5


REJECT_WORDS = frozenset({VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA, VoteWord.REJECT_START})
OPENED_WORDS = COMPARED
"""Votes that are paid with a fitting opening only."""


class DrawFate(IntEnum):
    """What the counted votes make of a draw. FAILED: it can no longer be accepted."""

    UNDECIDED = 0
    ACCEPTED = 1
    FAILED = 2


class ClaimFate(IntEnum):
    """What has become of a claim at a block. LATE_UNDECIDED: no longer merged, may be accepted for pay."""

    UNDECIDED = 0
    ACCEPTED = 1
    LATE_UNDECIDED = 2
    VOID = 3


class ContestTurn(IntEnum):
    """Who has to move in a contest of a posted root."""

    ANSWER = 1
    CONTESTER = 2
    LEAF = 3


class GameOutcome(IntEnum):
    """How a contest, an ask or a dispute ended. MOOT: what it was about has gone, the bond was returned."""

    STANDS = 1
    FALLS = 2
    CLEARED = 3
    CONVICTED = 4
    MOOT = 5


class ProofKind(IntEnum):
    """Why a seat was closed.

    CARRIED_ROOT: the carried root is not that of the claim's own last boundary. TWO_STATEMENTS: two votes,
    two seals, or a vote and a seal of one draw and rank that differ. FALSE_WORD: a REJECT_DELTA or
    REJECT_START that the opened data show to be wrong."""

    BOUNDARY_ZERO = 1
    DELTA_LEAF = 2
    CARRIED_ROOT = 3
    VOTE_LEAF = 4
    TWO_STATEMENTS = 5
    FALSE_WORD = 6
    DISPUTED = 7
    ASKED = 8
    WRONG_MERGE = 9


SOLVER_PROOFS = frozenset({ProofKind.BOUNDARY_ZERO, ProofKind.DELTA_LEAF, ProofKind.CARRIED_ROOT})
AUDITOR_PROOFS = frozenset({ProofKind.VOTE_LEAF, ProofKind.TWO_STATEMENTS, ProofKind.FALSE_WORD})
"""What any account may prove in one transaction."""


DrawPlace = tuple[int, int]
"""(slot, draw). The late draw of a claim has the number q, which no other draw of it has."""


def compute_seat_id(role: SeatRole, number: int) -> int:
    """What names a seat everywhere: its role, and its number among the seats of the role."""
    return role << 16 | number


@dataclass(frozen=True)
class Seat:
    """A member of the task. number: `compute_seat_id`; joined: the next round when it joined; settled: the
    first round that this seat has not settled; last_commit, last_voted: the greatest round with a commitment,
    or with a counted vote on a claim of that round (the round before it joined, if none)."""

    number: int
    role: SeatRole
    account: str
    joined: int
    settled: int
    last_commit: int
    last_voted: int
    status: SeatStatus = SeatStatus.OPEN


@dataclass(frozen=True)
class Pool:
    """Seat numbers of a round by role, ascending. A solver's slot is its place in `solvers`."""

    solvers: tuple[int, ...] = ()
    verifiers: tuple[int, ...] = ()
    whistleblowers: tuple[int, ...] = ()

    def get_seats(self, role: SeatRole) -> tuple[int, ...]:
        """The seats of one role."""
        return (self.solvers, self.verifiers, self.whistleblowers)[role - 1]


@dataclass(frozen=True)
class SlotClaim:
    """What a seat committed. account, joined: of the seat then; its number may be another's later. is_void:
    it was undecided when its seat was convicted of something else; is_convicted: a fault was proven in this
    very claim."""

    seat: int
    account: str
    joined: int
    claim_root: bytes
    segments: int
    is_void: bool = False
    is_convicted: bool = False


@dataclass(frozen=True)
class CountedVote:
    """A vote that the chain has counted."""

    word: VoteWord
    block: int
    is_opened: bool = False


@dataclass(frozen=True)
class GameRound:
    """A round that was opened. counted: seats of the pool that were not closed at OPEN; beacon_block: whose
    randomness is its beacon where no seed dealt it; trained_from: from when its shards were known; filled:
    when the last counted seat committed; closed: the closing block, None while it runs; late_from: from where
    its late votes count; root_until: contests of its root open until then; fallen: when its root fell;
    restored: slots that a slash has paid."""

    index: int
    pool: Pool
    base_root: bytes
    opened: int
    counted: int
    beacon: bytes | None = None
    beacon_block: int | None = None
    trained_from: int | None = None
    claims: Mapping[int, SlotClaim] = field(default_factory=dict)
    two_thirds: int | None = None
    filled: int | None = None
    closed: int | None = None
    seed: bytes | None = None
    votes: Mapping[DrawPlace, Mapping[int, CountedVote]] = field(default_factory=dict)
    late_seed: bytes | None = None
    late_slots: frozenset[int] = frozenset()
    late_from: int | None = None
    phase: RoundPhase = RoundPhase.RUNNING
    root: bytes | None = None
    merged: tuple[int, ...] = ()
    signers: tuple[int, ...] = ()
    root_until: int = 0
    fallen: int | None = None
    restored: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PendingStart:
    """A start that was asked for: its pools are frozen, its beacon is that of `beacon_block`."""

    first_round: int
    beacon_block: int


@dataclass(frozen=True)
class StatementRef:
    """A claim (draw is None), or the vote of a rank of a draw."""

    round: int
    slot: int
    draw: int | None = None
    rank: int = 0


@dataclass(frozen=True, order=True)
class MissedPlace:
    """A round that a solver has missed, or a draw that its primary has missed."""

    round: int
    slot: int = 0
    draw: int = 0


@dataclass(frozen=True)
class Fall:
    """What a root that fell made undone: rounds first_round to last_round, but for those that were undone
    before. owed: the pay of their accepted claims; held: what the slash had for it."""

    number: int
    first_round: int
    last_round: int
    owed: int
    held: int


@dataclass(frozen=True)
class RootContest:
    """An open contest of a posted root. root, root_until: which posting of which root it contests; level: how
    often a child was named; answerer: who answered last."""

    number: int
    round: int
    root: bytes
    root_until: int
    contester: str
    turn: ContestTurn
    clock: int
    level: int = 0
    answerer: str | None = None


@dataclass(frozen=True)
class OpenAsk:
    """An open question to the signer of a vote: show this state leaf of both ends."""

    number: int
    statement: StatementRef
    seat: int
    word: VoteWord
    leaf: int
    asker: str
    clock: int


@dataclass(frozen=True)
class RunningDispute:
    """An open dispute of a claim or a vote, from outside: it ends by `clock`, convicted or not."""

    number: int
    statement: StatementRef
    seat: int
    opener: str
    clock: int


@dataclass(frozen=True)
class GameState:
    """A task. root: what the next round starts from; stands_since: when it last stopped (of no meaning while
    a round runs); former: seats that were paid out, until their number is used again; pools, beacons: frozen
    and dealt, by round; next_round: the next number to open; freed_epochs: epochs whose rounds are forgotten;
    contested_until: no solver is silent up to this block: time to contest a root that has stood once;
    next_number: of the next bond; seals: blocks of sealed proofs by sender and digest."""

    terms: GameTerms
    limits: DeploymentLimits
    purse: Purse
    root: bytes
    stands_since: int
    seats: Mapping[int, Seat] = field(default_factory=dict)
    former: Mapping[int, Seat] = field(default_factory=dict)
    pools: Mapping[int, Pool] = field(default_factory=dict)
    beacons: Mapping[int, bytes] = field(default_factory=dict)
    rounds: Mapping[int, GameRound] = field(default_factory=dict)
    next_round: int = 0
    freed_epochs: int = 0
    falls: tuple[Fall, ...] = ()
    start: PendingStart | None = None
    contests: Mapping[int, RootContest] = field(default_factory=dict)
    contested_until: int = 0
    asks: Mapping[int, OpenAsk] = field(default_factory=dict)
    disputes: Mapping[int, RunningDispute] = field(default_factory=dict)
    seals: Mapping[tuple[str, bytes], int] = field(default_factory=dict)
    next_number: int = 0
    is_halted: bool = False
    is_closed: bool = False


def create_game(terms: GameTerms, limits: DeploymentLimits, block: int) -> GameState:
    """The state of a task in the block in which its submitter posted it with the whole escrow."""
    purse = Purse({ESCROW: compute_escrow(terms)})
    return GameState(terms, limits, purse, terms.root, stands_since=block)
