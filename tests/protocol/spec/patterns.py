"""What the referee's tests share: float32 bit patterns, and its verdict in a word."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.referee import judge_operation

INFINITY, NOT_A_NUMBER, LARGEST, TINY, NORMAL = 0x7F800000, 0x7FC00000, 0x7F7FFFFF, 0x00000003, 0x00800000
NEGATIVE = 1 << 31
EDGES = [0, 1, TINY, NORMAL - 1, NORMAL, NORMAL + 1, LARGEST, 0x3F800000, 0x3F7FFFFF, 0x3F800001, 0x7F000000]
FUNCTIONS = [Operation.EXPONENTIAL, Operation.SIGMOID, Operation.LOGARITHM, Operation.RECIPROCAL_ROOT]
Terms = Sequence[tuple[int, ...]]


def to_bits(value: Any) -> int:
    """Bits of the float32 nearest to a number; infinities and NaN pass."""
    return int(np.float32(value).view(np.uint32))


def to_numpy(bits: Any) -> Any:
    return np.array(bits, np.uint32).view(np.float32)


def flush(bits: int) -> int:
    return bits & NEGATIVE if float32.is_subnormal(bits) else bits


def is_fault(operation: Operation, terms: Terms, claimed: int) -> bool:
    return judge_operation(operation, terms, claimed).is_fault


def as_terms(*columns: Any) -> list[tuple[int, ...]]:
    patterns = [map(int, np.ascontiguousarray(column).view(np.uint32)) for column in columns]
    return list(zip(*patterns, strict=True))
