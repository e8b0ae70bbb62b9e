"""The enumerations of the rounds: roles, phases, what becomes of a draw or a claim, kinds of proof."""

from enum import IntEnum

from touchstone.protocol.spec.statements import COMPARED, VoteWord


class SeatRole(IntEnum):
    """What a seat is for."""

    SOLVER = 1
    VERIFIER = 2
    WHISTLEBLOWER = 3


class SeatStatus(IntEnum):
    """OPEN: takes part in coming pools. LEAVING: serves only in frozen pools, then its stake is paid out.
    CLOSED: was convicted; its stake is gone and nothing that it does counts."""

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


class DrawStatus(IntEnum):
    """The result of a draw's counted votes. FAILED: it can no longer be accepted."""

    UNDECIDED = 0
    ACCEPTED = 1
    FAILED = 2


class ClaimStatus(IntEnum):
    """The status of a claim at a block. LATE_UNDECIDED: it is no longer merged, but may be accepted for
    pay."""

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
    """How a contest, an ask or a dispute ended. MOOT: its subject is gone, and the bond was returned."""

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
