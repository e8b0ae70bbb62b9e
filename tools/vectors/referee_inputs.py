"""Makes operands and claims for the referee, the hardest ones first: any operation, both verdicts.

`draw(n)` gives a number below n: from a label for the vectors, from a seed for a campaign.

    operation --> terms --> claims around the edges of what is allowed --> verdicts
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from touchstone.protocol.spec.float32 import INFINITY, SIGN_BIT, is_finite, pack_bits, round_to_bits
from touchstone.protocol.spec.operation_bounds import Terms
from touchstone.protocol.spec.program_operations import INDEXED, OPERAND_COUNTS, Operation
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
"""Exponent fields, the lowest and one beyond the highest. `low` makes products near the least normal number.
`window`, `first` and `last` are as many as the contract sums without limbs, one more, and those at both
ends."""
BANDS = ("first", "plain", "last", "plain", "one", "low")
"""Kinds of terms that follow one another in sums, ten of each, so that they change in the middle of words of
eight."""
VERGE = EDGES[-4:]
PAIRS = {"lost": ("subnormal", "huge"), "verge": ("verge", "low")}
"""Kinds of neighbouring operands. `lost` makes products that vanish if subnormal operands do. `verge` makes
operands near the largest number, although their products stay small."""


@dataclass(frozen=True)
class Case:
    """A claim about one operation. `kind` says how its operands were made; `is_fault` is the verdict; `bits`
    are those of quantized values."""

    kind: str
    operation: Operation
    terms: Terms
    claimed: int
    is_fault: bool
    numeric_format: str = "float32"
    bits: int = 0


@dataclass(frozen=True)
class Run:
    """An operand as the contract takes it: element i is float32 number first + i of `data`, or always
    `first`."""

    data: bytes
    first: int
    repeats: bool


def make_bits(kind: str, draw: Draw) -> int:
    """Returns the bits of a finite number."""
    sign = draw(2) * SIGN_BIT
    if kind in ("edges", "verge"):
        magnitudes = EDGES if kind == "edges" else VERGE
        return magnitudes[draw(len(magnitudes))] | sign
    low, high = EXPONENTS[kind]
    fraction = (draw(1 << 23), draw(1 << 23), 0, 1, (1 << 23) - 1, 1 << draw(23))[draw(6)]
    return min((low + draw(high - low)) << 23 | fraction, LARGEST) | sign


def make_terms(operation: Operation, kind: str, count: int, draw: Draw) -> Terms:
    """Returns `count` terms (1 except for reductions) of one of KINDS."""
    width = 1 if operation in INDEXED else OPERAND_COUNTS[operation]
    turn = draw(2)
    terms = [
        tuple(
            make_bits(_choose_kind(_choose_band(kind, i), turn + place, draw), draw) for place in range(width)
        )
        for i in range(count)
    ]
    if kind == "cancelling":  # The odd ones cancel the even ones.
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
    """Returns the operands of these terms, each inside longer data; a constant one is sometimes given
    once."""
    width = 1 if operation in INDEXED else OPERAND_COUNTS[operation]
    columns = [[term[i] for term in terms] for i in range(width)]
    return [_make_run(column, draw) for column in columns]


def _make_run(column: list[int], draw: Draw) -> Run:
    before, after = ([draw(1 << 32) for _ in range(draw(4))] for _ in range(2))
    repeats = bool(column) and len(set(column)) == 1 and draw(4) != 0
    return Run(pack_bits([*before, *(column[:1] if repeats else column), *after]), len(before), repeats)


def step(bits: int, places: int) -> int:
    """Returns the float32 that is `places` floats above a number (no NaN). Both zeros are one place; it stops
    at the infinities."""
    rank = bits & ~SIGN_BIT
    rank = (-rank if bits & SIGN_BIT else rank) + places
    return min(abs(rank), INFINITY) | (SIGN_BIT if rank < 0 else 0)


def make_claims(operation: Operation, terms: Terms, draw: Draw) -> list[int]:
    """Returns claims on both sides of each edge of what is allowed, one place more on each, and claims that
    are never or always right."""
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
    """Returns all claims about one draw of operands."""
    terms = make_terms(operation, kind, count, draw)
    claims = make_claims(operation, terms, draw)
    return [Case(kind, operation, terms, bits, is_fault(operation, terms, bits)) for bits in claims]


def is_fault(operation: Operation, terms: Terms, claimed: int) -> bool:
    """Returns the verdict of Python."""
    return judge_operation(operation, terms, claimed).is_fault
