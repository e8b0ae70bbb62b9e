"""What the contracts say of disputes, contests of the outer root and money; formats as in `events.py`."""

from dataclasses import dataclass

from protocol.spec.containers import StateHeader
from protocol.spec.events import DisputeEvent, Event, RoundEvent, SlotEvent
from protocol.spec.statuses import ClaimRef


# --- DisputeGame --------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class OpeningSealed(Event):
    """Somebody committed to opening a dispute."""

    opener: str
    seal_hash: bytes


@dataclass(frozen=True, kw_only=True)
class DisputeOpened(DisputeEvent):
    """A dispute on one sentence is open (queued until it is activated)."""

    claim: ClaimRef
    claimant: str
    opener: str
    bond_wei: int


@dataclass(frozen=True, kw_only=True)
class DisputeActivated(DisputeEvent):
    """It is this dispute's turn: the claimant must post roots before clock_block."""

    clock_block: int


@dataclass(frozen=True, kw_only=True)
class StepRootsPosted(DisputeEvent):
    """The claimant's k+1 state roots, irrevocable."""

    roots: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True)
class StepNamed(DisputeEvent):
    """The opener named the step that it will prove wrong; the claimant's trace is due before clock_block."""

    step: int
    clock_block: int


@dataclass(frozen=True, kw_only=True)
class TracePosted(DisputeEvent):
    """The claimant's trace of the named step, irrevocable, and the states around the step; proofs and demands
    until clock_block."""

    trace_root: bytes
    start: StateHeader
    end: StateHeader
    clock_block: int


@dataclass(frozen=True, kw_only=True)
class LeafDemanded(DisputeEvent):
    """A leaf of a buffer that a node touches must be shown before clock_block. place: 0 the node's output, 1
    and up its operands."""

    demand: int
    challenger: str
    node: int
    place: int
    leaf_index: int
    clock_block: int


@dataclass(frozen=True, kw_only=True)
class LeafAnswered(DisputeEvent):
    """The demanded leaf."""

    demand: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class DisputeClosed(DisputeEvent):
    """Nothing was proven in time; this acquits nobody."""


@dataclass(frozen=True, kw_only=True)
class DisputeConvicted(DisputeEvent):
    """The claimant lost."""

    claimant: str
    finder: str
    reason: bytes


# --- OuterContest -------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Contested(RoundEvent):
    """A rival outer root; the next move is due before clock_block. tensor: 0 weights, 1 momentum."""

    rival: str
    weights_root: bytes
    momentum_root: bytes
    tensor: int
    clock_block: int


@dataclass(frozen=True, kw_only=True)
class NodesPosted(RoundEvent):
    """The poster's nodes below the contested one; the rival's turn until clock_block."""

    rival: str
    level: int
    index: int
    nodes: tuple[bytes, ...]
    clock_block: int


@dataclass(frozen=True, kw_only=True)
class ChildNamed(RoundEvent):
    """The rival's choice among the nodes; the poster's turn, or a leaf's, until clock_block."""

    rival: str
    level: int
    index: int
    clock_block: int


@dataclass(frozen=True, kw_only=True)
class ContestEnded(RoundEvent):
    """The contest of one rival is over; loser is the zero address where another root took the place."""

    rival: str
    loser: str
    reason: bytes


@dataclass(frozen=True, kw_only=True)
class PseudoGradientConvicted(SlotEvent):
    """A leaf of a claim's pseudo-gradient was proven wrong."""

    leaf_index: int


# --- StakeVault ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Deposited(Event):
    """Stake came in."""

    account: str
    amount_wei: int


@dataclass(frozen=True, kw_only=True)
class UnbondingStarted(Event):
    """Stake leaves at ready_block; slashable until then."""

    account: str
    amount_wei: int
    ready_block: int


@dataclass(frozen=True, kw_only=True)
class Withdrawn(Event):
    """Unbonded stake was paid out."""

    account: str
    amount_wei: int


@dataclass(frozen=True, kw_only=True)
class Exposed(Event):
    """Stake backs an exposure."""

    exposure: bytes
    account: str
    amount_wei: int


@dataclass(frozen=True, kw_only=True)
class Released(Event):
    """What was left of an exposure is free again."""

    exposure: bytes
    account: str
    amount_wei: int


@dataclass(frozen=True, kw_only=True)
class Slashed(Event):
    """A whole exposure was taken: to finder and submitter, the rest burned."""

    exposure: bytes
    account: str
    finder: str
    amount_wei: int
    finder_wei: int
    submitter_wei: int
    reason: bytes


@dataclass(frozen=True, kw_only=True)
class FeeBurned(Event):
    """A no-show fee was burned from an exposure."""

    exposure: bytes
    account: str
    amount_wei: int
    reason: bytes


@dataclass(frozen=True, kw_only=True)
class EscrowFunded(Event):
    """A task's escrow came in."""

    task: bytes
    amount_wei: int


@dataclass(frozen=True, kw_only=True)
class Paid(Event):
    """Escrow was credited to an account."""

    task: bytes
    account: str
    amount_wei: int
    reason: bytes


@dataclass(frozen=True, kw_only=True)
class EscrowBurned(Event):
    """A part of an escrow was burned: the pay of a void claim that nobody rejects."""

    task: bytes
    amount_wei: int
    reason: bytes


@dataclass(frozen=True, kw_only=True)
class EscrowClosed(Event):
    """The rest of an escrow was credited to the submitter."""

    task: bytes
    submitter: str
    amount_wei: int


@dataclass(frozen=True, kw_only=True)
class CreditMoved(Event):
    """An exposure became credits of another account (`from` is a Python keyword, hence the underscore)."""

    exposure: bytes
    from_: str
    to: str
    amount_wei: int
    reason: bytes


@dataclass(frozen=True, kw_only=True)
class Claimed(Event):
    """Credits were paid out."""

    account: str
    amount_wei: int


@dataclass(frozen=True, kw_only=True)
class Burned(Event):
    """Tokens went to the dead address."""

    amount_wei: int
