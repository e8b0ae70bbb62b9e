"""Loops over flat memory that numba compiles, each once a process.

It keeps IEEE operations separate: nothing is contracted, reordered or flushed.
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
"""A number added to it is rounded to an integer, and stays one when it is subtracted again."""


def compile_loop(loop: Callable[..., Any]) -> Any:
    """Compiles a loop without the interpreter's lock, and with divisions as the processor does them."""
    return numba.njit(error_model="numpy", nogil=True)(loop)
