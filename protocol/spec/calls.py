"""What a party can do in a round: one frozen class a contract call, and the three things done off chain.

The duties return these, the guards check them, a role performs them. Fields name the target. What only
hashing can tell (does a proof hold, do roots agree) is a *fact*: a keyword field that is true unless somebody
says otherwise, because a duty is carried out honestly.
"""

from dataclasses import dataclass, field

from protocol.spec.statuses import AuditRef, Role
from protocol.spec.tolerance import Judgement


@dataclass(frozen=True)
class Call:
    """Base of everything that a party does in round `round`."""

    round: int


# --- Off chain ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Train(Call):
    """Off chain: train the shard of `slot` for the whole round; CommitClaim follows when its window opens."""

    slot: int
    shard: int


@dataclass(frozen=True)
class ServeState(Call):
    """Off chain: serve the states at these boundaries (0 .. H/k) of the own claim to whoever asks.
    with_delta: the last state is among them, and the pseudo-gradient is to be served with it."""

    slot: int
    draw: int
    boundaries: tuple[int, ...]
    with_delta: bool = False


@dataclass(frozen=True)
class Replay(Call):
    """Off chain: fetch the start state of `segment` and replay it; CommitReplay follows."""

    audit: AuditRef
    segment: int


# --- TaskRegistry -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Enrol(Call):
    """enrol: join the round in `role`."""

    role: Role


@dataclass(frozen=True)
class SealBeacon(Call):
    """sealBeacon."""


@dataclass(frozen=True)
class Advance(Call):
    """advance: start the round after `round`."""


# --- RoundLedger --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CommitClaim(Call):
    """commit: the sender's claim. Facts: the opening of boundary 0 holds; it is the expected start state."""

    is_proof_valid: bool = field(default=True, kw_only=True)
    is_start_expected: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class SealDraw(Call):
    """sealDraw."""


@dataclass(frozen=True)
class Judge(Call):
    """judge the claim of `slot`."""

    slot: int


@dataclass(frozen=True)
class PostOuter(Call):
    """postOuter over the claims of `included` (slots in ascending order of shard)."""

    included: tuple[int, ...]


@dataclass(frozen=True)
class SettleMerge(Call):
    """settleMerge: bond and pay of whoever posted the root that stands."""


@dataclass(frozen=True)
class SealLate(Call):
    """sealLate."""


@dataclass(frozen=True)
class SettleClaim(Call):
    """settleClaim of `slot`."""

    slot: int


@dataclass(frozen=True)
class SettleEnrolments(Call):
    """settleEnrolments of positions [first, end): verifiers first, then whistleblowers."""

    first: int
    end: int


# --- AuditBook ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class OpenStart(Call):
    """openStart: the sender opens `boundary` (the drawn segment's start) of its claim for `draw`."""

    draw: int
    boundary: int
    is_proof_valid: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class CommitReplay(Call):
    """commitReplay of a blind result on `segment`; SayUnserved or Abstain where there is none."""

    audit: AuditRef
    segment: int


@dataclass(frozen=True)
class SayUnserved(Call):
    """sayUnserved."""

    audit: AuditRef


@dataclass(frozen=True)
class Abstain(Call):
    """abstain."""

    audit: AuditRef


@dataclass(frozen=True)
class OpenEnd(Call):
    """openEnd: the sender opens `boundary` (the drawn segment's end) and `last_boundary` of its claim."""

    draw: int
    boundary: int
    last_boundary: int
    is_proof_valid: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class Reveal(Call):
    """reveal. Facts: header and salt hash to the commitment; its step numbers are the segment's end."""

    audit: AuditRef
    is_commitment_met: bool = field(default=True, kw_only=True)
    are_steps_right: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class SealLeaves(Call):
    """sealLeaves of a phase: 0 primary, 1 reserves, 2 late."""

    phase: int


@dataclass(frozen=True)
class OpenLeaves(Call):
    """openLeaves: the sender opens leaves `indices` (in this order) of its end state of `draw`."""

    draw: int
    phase: int
    indices: tuple[int, ...]
    is_proof_valid: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class CompareLeaves(Call):
    """compareLeaves at `indices` (an extra one may be added). Facts: all proofs hold; what the limits say."""

    audit: AuditRef
    indices: tuple[int, ...]
    are_proofs_valid: bool = field(default=True, kw_only=True)
    worst: Judgement = field(default=Judgement.ACCEPT, kw_only=True)


OFF_CHAIN = (Train, ServeState, Replay)
"""These send no transaction."""
