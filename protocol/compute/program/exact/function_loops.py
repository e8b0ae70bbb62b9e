"""Compiles functions of exact programs (`spec/exact.py`) as steps of integers."""

from math import frexp, ldexp

import numpy as np

from touchstone.protocol.compute.program.compiled_loops import (
    INFINITE,
    MAGNITUDE,
    Floats,
    Int32s,
    compile_loop,
)
from touchstone.protocol.spec.exact_series import (
    EXPONENTIAL_COEFFICIENTS,
    LN_2,
    LOG2_E,
    LOGARITHM_COEFFICIENTS,
    ROOT_2,
)

FAR = np.int32(0x42AE0000)
"""87: for smaller magnitudes exp is a normal number."""
SIGN = np.int32(-0x80000000)
C0, C1, C2, C3, C4, C5, C6, C7, C8 = map(np.int64, EXPONENTIAL_COEFFICIENTS)
_LOGARITHM = np.array(LOGARITHM_COEFFICIENTS, dtype=np.int64)


@compile_loop
def find_power(pattern: np.int32) -> tuple[np.int64, np.int64]:
    """Returns (n, series); exp of a number below 128 in magnitude is series * 2^(n - 30). It works for
    subnormal numbers too, because their product is shifted by 63 places, which leaves 0."""
    magnitude = np.int64(pattern & MAGNITUDE)
    significand = (magnitude & np.int64(0x7FFFFF)) | np.int64(0x800000)
    y = (significand * np.int64(LOG2_E)) >> min(np.int64(156) - (magnitude >> 23), np.int64(63))
    y = -y if pattern < 0 else y
    n = (y + np.int64(1 << 31)) >> 32
    f = y - (n << 32)
    series = C7 + ((C8 * f) >> 32)
    series = C6 + ((series * f) >> 32)
    series = C5 + ((series * f) >> 32)
    series = C4 + ((series * f) >> 32)
    series = C3 + ((series * f) >> 32)
    series = C2 + ((series * f) >> 32)
    series = C1 + ((series * f) >> 32)
    return n, C0 + ((series * f) >> 32)


@compile_loop
def find_exponential(pattern: np.int32) -> np.int32:
    """Computes exp if the result is a normal number, from bits to bits. It has no branches, so that the
    processor computes several elements at once."""
    n, series = find_power(pattern)
    is_long = np.int64(1) if series >= np.int64(1 << 30) else np.int64(0)
    shift = np.int64(6) + is_long
    rounded = (series + ((np.int64(1) << (shift - 1)) - 1) + ((series >> shift) & 1)) >> shift
    return np.int32(((n + is_long + np.int64(125)) << 23) + rounded)


@compile_loop
def find_far_exponential(pattern: np.int32) -> np.float32:
    """Computes exp of the numbers that FAR excludes: infinities, NaN, and those with a subnormal or too large
    result."""
    magnitude = pattern & MAGNITUDE
    if magnitude > INFINITE:
        return np.float32(np.nan)
    if magnitude >= np.int32(0x43000000):
        return np.float32(0.0) if pattern < 0 else np.float32(np.inf)
    n, series = find_power(pattern)
    return np.float32(np.float64(series) * ldexp(1.0, int(n - 30)))


@compile_loop
def take_exponentials(x: Floats, b: Int32s, out: Floats, patterns: Int32s) -> None:
    """Computes exp of each element. `patterns` is the same memory as `out`."""
    far = np.int32(0)
    for n in range(len(patterns)):
        patterns[n] = find_exponential(b[n])
        far = max(far, np.int32(b[n] & MAGNITUDE))
    if far >= FAR:
        for n in range(len(out)):
            if b[n] & MAGNITUDE >= FAR:
                out[n] = find_far_exponential(b[n])


@compile_loop
def take_sigmoids(x: Floats, b: Int32s, out: Floats, patterns: Int32s) -> None:
    """Computes 1 / (1 + exp(-x)) of each element. `patterns` is the same memory as `out`."""
    far = np.int32(0)
    for n in range(len(patterns)):
        patterns[n] = find_exponential(b[n] ^ SIGN)
        far = max(far, np.int32(b[n] & MAGNITUDE))
    if far >= FAR:
        for n in range(len(out)):
            if b[n] & MAGNITUDE >= FAR:
                out[n] = find_far_exponential(b[n] ^ SIGN)
    one = np.float32(1.0)
    for n in range(len(out)):
        out[n] = one / (one + out[n])


@compile_loop
def choose_largest(a: Floats, b: Floats, out: Floats) -> None:
    """Takes the larger of each pair, or of each element and the one number b; NaN if one is NaN; a zero
    becomes +0."""
    if len(b) == 1:
        other = b[0]
        for n in range(len(out)):
            chosen = a[n] if a[n] > other or a[n] != a[n] else other
            out[n] = (other if other != other else chosen) + np.float32(0.0)
    else:
        for n in range(len(out)):
            chosen = a[n] if a[n] > b[n] or a[n] != a[n] else b[n]
            out[n] = (b[n] if b[n] != b[n] else chosen) + np.float32(0.0)


@compile_loop
def choose_smallest(a: Floats, b: Floats, out: Floats) -> None:
    """Takes the smaller of each pair, as choose_largest takes the larger."""
    if len(b) == 1:
        other = b[0]
        for n in range(len(out)):
            chosen = a[n] if a[n] < other or a[n] != a[n] else other
            out[n] = (other if other != other else chosen) + np.float32(0.0)
    else:
        for n in range(len(out)):
            chosen = a[n] if a[n] < b[n] or a[n] != a[n] else b[n]
            out[n] = (b[n] if b[n] != b[n] else chosen) + np.float32(0.0)


@compile_loop
def take_logarithms(x: Floats, b: Int32s, out: Floats, patterns: Int32s) -> None:
    """Computes ln of each element."""
    for n in range(len(out)):
        pattern = b[n]
        if pattern & MAGNITUDE > INFINITE or (pattern < 0 and pattern & MAGNITUDE != 0):
            out[n] = np.nan
        elif pattern & MAGNITUDE == 0:
            out[n] = -np.inf
        elif pattern == INFINITE:
            out[n] = np.inf
        else:
            fraction, exponent = frexp(np.float64(x[n]))
            magnitude, power = np.int64(fraction * 16777216.0), np.int64(exponent - 1)
            one = np.int64(0x800000)
            if magnitude > ROOT_2:
                one, power = np.int64(0x1000000), power + 1
            quotient = (abs(magnitude - one) << 34) // (magnitude + one)
            square = (quotient >> 4) * (quotient >> 4) >> 28
            series = np.int64(0)
            for k in range(len(_LOGARITHM) - 1, -1, -1):
                series = _LOGARITHM[k] + ((series * square) >> 32)
            total = (quotient * series) >> 26
            if magnitude < one:
                total = -total
            whole = np.float64(power * np.int64(LN_2) + total)
            out[n] = np.float32(whole * 2.0**-38)
