"""Defines the state of a task's rounds. The reducer changes it, all other modules read it.

Nothing in it depends on the clock. Whatever the block alone decides (a window is over, a claim is late) is
computed for that block by functions of `timing.py` and `rounds.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from touchstone.protocol.spec.game.enums import ContestTurn, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.terms import DeploymentBounds, GameTerms, compute_escrow
from touchstone.protocol.spec.game.vault import ESCROW, Vault
from touchstone.protocol.spec.statements import VoteWord

DrawPlace = tuple[int, int]
"""(slot, draw). The late draw of a claim has the number q, which none of its other draws has."""


def compute_seat_id(role: SeatRole, number: int) -> int:
    """Returns the id that names a seat everywhere: its role, and its number within the role."""
    return role << 16 | number


@dataclass(frozen=True)
class Seat:
    """A member of the task. `number` is from `compute_seat_id`. `joined` is the next round when it joined.
    `settled` is the first round that it has not settled. `last_commit` and `last_voted` are the latest rounds
    with a commitment, or with a counted vote (the round before it joined, if none)."""

    number: int
    role: SeatRole
    account: str
    joined: int
    settled: int
    last_commit: int
    last_voted: int
    status: SeatStatus = SeatStatus.ACTIVE


@dataclass(frozen=True)
class Pool:
    """The seat numbers of a round by role, ascending. A solver's slot is its place in `solvers`."""

    solvers: tuple[int, ...] = ()
    verifiers: tuple[int, ...] = ()
    whistleblowers: tuple[int, ...] = ()

    def get_seats(self, role: SeatRole) -> tuple[int, ...]:
        """Returns the seats of one role."""
        return (self.solvers, self.verifiers, self.whistleblowers)[role - 1]


@dataclass(frozen=True)
class SlotClaim:
    """A seat's claim. `account` and `joined` are the seat's at that time; the seat's number may later be
    another account's. `is_void` says that it was undecided when its seat was convicted of something else.
    `is_convicted` says that this very claim was proven false."""

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
    """A round that was opened. `counted` are seats of the pool that were not closed when it opened.
    `beacon_block` gives the randomness of its beacon if no seed did. `trained_from` is when its shards were
    known, `filled` when the last counted seat committed. `closed` is the closing block, None while it runs.
    `late_from` is from when its late votes count. `root_until` is the last block to contest its root.
    `fallen` is when its root fell. `restored` are slots that a slash has paid."""

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
    """A start that was asked for. Its pools are frozen; the randomness of `beacon_block` will be its
    beacon."""

    first_round: int
    beacon_block: int


@dataclass(frozen=True)
class StatementRef:
    """A claim (`draw` is None), or the vote of a rank of a draw."""

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
    """The rounds that the fall of a root undid: first_round to last_round, except those undone before. `owed`
    is the pay of their accepted claims, `held` what is set aside for it."""

    number: int
    first_round: int
    last_round: int
    owed: int
    held: int


@dataclass(frozen=True)
class RootContest:
    """An open contest of a posted root. `root` and `root_until` identify the posting. `level` is how often a
    child was named. `answerer` is the account that answered last."""

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
class OpenQuery:
    """An open query to the signer of a vote: show this state leaf of both ends."""

    number: int
    statement: StatementRef
    seat: int
    word: VoteWord
    leaf: int
    asker: str
    clock: int


@dataclass(frozen=True)
class RunningDispute:
    """An open dispute about a claim or a vote, seen from outside: it ends by `clock`, convicted or not."""

    number: int
    statement: StatementRef
    seat: int
    opener: str
    clock: int


@dataclass(frozen=True)
class GameState:
    """The state of a task. `root` is what the next round starts from. `paused_since` is when the task last
    paused (meaningless while a round runs). `former` are seats that were paid out, until their number is used
    again. `pools` and `beacons` are those frozen and given, by round. `next_round` is the next to open.
    `freed_epochs` are epochs whose rounds are forgotten. Up to block `contested_until` no solver is silent,
    so that a surviving root can be contested again. `convicted_block` is when a solver was convicted last.
    `next_number` is the next bond's number. `seals` are
    blocks of commitments to proofs, by sender and digest."""

    terms: GameTerms
    bounds: DeploymentBounds
    vault: Vault
    root: bytes
    paused_since: int
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
    convicted_block: int = 0
    queries: Mapping[int, OpenQuery] = field(default_factory=dict)
    disputes: Mapping[int, RunningDispute] = field(default_factory=dict)
    seals: Mapping[tuple[str, bytes], int] = field(default_factory=dict)
    next_number: int = 0
    is_halted: bool = False
    is_closed: bool = False


def create_game(terms: GameTerms, bounds: DeploymentBounds, block: int) -> GameState:
    """Returns the state of a task in the block in which its submitter posted it, with the whole escrow."""
    vault = Vault({ESCROW: compute_escrow(terms)})
    return GameState(terms, bounds, vault, terms.root, paused_since=block)
