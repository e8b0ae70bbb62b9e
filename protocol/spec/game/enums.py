"""The enumerations of the rounds: roles, phases, statuses of draws and claims, kinds of proof."""

from enum import IntEnum

from touchstone.protocol.spec.statements import COMPARED, VoteWord


class SeatRole(IntEnum):
    """The role of a seat. The id of a seat is role << 16 | number."""

    SOLVER = 1
    VERIFIER = 2
    WHISTLEBLOWER = 3


class SeatStatus(IntEnum):
    """The status of a seat. ACTIVE takes part in coming pools. LEAVING serves only in frozen pools, then
    its stake is paid out. CONVICTED lost its stake, and nothing that it does
    from then on counts."""

    ACTIVE = 1
    LEAVING = 2
    CONVICTED = 3


class RoundPhase(IntEnum):
    """The phase of a round. RUNNING lasts until its root is posted or its base root stands. FALLEN means that
    its posted root lost a contest and it waits for a new majority. UNDONE means that an earlier root fell, so
    it merges nothing and pays no solver; auditors are paid for what was opened before."""

    RUNNING = 1
    POSTED = 2
    STANDING = 3
    FALLEN = 4
    UNDONE = 5


REJECT_WORDS = frozenset({VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA, VoteWord.REJECT_START})
OPENED_WORDS = COMPARED
"""Verdicts that are paid only with a fitting opening."""


class DrawStatus(IntEnum):
    """The result of a draw's counted votes. FAILED means that the draw can no longer be accepted."""

    UNDECIDED = 0
    ACCEPTED = 1
    FAILED = 2


class ClaimStatus(IntEnum):
    """The status of a claim at a block. LATE_UNDECIDED means that it can no longer be merged, but may be
    accepted for pay."""

    UNDECIDED = 0
    ACCEPTED = 1
    LATE_UNDECIDED = 2
    VOID = 3


class ContestTurn(IntEnum):
    """Whose move it is in a contest of a posted root."""

    ANSWER = 1
    CONTESTER = 2
    LEAF = 3


class GameOutcome(IntEnum):
    """How a contest, a query or a dispute ended. MOOT means that its subject is gone, and the bond was
    returned."""

    HOLDS = 1
    FALLS = 2
    CLEARED = 3
    CONVICTED = 4
    MOOT = 5


class ProofKind(IntEnum):
    """Why a seat was convicted.

    CARRIED_ROOT: the claim's carried root does not belong to its last boundary. TWO_STATEMENTS: two votes,
    two seals, or a vote and a seal of one draw and rank differ. FALSE_WORD: the opened data show that a
    REJECT_DELTA or REJECT_START is wrong."""

    BOUNDARY_ZERO = 1
    DELTA_LEAF = 2
    CARRIED_ROOT = 3
    VOTE_LEAF = 4
    TWO_STATEMENTS = 5
    FALSE_WORD = 6
    DISPUTED = 7
    QUERIED = 8
    WRONG_MERGE = 9


SOLVER_PROOFS = frozenset({ProofKind.BOUNDARY_ZERO, ProofKind.DELTA_LEAF, ProofKind.CARRIED_ROOT})
AUDITOR_PROOFS = frozenset({ProofKind.VOTE_LEAF, ProofKind.TWO_STATEMENTS, ProofKind.FALSE_WORD})
"""Proofs that any account may bring in one transaction."""
