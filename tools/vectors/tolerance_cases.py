"""Makes the cases of tests/vectors/tolerance.json."""

from collections.abc import Iterable

from tools.vectors.fixed_values import LIMITS, WIDER, bits
from tools.vectors.float32_cases import MAX_FINITE
from tools.vectors.table import Table, make_leaf
from touchstone.protocol.spec import float32, tolerance
from touchstone.protocol.spec.task_spec import Limits

NONE = Limits(0, 0, 0, 0, 0, 0)
WIDEST = Limits(2**64 - 1, 2**160 - 1, 2**64 - 1, 2**160 - 1, 2**64 - 1, 2**64 - 1)
RATE = 2**64 // 1000
ElementCase = tuple[str, list[int], list[int], int, Limits]


def _element_cases() -> Iterable[ElementCase]:
    base = [bits(0.25), bits(1e-4), bits(1e-6)]
    yield "equal", base, base, RATE, LIMITS
    yield "equal under no limits", base, base, 0, NONE
    yield "zeros of both signs", [0x80000000] * 3, [0, 0, 0], 0, NONE
    for i, name in enumerate(("weight", "first moment", "second moment")):
        for ulps in (1, 2, 8, 64, 1024, 1 << 14):
            claimed = [b + ulps * (i == j) for j, b in enumerate(base)]
            yield f"{name} off by {ulps} ulp", claimed, base, RATE, LIMITS
            yield f"{name} off by {ulps} ulp, wider limits", claimed, base, RATE, WIDER
    yield from _edge_cases(base)
    yield from _large_cases(base)
    yield from _negative_cases(base)
    yield from _not_finite_cases(base)


def _edge_cases(base: list[int]) -> Iterable[ElementCase]:
    one_off = [base[0] + 1, base[1], base[2]]
    # One unit in the last place of 1/4 is 2^-23 of it.
    exact, short = Limits(0, 0, 0, 0, 0, 2**41), Limits(0, 0, 0, 0, 0, 2**41 - 1)
    yield "exactly at the limit", one_off, base, 0, exact
    yield "one unit beyond", one_off, base, 0, short
    # Bits below 2^23 count units of 2^-149.
    half = Limits(2**63, 2**20, 0, 0, 0, 0)
    for units, place in ((2**19, "exactly at the limit"), (2**19 + 1, "one unit beyond")):
        yield f"first moment {place}", [0, units, 0], [0, 0, 0], 0, half
        yield f"second moment {place}", [0, 0, units], [0, 0, 0], 0, Limits(0, 0, 0, 2**19, 0, 0)
    largest = bits(2.0**64) - 1
    opposite = [largest | 1 << 31, 0, largest]
    yield "the largest values that are not cut off", [largest, largest, largest], opposite, RATE, LIMITS
    yield "the widest limits", [largest, largest, largest], [0, 0, largest], 2**128 - 1, WIDEST
    yield "a capped learning rate", one_off, base, 2**256 - 1, LIMITS
    yield "the cap itself", one_off, base, 2**128 - 1, LIMITS
    yield "no second moment", [0, 5, 0], [0, 0, 0], 0, LIMITS
    yield "the least second moment", [0, 1, 1], [0, 0, 1], 0, LIMITS
    yield "a first moment beside a tiny second", [0, bits(1e-9), 1], [0, 0, 1], 0, LIMITS


def _large_cases(base: list[int]) -> Iterable[ElementCase]:
    """Returns large numbers. Every finite element can be judged, because numbers are cut at 2^64."""
    minus, edge = 1 << 31, bits(2.0**64)
    values = [
        ("2^64", edge),
        ("-2^64", edge | minus),
        ("3.4e38", MAX_FINITE),
        ("-3.4e38", MAX_FINITE | minus),
    ]
    for name, value in values:
        for i in range(3):
            spoiled = [value if i == j else b for j, b in enumerate(base)]
            yield f"both {name} in tensor {i}, no limits", spoiled, spoiled, 0, NONE
            yield f"claimed {name} in tensor {i}", spoiled, base, RATE, WIDER
            yield f"replayed {name} in tensor {i}", base, spoiled, RATE, WIDER
            opposite = [value ^ minus if i == j else b for j, b in enumerate(base)]
            yield f"{name} of both signs in tensor {i}", spoiled, opposite, RATE, WIDER
    below = [edge - 1] * 3
    yield "both cut off", [edge + 5, edge + 7, edge + 9], [MAX_FINITE] * 3, 0, NONE
    yield "just below and cut off, no limits", below, [MAX_FINITE] * 3, 0, NONE
    yield "just below and cut off", below, [MAX_FINITE] * 3, 0, LIMITS
    yield (
        "everything at its largest",
        [MAX_FINITE | minus] * 2 + [MAX_FINITE],
        [MAX_FINITE] * 3,
        2**256 - 1,
        WIDEST,
    )
    # m is not cut if v' is: a difference of some ulps of m = 2^40 beside v' = 2^80.
    for far in (1, 64, 1 << 14):
        first, second = bits(2.0**40), bits(2.0**80)
        yield (
            f"m off by {far} ulp beside v of 2^80",
            [0, first + far, second],
            [0, first, second],
            RATE,
            LIMITS,
        )
    for power in (63, 64, 65, 127):
        second = bits(2.0**power)
        allowed = tolerance.compute_allowances(tolerance.Element(0, 0, second), 0, LIMITS)[1]
        inside = float32.round_to_bits(allowed * float32.UNIT)
        for moment, place in ((inside - 1, "just inside"), (inside + 1, "just beyond")):
            yield f"first moment {place}, v = 2^{power}", [0, moment, second], [0, 0, second], 0, LIMITS


def _negative_cases(base: list[int]) -> Iterable[ElementCase]:
    """Returns negative values. A negative v is judged by its distance, except beside a v' that is not
    negative."""
    minus = 1 << 31
    negative = base[2] | minus
    for ulps in (0, 1, 64, 1 << 14):
        claimed = [base[0], base[1], negative + ulps]
        yield f"both v negative, {ulps} ulp apart", claimed, [base[0], base[1], negative], RATE, LIMITS
    yield "m beside a negative v", [0, bits(1e-9), negative], [0, 0, negative], RATE, LIMITS
    yield "v of the wrong sign, claimed negative", [*base[:2], negative], base, RATE, WIDER
    yield "v of the wrong sign, replayed negative", base, [*base[:2], negative], RATE, WIDER
    floor = Limits(0, 0, 0, 2**20, 0, 0)
    yield "a negative v inside the floor", [0, 0, 3 | minus], [0, 0, 7], 0, floor
    yield "a replayed negative v inside the floor", [0, 0, 3], [0, 0, 7 | minus], 0, floor
    yield "both negative inside the floor", [0, 0, 3 | minus], [0, 0, 7 | minus], 0, floor
    yield "zeros of v inside the floor", [0, 0, minus], [0, 0, 7], 0, floor
    yield "negative beside a zero of v", [0, 0, 7 | minus], [0, 0, minus], 0, floor


def _not_finite_cases(base: list[int]) -> Iterable[ElementCase]:
    for name, pattern in (("NaN", 0x7FC00000), ("infinity", 0x7F800000)):
        for i in range(3):
            spoiled = [pattern if i == j else b for j, b in enumerate(base)]
            yield f"claimed {name} in tensor {i}", spoiled, base, RATE, WIDEST
            yield f"replayed {name} in tensor {i}", base, spoiled, RATE, WIDEST
            yield f"both {name} in tensor {i}", spoiled, spoiled, RATE, WIDEST
    negative = [base[0], base[1], base[2] | 1 << 31]
    yield "a negative second moment", negative, base, RATE, WIDEST
    yield "the least negative second moment", [0, 0, 0x80000001], [0, 0, 0], RATE, WIDEST


def tolerance_tables() -> dict[str, Table]:
    """Returns elements at, just inside and just beyond the limits, and everything that no limits fit."""
    elements, roots = Table(), Table()
    for name, claimed, replayed, rate, limits in _element_cases():
        pair = tolerance.Element(*claimed), tolerance.Element(*replayed)
        exceeds_limits = tolerance.does_element_exceed(*pair, rate, limits)
        is_finite = all(map(float32.is_finite, pair[1]))
        allowed = tolerance.compute_allowances(pair[1], rate, limits) if is_finite else (0, 0, 0)
        inputs = {"claimed": claimed, "replayed": replayed, "learningRateSum": rate}
        elements.add(name, **inputs, limits=_limit_list(limits), allowed=list(allowed), beyond=exceeds_limits)
    for units in (0, 1, 2, 3, 4, 2**43, 2**149, 10**12, 2**212 + 12345, 2**213 - 2**189, 2**213 - 1):
        roots.add(str(units), secondMoment=units, root=tolerance.compute_root_up(units))
    return {"elements": elements, "roots": roots, "leaves": _tolerance_leaves()}


def _limit_list(limits: Limits) -> list[int]:
    return [limits.tau_m, limits.eps_m, limits.tau_v, limits.floor_v, limits.tau_w, limits.tau_r]


def _tolerance_leaves() -> Table:
    table = Table()
    second = float32.pack_bits([b & 0x7FFFFFFF for b in float32.unpack_bits(make_leaf("v", 1e-6))])
    honest = [make_leaf("w", 1e-3), make_leaf("m", 1e-5), second]
    cases = [("equal", honest), ("padding only", [bytes(1024)] * 3)]
    for tensor, name in enumerate(("weights", "first moment", "second moment")):
        for ulps, size in ((1, "one ulp"), (1 << 20, "far")):
            spoiled = list(honest)
            patterns = float32.unpack_bits(honest[tensor])
            patterns[255] += ulps
            spoiled[tensor] = float32.pack_bits(patterns)
            cases.append((f"last element of the {name} off by {size}", spoiled))
    for name, claimed in cases:
        replayed = claimed if name == "padding only" else honest
        pair = tolerance.StateLeaf(*claimed), tolerance.StateLeaf(*replayed)
        exceeds_limits = tolerance.does_leaf_exceed(*pair, RATE, LIMITS)
        inputs = {"claimed": claimed, "replayed": replayed, "learningRateSum": RATE}
        table.add(name, **inputs, limits=_limit_list(LIMITS), beyond=exceeds_limits)
    return table
