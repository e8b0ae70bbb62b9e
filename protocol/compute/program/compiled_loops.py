"""Compiles loops over flat memory with numba, each once in a process.

IEEE operations stay separate: nothing is contracted, reordered or flushed.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Int8s = NDArray[np.int8]
UInt8s = NDArray[np.uint8]
Int32s = NDArray[np.int32]
UInt32s = NDArray[np.uint32]
Int64s = NDArray[np.int64]

MAGNITUDE = np.int32(0x7FFFFFFF)
INFINITE = np.int32(0x7F800000)
NORMAL = np.float32(2.0**-126)
TURN = np.float32(1.5 * 2.0**23)
"""Adding this to a number rounds it to an integer; subtracting it again leaves that integer."""


def compile_loop(loop: Callable[..., Any]) -> Any:
    """Compiles a loop to run without the interpreter's lock, with the processor's own divisions."""
    return numba.njit(error_model="numpy", nogil=True)(loop)
