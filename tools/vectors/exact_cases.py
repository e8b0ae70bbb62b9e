"""Makes the cases of tests/vectors/exact.json: the right values of elements, the hardest ones first.

operation --> operands --> `exact.compute_element` --> right bits
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from tools.vectors.fixed_values import bits as bits_of
from tools.vectors.fixed_values import number
from tools.vectors.referee_cases import FUNCTION_OPERANDS, LONGEST
from tools.vectors.referee_inputs import (
    EDGES,
    LARGEST,
    Draw,
    Run,
    make_bits,
    make_runs,
    make_terms,
    step,
)
from tools.vectors.table import Table
from touchstone.protocol.spec.exact import compute_element
from touchstone.protocol.spec.exact_elementwise import NAN
from touchstone.protocol.spec.float32 import INFINITY, SIGN_BIT, round_to_bits, to_fraction
from touchstone.protocol.spec.operation_bounds import Terms
from touchstone.protocol.spec.program import ELEMENT_BYTES, QUANTIZED_ROLES
from touchstone.protocol.spec.program_operations import QUANTIZED_FACTORS, QUANTIZED_LIMITS, Operation

ONE, LEAST_NORMAL = 0x3F800000, 0x00800000
NANS = (NAN, INFINITY + 1, SIGN_BIT | NAN, 0xFFFFFFFF)
SPECIAL = (
    0, SIGN_BIT, 1, SIGN_BIT | 1, LEAST_NORMAL - 1, LEAST_NORMAL, SIGN_BIT | ONE, ONE, ONE + 1, 0x40490FDB,
    LARGEST, SIGN_BIT | LARGEST, INFINITY, SIGN_BIT | INFINITY, *NANS,
)  # fmt: skip
"""Zeros, subnormal and normal numbers, infinities and NaN."""
BINARY = (
    Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE, Operation.MAXIMUM,
    Operation.MINIMUM, Operation.FLUSH,
)  # fmt: skip
UNARY = (
    Operation.SQUARE_ROOT, Operation.RECIPROCAL_ROOT, Operation.EXPONENTIAL, Operation.LOGARITHM,
    Operation.SIGMOID, Operation.GATHER, Operation.EQUAL_SELECT, Operation.COPY,
)  # fmt: skip
ROOT_2 = 0x3FB504F3
"""Significands around the one where a logarithm takes the next power of two."""
DECISIVE = {
    Operation.EXPONENTIAL: (
        0xC2922868, 0x42040902, 0x4214A6C9, 0x3D40D10C, 0xBE6BE7E3, 0x41161919, 0xC11FC72F, 0xC221E516,
        0xBF7C46B0, 0x42A81D79, 0xC198C189, 0x41D01FBA, 0x3FDCB911, 0x412CCAFF, 0x3E8A65D3, 0xC221ED37,
        0xC16E78D2, 0xC136E920, 0xC1796ECA, 0x3E54B407,
    ),
    Operation.LOGARITHM: (
        0x400EC965, 0x3DAFFBF8, 0x3CA2F1C8, 0x3AEE0D1B, 0x42B51AB3, 0x3EAB843C, 0x3F275F7E, 0x3F267850,
        0x3FBE7F28,
    ),
}  # fmt: skip
"""Operands whose result changes if a constant of the series is one more, or one less: log2 e, ln 2, each
coefficient of 2^f and the first four of the logarithm. They were searched for. One more or less of the other
three changes no operand near 1."""
KINDS = ("plain", "wide", "tiny", "subnormal", "huge", "edges", "cancelling", "broken", "repeated", "mixed")
PAIR_KINDS = KINDS[:6]
COUNTS = (1, 2, 3, 7, 8, 9, 17)
RANDOM = 24
"""Random operands of each function, and pairs of each operation."""


def exact_tables() -> dict[str, Table]:
    """Returns single operands, pairs and rows, each with the right bits; integers in two's complement of 32
    bits."""
    return {"unary": _unary(), "binary": _binary(), "rows": _rows()}


def _draw_from(label: str) -> Draw:
    numbers = count()
    return lambda bound: number(f"exact/{label}/{next(numbers)}", bound)


def pack_integer(value: int) -> int:
    """Returns an integer in two's complement of 32 bits."""
    return value % (1 << 32)


def _unary() -> Table:
    table = Table()
    for operation in UNARY:
        draw = _draw_from(operation.name)
        operands = [*SPECIAL, *EDGES, *(SIGN_BIT | bits for bits in EDGES)]
        operands += [*FUNCTION_OPERANDS.get(operation, ()), *DECISIVE.get(operation, ())]
        operands += [step(ROOT_2, places) for places in (-1, 0, 1)]
        operands += [make_bits(kind, draw) for kind in ("wide", "plain") for _ in range(RANDOM)]
        operands = list(dict.fromkeys(operands))
        right = [compute_element(operation, [(a,)]) for a in operands]
        table.add(operation.name, operation=int(operation), a=operands, right=right)
    return table


def _binary() -> Table:
    table = Table()
    for operation in BINARY:
        for a in SPECIAL:
            _add_pairs(table, f"{operation.name} of {a:#010x}", operation, [(a, b) for b in SPECIAL], 0)
        draw = _draw_from(operation.name)
        pairs = [(make_bits(kind, draw), make_bits(kind, draw)) for kind in PAIR_KINDS for _ in range(8)]
        a = make_bits("plain", draw)
        pairs += [(a, step(a, places)) for places in (-1, 0, 1)] + [(a, a ^ SIGN_BIT)]
        _add_pairs(table, f"{operation.name} of many", operation, pairs, 0)
    for bits in QUANTIZED_LIMITS:
        _add_pairs(table, f"quantized to {bits} bits", Operation.QUANTIZE, list(_quantized_pairs(bits)), bits)
    return table


def _add_pairs(
    table: Table, name: str, operation: Operation, pairs: Sequence[tuple[int, int]], bits: int
) -> None:
    right = [pack_integer(compute_element(operation, [pair], bits)) for pair in pairs]
    columns = {"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}
    table.add(name, operation=int(operation), bits=bits, **columns, right=right)


def _quantized_pairs(bits: int) -> Iterator[tuple[int, int]]:
    """Returns ties, both sides of the limit, and scales that no row has."""
    limit = QUANTIZED_LIMITS[bits]
    draw = _draw_from(f"quantize {bits}")
    for scale in (2.0**-20, 1.0, 2.0**-140):
        for times in (0.5, 1.5, 2.5, 0.49, limit - 0.5, limit, limit + 0.49, limit + 0.5, limit + 1, 2**30):
            bits_of_times = bits_of(times * scale)
            for a in (step(bits_of_times, -1), bits_of_times, step(bits_of_times, 1)):
                yield a, bits_of(scale)
                yield a | SIGN_BIT, bits_of(scale)
    for a in SPECIAL:
        for b in (*SPECIAL, bits_of(3.0), 0x7E800000):
            yield a, b
    for kind in ("plain", "wide", "tiny"):
        for _ in range(RANDOM):
            yield make_bits(kind, draw), make_bits(kind, draw) & ~SIGN_BIT


@dataclass(frozen=True)
class _Row:
    name: str
    operation: Operation
    terms: Terms
    bits: int = 0


def _rows() -> Table:
    table = Table()
    for row in (*_hand_made_rows(), *_random_rows(), *_quantized_rows(), *_long_rows()):
        draw = _draw_from(f"runs/{row.name}")
        is_product = row.operation is Operation.QUANTIZED_PRODUCT_SUM
        integer_bytes = ELEMENT_BYTES[QUANTIZED_ROLES[row.bits]] if is_product else 4
        runs = make_quantized_runs(row.terms, integer_bytes, draw) if is_product else None
        runs = runs or make_runs(row.operation, row.terms, draw)
        table.add(
            row.name,
            operation=int(row.operation),
            bits=row.bits,
            integerBytes=integer_bytes,
            terms=len(row.terms),
            data=[run.data for run in runs],
            first=[run.first for run in runs],
            repeats=[run.repeats for run in runs],
            right=compute_element(row.operation, row.terms, row.bits),
        )
    return table


def make_quantized_runs(terms: Terms, integer_bytes: int, draw: Draw) -> list[Run]:
    """Returns the factors, each inside longer data (a constant factor is sometimes given once), then the
    scales: one for each term, or one for all."""
    runs = []
    for place in range(QUANTIZED_FACTORS):
        column = [term[place] for term in terms]
        repeats = len(set(column)) == 1 and draw(4) != 0
        limit = 1 << (8 * integer_bytes - 1)
        before, after = ([draw(2 * limit) - limit for _ in range(draw(6))] for _ in range(2))
        values = [*before, *(column[:1] if repeats else column), *after]
        data = b"".join(value.to_bytes(integer_bytes, "little", signed=True) for value in values)
        runs.append(Run(data, len(before), repeats))
    scales = make_runs(Operation.ADD, [terms[0][QUANTIZED_FACTORS:]], draw)
    return runs + [replace(scale, repeats=True) for scale in scales]


def _as_rows(name: str, values: Sequence[int], *operations: Operation, bits: int = 0) -> Iterator[_Row]:
    for operation in operations:
        yield _Row(f"{operation.name}: {name}", operation, [(value,) for value in values], bits)


def _hand_made_rows() -> Iterator[_Row]:
    sums, extreme = (Operation.SUM, Operation.SELECTED_SUM), Operation.MAXIMUM_OF
    half = bits_of(2.0**-39)
    minus = SIGN_BIT
    yield _Row("nothing selected", Operation.SELECTED_SUM, [])
    yield from _as_rows("a tie to even", [ONE, half], Operation.SUM)
    yield from _as_rows("a tie to odd's neighbour", [ONE, bits_of(3 * 2.0**-39), minus | ONE], Operation.SUM)
    yield from _as_rows("a tie below zero", [ONE, minus | half, minus | ONE], Operation.SUM)
    yield from _as_rows("just above a tie", [ONE, half + 1, minus | ONE], Operation.SUM)
    yield from _as_rows("ties that would add up", [ONE, *[half] * 16, minus | ONE], Operation.SUM)
    far = bits_of(2.0**-104), bits_of(2.0**-103), bits_of(2.0**-128), 1
    yield from _as_rows("what is far below", [ONE, *far, minus | ONE], Operation.SUM)
    yield from _as_rows("subnormal numbers, exactly", [LEAST_NORMAL - 1, 1, minus | 3], *sums)
    yield from _as_rows("one and its negative", [LARGEST, minus | LARGEST], *sums)
    yield from _as_rows("more than the largest", [LARGEST, LARGEST], *sums)
    yield from _as_rows("the largest and half a place", [LARGEST, 0x73000000], Operation.SUM)
    yield from _as_rows("the largest and less", [LARGEST, 0x72FFFFFF], Operation.SUM)
    for operation in (Operation.SUM, extreme):
        yield from _as_rows("zeros below zero", [minus] * 9, operation)
        yield from _as_rows("both zeros", [minus, 0], operation)
        yield from _as_rows("both infinities", [INFINITY, minus | INFINITY], operation)
        yield from _as_rows("an infinity last", [*[ONE] * 8, INFINITY], operation)
        yield from _as_rows("a negative infinity", [minus | INFINITY, minus | LARGEST], operation)
        for bits in NANS:
            yield from _as_rows(f"a NaN {bits:#010x}", [ONE, bits, INFINITY], operation)
    yield from _as_rows("all below zero", [minus | 5, minus | ONE, minus | 4, minus | INFINITY], extreme)
    for bits, limit in QUANTIZED_LIMITS.items():
        yield from _scale_rows(bits, limit)
    for condition in SPECIAL:
        for yes, no in ((ONE, minus), (NANS[1], NANS[3])):
            name = f"FINITE_SELECT by {condition:#010x} of {yes:#010x}"
            yield _Row(name, Operation.FINITE_SELECT, [(condition, yes, no)])


def _scale_rows(bits: int, limit: int) -> Iterator[_Row]:
    scale_of = Operation.SCALE_OF
    for power in (0, -20, 100):
        for times in (limit, limit + 0.5, limit + 1, limit / 2 + 0.25):
            edge = bits_of(times * 2.0**power)
            for place in (-1, 0, 1):
                row = [ONE >> 1, step(edge, place) | SIGN_BIT]
                name = f"{bits} bits, {times} times 2^{power}, {place} places on"
                yield from _as_rows(name, row, scale_of, bits=bits)
    for name, row in {
        "zeros": [0, SIGN_BIT], "the least": [1], "the largest": [LARGEST], "an infinity": [0, INFINITY],
        "a NaN": [NANS[3]], "limit of subnormal numbers": [limit],
        "one beyond it": [SIGN_BIT | (limit + 1)], "twice the limit": [2 * limit],
        "twice the limit and one": [2 * limit + 1, 5],
    }.items():  # fmt: skip
        yield from _as_rows(f"{bits} bits, {name}", row, scale_of, bits=bits)


def _random_rows() -> Iterator[_Row]:
    operations = (Operation.SUM, Operation.SELECTED_SUM, Operation.MAXIMUM_OF, Operation.SCALE_OF)
    for operation in operations:
        for place, kind in enumerate(KINDS):
            terms_count = COUNTS[(place + operation) % len(COUNTS)]
            bits = [*QUANTIZED_LIMITS][place % 3] if operation is Operation.SCALE_OF else 0
            name = f"{operation.name} {kind} {terms_count}"
            yield _Row(name, operation, make_terms(Operation.SUM, kind, terms_count, _draw_from(name)), bits)


SCALES = (
    (ONE, ONE), (ONE, 0x34000000), (1, 1), (LARGEST, LARGEST), (ONE, NAN), (NANS[3], ONE), (ONE, INFINITY),
    (SIGN_BIT | INFINITY, ONE), (0, ONE), (SIGN_BIT, ONE), (SIGN_BIT | ONE, ONE), (0xC0490FDB, SIGN_BIT | 3),
    (0x7F000000, 0x00000001), (0x1A000000, 0x1A000000), (1, LEAST_NORMAL),
)  # fmt: skip
"""Scales of rows, and scales that only a cheat's buffers hold."""


def _quantized_rows() -> Iterator[_Row]:
    product = Operation.QUANTIZED_PRODUCT_SUM
    for bits, limit in QUANTIZED_LIMITS.items():
        most = 1 << (8 * ELEMENT_BYTES[QUANTIZED_ROLES[bits]] - 1)
        for scale_a, scale_b in SCALES:
            for a, b in ((limit, -3), (0, limit), (-1, -1)):
                name = f"{bits} bits, {a} times {b}, scales {scale_a:#010x} and {scale_b:#010x}"
                yield _Row(name, product, [(a, b, scale_a, scale_b)], bits)
        for name, pairs in {
            "all limits": [(limit, limit), (-limit, limit), (-limit, -limit)] * 11,
            "beyond the limits": [(-most, -most), (most - 1, -most)] * 9,
            "nothing is left": [(5, 7), (-5, 7)] * 8,
            "one factor": [(limit, n - 20) for n in range(41)],
        }.items():
            terms = [(*pair, ONE, SIGN_BIT | ONE) for pair in pairs]
            yield _Row(f"{bits} bits, {name}", product, terms, bits)
        for terms_count in (*COUNTS, 31, 33):
            yield _random_products(bits, terms_count)
    # 2^24 + 1 and 2^24 + 3 lie halfway between two float32 numbers.
    for odd in (1, 2, 3):
        pairs = [(16_000, 1_000), (777_216 // 64, 64), (odd, 1)]
        yield _Row(f"a tie, 2^24 and {odd}", product, [(*pair, ONE, ONE) for pair in pairs], 15)
    # The greatest product below 2^128, and the next one.
    for total in (0xFFFFFF, 0x1FFFFFF):
        pairs = [(total // 4095, 4095), (total % 4095, 1)]
        scale = round_to_bits(to_fraction(ONE) * 2 ** (104 if total == 0xFFFFFF else 103))
        yield _Row(f"about 2^128, {total:#x}", product, [(*pair, scale, ONE) for pair in pairs], 20)


def _random_products(bits: int, terms_count: int) -> _Row:
    name = f"{bits} bits, {terms_count} products"
    draw, limit = _draw_from(name), QUANTIZED_LIMITS[bits]
    scales = make_bits("plain", draw), make_bits("plain", draw)
    terms = [(draw(2 * limit + 1) - limit, draw(2 * limit + 1) - limit, *scales) for _ in range(terms_count)]
    return _Row(name, Operation.QUANTIZED_PRODUCT_SUM, terms, bits)


def _long_rows() -> Iterator[_Row]:
    for operation, kind, terms_count, bits in (
        (Operation.SUM, "plain", 128, 0),
        (Operation.SUM, "wide", 512, 0),
        (Operation.SUM, "plain", LONGEST, 0),
        (Operation.MAXIMUM_OF, "wide", 512, 0),
        (Operation.SCALE_OF, "plain", 512, 15),
    ):
        name = f"{operation.name} of {terms_count} terms"
        terms = make_terms(Operation.SUM, kind, terms_count, _draw_from(name))
        yield _Row(name, operation, terms, bits)
    product = Operation.QUANTIZED_PRODUCT_SUM
    for bits, terms_count in ((8, 128), (8, LONGEST), (15, 128), (15, 512), (20, 512)):
        yield _random_products(bits, terms_count)
    for bits, limit in QUANTIZED_LIMITS.items():
        limits = [(-limit, limit, ONE, ONE)] * LONGEST
        yield _Row(f"{bits} bits, {LONGEST} times the limits", product, limits, bits)
    yield _Row(f"{LONGEST} times the largest", Operation.SUM, [(LARGEST,)] * LONGEST)
    yield _Row(f"{LONGEST} times the least", Operation.SUM, [(SIGN_BIT | 1,)] * LONGEST)
    yield _Row(f"the scale of {LONGEST} equal terms", Operation.SCALE_OF, [(0x40490FDB,)] * LONGEST, 20)
