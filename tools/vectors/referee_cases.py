"""Operands and claims for the referee, the nasty ones first, and cases of tests/vectors/referee.json.

Operands and claims for the referee, the nasty ones first: any operation with bounds, both verdicts.

`draw(n)` gives a number below n: from a label for the vectors, from a seed for a campaign.

    operation --> terms --> claims around the edges of what is allowed --> verdicts
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

from tools.vectors.fixed_values import number
from tools.vectors.table import Table
from touchstone.protocol.spec.enclosures import ENCLOSURES, LIMIT
from touchstone.protocol.spec.float32 import (
    INFINITY,
    SIGN_BIT,
    is_finite,
    pack_bits,
    round_to_bits,
    to_fraction,
)
from touchstone.protocol.spec.operation_bounds import Terms
from touchstone.protocol.spec.program_operations import (
    BOUNDED_OPERATIONS,
    INDEXED,
    OPERAND_COUNTS,
    Operation,
)
from touchstone.protocol.spec.referee import judge_operation

Draw = Callable[[int], int]
SUMS = (Operation.PRODUCT_SUM, Operation.SUM, Operation.SELECTED_SUM)
EXTREMES = (Operation.MAXIMUM_OF, Operation.MAXIMUM, Operation.MINIMUM)
LARGEST, NOT_A_NUMBER = INFINITY - 1, 0x7FC00000
EDGES = [
    0, 1, 3, 0x007FFFFF, 0x00800000, 0x00800001, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x40000000, 0x33800000,
    0x42AE0000, 0x42B17218, 0x42FC0000, 0x43000000, 0x43000001, 0x5F000000, 0x73000000, 0x7E800000,
    0x7EFFFFFF, 0x7F000000, LARGEST,
]  # fmt: skip
"""Magnitudes where something changes: 0, subnormal, normal, 1, 128 (exponentials), 2^126, 2^127, the end."""
EXPONENTS = {
    "plain": (118, 132), "wide": (0, 255), "tiny": (0, 4), "low": (30, 90), "high": (180, 255),
    "one": (126, 128), "steps": (127, 134), "subnormal": (0, 1), "huge": (220, 254),
    "window": (111, 144), "first": (1, 33), "last": (222, 255),
}  # fmt: skip
"""Exponent fields, lowest and one beyond the highest. low: products near the least normal number; window,
first, last: as many as the contract sums without limbs, one more, and those at both ends."""
BANDS = ("first", "plain", "last", "plain", "one", "low")
"""Kinds of terms that follow one another in sums, ten of each: in the middle of words of eight."""
VERGE = EDGES[-4:]
PAIRS = {"lost": ("subnormal", "huge"), "verge": ("verge", "low")}
"""Kinds of neighbouring operands. lost: products that vanish where subnormal operands do; verge: operands
near the largest number, though their products stay small."""


@dataclass(frozen=True)
class Case:
    """A claim about one operation. kind: how its operands were made; is_fault: the verdict; bits: of
    quantized values."""

    kind: str
    operation: Operation
    terms: Terms
    claimed: int
    is_fault: bool
    numeric_format: str = "float32"
    bits: int = 0


@dataclass(frozen=True)
class Run:
    """An operand as the contract takes it: element i is float32 number first + i of `data`, or `first`
    always."""

    data: bytes
    first: int
    repeats: bool


# --- Operands -----------------------------------------------------------------------------------------------
def make_bits(kind: str, draw: Draw) -> int:
    """A finite pattern."""
    sign = draw(2) * SIGN_BIT
    if kind in ("edges", "verge"):
        magnitudes = EDGES if kind == "edges" else VERGE
        return magnitudes[draw(len(magnitudes))] | sign
    low, high = EXPONENTS[kind]
    fraction = (draw(1 << 23), draw(1 << 23), 0, 1, (1 << 23) - 1, 1 << draw(23))[draw(6)]
    return min((low + draw(high - low)) << 23 | fraction, LARGEST) | sign


def make_terms(operation: Operation, kind: str, count: int, draw: Draw) -> Terms:
    """`count` terms (1 but for reductions) of one of KINDS."""
    width = 1 if operation in INDEXED else OPERAND_COUNTS[operation]
    turn = draw(2)
    terms = [
        tuple(
            make_bits(_choose_kind(_choose_band(kind, i), turn + place, draw), draw) for place in range(width)
        )
        for i in range(count)
    ]
    if kind == "cancelling":  # the odd ones undo the even ones
        return [(t[0] ^ SIGN_BIT * (i % 2), *t[1:]) for i in range(count) for t in terms[i // 2 : i // 2 + 1]]
    if kind == "repeated":
        return [(*terms[0][:-1], *term[-1:]) for term in terms]
    if kind == "broken" and terms:
        place, column = draw(count), draw(width)
        poison = (INFINITY, INFINITY | SIGN_BIT, NOT_A_NUMBER, 0xFFFFFFFF)[draw(4)]
        terms[place] = (*terms[place][:column], poison, *terms[place][column + 1 :])
    return terms


def _choose_band(kind: str, place: int) -> str:
    return BANDS[place // 10 % len(BANDS)] if kind == "banded" else kind


def _choose_kind(kind: str, place: int, draw: Draw) -> str:
    if kind == "mixed":
        return ("plain", "edges", "tiny", "plain")[draw(4)]
    if kind in PAIRS:
        return PAIRS[kind][place % 2]
    return kind if kind in EXPONENTS or kind == "edges" else "plain"


KINDS = (*EXPONENTS, *PAIRS, "edges", "cancelling", "broken", "repeated", "mixed", "banded")


def make_runs(operation: Operation, terms: Terms, draw: Draw) -> list[Run]:
    """The operands of these terms, each somewhere inside longer data; a constant one sometimes said once."""
    width = 1 if operation in INDEXED else OPERAND_COUNTS[operation]
    columns = [[term[i] for term in terms] for i in range(width)]
    return [_make_run(column, draw) for column in columns]


def _make_run(column: list[int], draw: Draw) -> Run:
    before, after = ([draw(1 << 32) for _ in range(draw(4))] for _ in range(2))
    repeats = bool(column) and len(set(column)) == 1 and draw(4) != 0
    return Run(pack_bits([*before, *(column[:1] if repeats else column), *after]), len(before), repeats)


# --- Claims -------------------------------------------------------------------------------------------------
def step(bits: int, places: int) -> int:
    """The float32 so many places above a pattern that is no NaN; both zeros are one place; stops at the
    infinities."""
    rank = bits & ~SIGN_BIT
    rank = (-rank if bits & SIGN_BIT else rank) + places
    return min(abs(rank), INFINITY) | (SIGN_BIT if rank < 0 else 0)


def make_claims(operation: Operation, terms: Terms, draw: Draw) -> list[int]:
    """Both sides of each edge of what is allowed, a place more on each, and what is never or always right."""
    values = [bits for term in terms[:2] for bits in term]
    claims = [0, INFINITY, NOT_A_NUMBER, INFINITY | SIGN_BIT, make_bits("wide", draw), *values]
    flushed = [tuple(0 if is_finite(x) and not x & INFINITY else x for x in term) for term in terms]
    for given in (terms, flushed) if flushed != list(terms) and operation not in SUMS else (terms,):
        judged = judge_operation(operation, given, 0)
        if judged.exact is not None:
            claims += _surround(judged.exact, judged.bound)
    return list(dict.fromkeys(claims))


def _surround(exact: Fraction, bound: Fraction) -> Iterator[int]:
    for edge in (exact, exact - bound, exact + bound):
        for places in (-1, 0, 1):
            yield step(round_to_bits(edge), places)


def make_cases(operation: Operation, kind: str, count: int, draw: Draw) -> list[Case]:
    """All claims about one draw of operands."""
    terms = make_terms(operation, kind, count, draw)
    claims = make_claims(operation, terms, draw)
    return [Case(kind, operation, terms, bits, is_fault(operation, terms, bits)) for bits in claims]


def is_fault(operation: Operation, terms: Terms, claimed: int) -> bool:
    """The verdict of Python."""
    return judge_operation(operation, terms, claimed).is_fault


COUNTS = (1, 2, 3, 7, 8, 9, 17)
"""Terms of sums: about whole words of eight."""
LONGEST = 4096
LONG = (
    (Operation.PRODUCT_SUM, 128),
    (Operation.PRODUCT_SUM, 512),
    (Operation.SUM, 512),
    (Operation.SELECTED_SUM, 128),
    (Operation.PRODUCT_SUM, LONGEST),
)
ONE, TINY, HUGE = 0x3F800000, 0x00000003, 0x7F000000
MIDDLE = 127
"""Exponent field of 1."""
_EXPONENTS = (
    0x00000000, 0x00000001, 0x80000001, 0x3F800000, 0xBF800000, 0x42B17218, 0xC2AE0000, 0xC2AD4000,
    0xC2AEAC4F, 0xC2AEAC50, 0xC2D00000, 0xC2FE0000, 0xC3000000, 0xC3000001, 0xFF7FFFFF, 0x43000000,
    0x43000001, 0x7F7FFFFF,
)  # fmt: skip
"""About ln 2^128 and ln 2^-126, where results become subnormal, and 128, the limit of the series."""
_POSITIVES = (
    ONE, ONE - 1, ONE + 1, 0x3F400000, 0x3F400001, 0x3FC00000, 0x3FC00001, 0x40000000, 0x00800000, 0x7F7FFFFF,
    0x80000001, 0x3E99999A,
)  # fmt: skip
"""About 1, 3/4 and 3/2, and the ends."""
FUNCTION_OPERANDS = {
    Operation.EXPONENTIAL: _EXPONENTS, Operation.SIGMOID: _EXPONENTS,
    Operation.LOGARITHM: _POSITIVES, Operation.RECIPROCAL_ROOT: _POSITIVES,
}  # fmt: skip
Inputs = tuple[str, Operation, Terms]


def _inputs() -> Iterator[Inputs]:
    for operation in BOUNDED_OPERATIONS:
        for place, kind in enumerate(KINDS):
            terms_count = COUNTS[(place + operation) % len(COUNTS)] if _is_reduction(operation) else 1
            label = f"{operation.name} {kind} {terms_count}"
            yield label, operation, make_terms(operation, kind, terms_count, _draw_from(label))
    yield from _long_inputs()
    yield from _edge_inputs()


def _is_reduction(operation: Operation) -> bool:
    return operation in SUMS or operation is Operation.MAXIMUM_OF


def _long_inputs() -> Iterator[Inputs]:
    for operation, terms_count in LONG:
        label = f"{operation.name} long {terms_count}"
        yield label, operation, make_terms(operation, "plain", terms_count, _draw_from(label))
    for operation in (Operation.PRODUCT_SUM, Operation.SUM):
        label = f"{operation.name} banded 128"
        yield label, operation, make_terms(operation, "banded", 128, _draw_from(label))
    large = [(0x7E000001, 0xBF7FFFFF)] * LONGEST
    yield f"a product sum of {LONGEST} large terms", Operation.PRODUCT_SUM, large
    yield f"a sum of {LONGEST} terms", Operation.SUM, [(0x3F800001,)] * LONGEST


def _edge_inputs() -> Iterator[Inputs]:
    product_sum = Operation.PRODUCT_SUM
    yield "nothing selected", Operation.SELECTED_SUM, []
    for bits in (HUGE, LARGEST):
        yield f"{bits:#010x} first, a small product", product_sum, [(TINY, TINY), (bits, ONE >> 1)]
        yield f"{bits:#010x} second, a small product", product_sum, [(TINY, TINY), (ONE >> 1, bits)]
    yield "subnormal operands count for nothing", product_sum, [(TINY, HUGE), (0x30800000, ONE)]
    yield "subnormal operands beside zeros", product_sum, [(TINY, 0), (0, TINY), (TINY, HUGE)] * 3
    yield from _window_inputs()
    for operation in EXTREMES[1:]:
        yield f"{operation.name} of subnormal numbers", operation, [(TINY, 0x80000001)]
    tiny = [(bits,) for bits in (1, TINY, 0x80000005) * 4]
    yield "the largest of subnormal numbers", EXTREMES[0], tiny
    yield "a threshold below zero", Operation.FLUSH, [(TINY, 0xBF800000)]
    yield "both subnormal", Operation.FLUSH, [(TINY, 0x00000009)]
    yield "2^127 less next to nothing", Operation.SUBTRACT, [(HUGE, 1)]
    yield "2^127 and next to nothing less than 0", Operation.ADD, [(0x80000001, HUGE)]
    # Of the quotient's 64 places after the point all behind a half are zero, but not all further ones.
    yield "a quotient just above a tie", Operation.DIVIDE, [(0x0000000A, 0x00D72084)]
    yield "another, negative", Operation.DIVIDE, [(0x80000041, 0x00BCDF06)]
    for operation, operands in FUNCTION_OPERANDS.items():
        for bits in operands:
            yield f"{operation.name} of {bits:#010x}", operation, [(bits,)]


def _window_inputs() -> Iterator[Inputs]:
    """One pair of a word far from the others, about as far as the contract still sums without limbs."""
    near = MIDDLE << 23 | 0x7FFFFF
    for distance in (15, 16, 17, 31, 32, 48, 63, -14, -15, -16, -31, -32, -64):
        far = near + (distance << 23)
        for label, terms in (
            ("both", [(far, far)]), ("one", [(far, near)]), ("the other", [(near, far | SIGN_BIT)]),
        ):  # fmt: skip
            name = f"{label} {distance} places from seven others"
            yield name, Operation.PRODUCT_SUM, [*terms, *[(near, near)] * 7]
    largest = [(HUGE, ONE >> 1)] * 7
    yield "an infinity among the largest", Operation.PRODUCT_SUM, [(INFINITY, ONE >> 1), *largest]
    least = [(1 << 23, ONE)] * 7
    yield "a subnormal among the least", Operation.PRODUCT_SUM, [(TINY, ONE), *least]


def _draw_from(label: str) -> Draw:
    numbers = count()
    return lambda bound: number(f"referee/{label}/{next(numbers)}", bound)


def referee_tables() -> dict[str, Table]:
    """Operands of every operation and kind, each with claims of both verdicts around its edges."""
    table = Table()
    for name, operation, terms in _inputs():
        draw = _draw_from(f"claims/{name}")
        runs = make_runs(operation, terms, draw)
        claims = make_claims(operation, terms, draw)
        table.add(
            name,
            operation=int(operation),
            terms=len(terms),
            data=[run.data for run in runs],
            first=[run.first for run in runs],
            repeats=[run.repeats for run in runs],
            claimed=claims,
            fault=[is_fault(operation, terms, claimed) for claimed in claims],
        )
    return {"operations": table, "enclosures": _enclosures()}


def _enclosures() -> Table:
    """Both ends as whole numbers of 2^exponent, as large as it can be."""
    table = Table()
    for operation, operands in FUNCTION_OPERANDS.items():
        for bits in operands:
            if _is_enclosed(operation, bits):
                _add_enclosure(table, operation, bits)
    return table


def _is_enclosed(operation: Operation, bits: int) -> bool:
    if operation is Operation.EXPONENTIAL:
        return to_fraction(bits) <= LIMIT
    return operation is Operation.SIGMOID or bits < SIGN_BIT


def _add_enclosure(table: Table, operation: Operation, bits: int) -> None:
    ends = ENCLOSURES[operation](bits)
    exponent = min(map(_count_zeros, ends))
    low, high = (int(end / Fraction(2) ** exponent) for end in ends)
    name = f"{operation.name} of {bits:#010x}"
    table.add(name, operation=int(operation), bits=bits, low=low, high=high, exponent=exponent)


def _count_zeros(value: Fraction) -> int:
    """The largest power of 2 of which a dyadic number is a multiple; 0 for 0."""
    numerator = abs(value.numerator)
    return (numerator & -numerator).bit_length() - value.denominator.bit_length() if numerator else 0
