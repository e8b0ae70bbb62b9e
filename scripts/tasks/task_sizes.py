"""Computes how much of a task a solver keeps on its disk."""

from fractions import Fraction
from math import ceil

from touchstone.node.kit.retention_windows import WHOLE_ROUNDS, WHOLE_SPECULATIONS
from touchstone.protocol.spec.game.terms import GameTerms

BYTES_PER_STATE_ELEMENT = 12
"""W, m and v in float32."""
BYTES_PER_TENSOR_ELEMENT = 4
BYTES_PER_DELTA_ELEMENT = 65 / 64
"""A pseudo-gradient is 65 bytes for 64 elements."""


def compute_disk_bytes(terms: GameTerms, count: int, task_bytes: int) -> int:
    """Returns the most bytes that a solver keeps of a task of `count` parameters, if rounds last `train_min`
    or longer. It keeps what each node of the task has, two rounds whole, and three speculative claims of the
    next one; a start and its own pseudo-gradient of each round that can still be queried; the momentum and
    all pseudo-gradients of each round whose root can be contested."""
    windows, delta = terms.windows, BYTES_PER_DELTA_ELEMENT
    asked = count_rounds(terms, max(windows.dispute, 2 * windows.audit_max + windows.query))
    contested = count_rounds(terms, windows.dispute)
    claims = min(WHOLE_ROUNDS, terms.rounds) + WHOLE_SPECULATIONS * min(1, terms.rounds - 1)
    whole = claims * (terms.segment_count + 1) * BYTES_PER_STATE_ELEMENT
    starts = asked * (BYTES_PER_STATE_ELEMENT + delta)
    inputs = contested * (BYTES_PER_TENSOR_ELEMENT + terms.solver_seats * delta)
    return task_bytes + ceil(count * (whole + starts + inputs))


def count_rounds(terms: GameTerms, window_blocks: int) -> int:
    """Returns how many rounds of `train_min` a window covers, the running one included."""
    return min(terms.rounds, 1 + ceil(Fraction(window_blocks, max(1, terms.windows.train_min))))
