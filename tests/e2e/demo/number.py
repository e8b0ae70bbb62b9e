"""The one number by which a cheat was convicted, read from the transaction that did it and judged again.

Calldata has the node, the element and the leaves with its operands and its claimed value; the contract has
checked all of it against the cheat's own roots. What stands there is computed here a second time, exactly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from protocol.adapters.chain.abi import decode_values, find_function, load_abi
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.contract import Event
from protocol.compute.bounds.fault import iterate_runs
from protocol.compute.program.task_program import build_program, describe_program
from protocol.spec.containers import TrainingSpec
from protocol.spec.float32 import bits_to_float, is_finite
from protocol.spec.merkle import compute_depth
from protocol.spec.program import (
    ELEMENT_BYTES,
    INTEGER_ROLES,
    QUANTIZED_FACTORS,
    Node,
    Operation,
    Program,
    leaf_elements,
    locate,
    unravel,
)
from protocol.spec.referee import Judgement, judge_operation, read_terms

SELECTOR_BYTES = 4
HASH_BYTES = 32
UNREADABLE = frozenset({Operation.GATHER, Operation.EQUAL_SELECT})
"""Where operands lie hangs on the value of another one: not read here."""
SHOWN_TERMS = 3
SIGNS = {
    Operation.ADD: "{} + {}", Operation.SUBTRACT: "{} - {}", Operation.MULTIPLY: "{} x {}",
    Operation.DIVIDE: "{} / {}", Operation.MAXIMUM: "the larger of {} and {}",
    Operation.MINIMUM: "the smaller of {} and {}", Operation.SQUARE_ROOT: "root of {}",
    Operation.RECIPROCAL_ROOT: "1 / root of {}", Operation.EXPONENTIAL: "exp {}",
    Operation.LOGARITHM: "log {}", Operation.SIGMOID: "1 / (1 + exp -{})",
}  # fmt: skip

LISTED = {Operation.MAXIMUM_OF: "the largest of ", Operation.SCALE_OF: "the scale of "}
"""What is no sum of its terms."""


@dataclass(frozen=True)
class ConvictedNumber:
    """An element of a node of the step's program. terms: the float32 patterns that it was computed from;
    claimed: its own."""

    node: int
    operation: Operation
    element: int
    terms: tuple[tuple[int, ...], ...]
    claimed: int
    judgement: Judgement

    @property
    def formula(self) -> str:
        """The operands in their operation."""
        if self.operation in (Operation.PRODUCT_SUM, Operation.SUM, Operation.MAXIMUM_OF, Operation.SCALE_OF):
            return self._format_reduction()
        if self.operation is Operation.QUANTIZED_PRODUCT_SUM:
            return self._format_quantized()
        words = [show_bits(bits) for bits in self.terms[0]]
        return SIGNS.get(self.operation, self.operation.name + " {}" * len(words)).format(*words)

    def _show(self, place: int, value: int) -> str:
        """An operand: of quantized products the first two are integers."""
        is_integer = self.operation is Operation.QUANTIZED_PRODUCT_SUM and place < QUANTIZED_FACTORS
        return str(value) if is_integer else show_bits(value)

    def _format_reduction(self) -> str:
        words = LISTED.get(self.operation, "")
        sign = ", " if words else " + "
        shown = sign.join(" x ".join(map(show_bits, term)) for term in self.terms[:SHOWN_TERMS])
        rest = f"{sign}... ({len(self.terms)} terms)" if len(self.terms) > SHOWN_TERMS else ""
        return words + shown + rest

    def _format_quantized(self) -> str:
        shown = " + ".join(f"{a} x {b}" for a, b, _, _ in self.terms[:SHOWN_TERMS])
        rest = f" + ... ({len(self.terms)} terms)" if len(self.terms) > SHOWN_TERMS else ""
        scales = " x ".join(map(show_bits, self.terms[0][2:]))
        return f"({shown}{rest}) x {scales}"

    def to_json(self) -> dict[str, Any]:
        """For the report: all operands, exact values as fractions."""
        return {
            "node": self.node,
            "operation": self.operation.name,
            "element": self.element,
            "operands": [[self._show(place, value) for place, value in enumerate(one)] for one in self.terms],
            "claimed": str(self.claimed) if self.operation is Operation.QUANTIZE else show_bits(self.claimed),
            "exact": str(self.judgement.exact),
            "bound": str(self.judgement.bound),
            "is_fault": self.judgement.is_fault,
        }


def show_bits(bits: int) -> str:
    """A float32 as people write it, short."""
    return f"{bits_to_float(bits):.9g}" if is_finite(bits) else f"0x{bits:08x} (not finite)"


async def find_number(connection: Connection, event: Event, training: TrainingSpec) -> ConvictedNumber | None:
    """What the transaction of a conviction proved; None where it proved something else than an operation."""
    data = await connection.sent_data(event.transaction_hash)
    entry = find_function(load_abi("Disputes"), "proveOperation")
    if data[:SELECTOR_BYTES] != entry.selector:
        return None
    values = decode_values(entry.inputs, data[SELECTOR_BYTES:])
    named = dict(zip((one.name for one in entry.inputs), values, strict=True))
    program = build_program(describe_program(training)).program
    place = (named["node"].number, named["element"])
    return read_number(program, *place, named["openings"], training.numeric_format)


def read_number(
    program: Program, number: int, element: int, openings: bytes, numeric_format: str = "float32"
) -> ConvictedNumber | None:
    """The element that `openings` show; None for operations whose operands cannot be found without others."""
    node = program.nodes[number]
    if node.operation in UNREADABLE:
        return None
    values = _read_openings(program, node, element, openings)
    terms = tuple(read_terms(node, element, lambda buffer, index: values[buffer, index]))
    claimed = values[node.output.buffer, locate(node.output, unravel(element, node.output_sizes))]
    judgement = judge_operation(node.operation, list(terms), claimed, numeric_format)
    return ConvictedNumber(number, node.operation, element, terms, claimed, judgement)


def _read_openings(
    program: Program, node: Node, element: int, openings: bytes
) -> Mapping[tuple[int, int], int]:
    """Patterns by buffer and element; the layout is that of `openings.open_element`."""
    values, at = dict[tuple[int, int], int](), 0
    for buffer, first, count in _list_runs(node, element):
        role = program.buffers[buffer].role
        width, per_leaf = ELEMENT_BYTES[role], leaf_elements(program, buffer)
        leaves = -(-program.buffers[buffer].size // per_leaf)
        low, high = first // per_leaf, (first + count - 1) // per_leaf
        elements = (high + 1 - low) * per_leaf  # the last leaf is padded
        for offset in range(elements):
            here = openings[at + width * offset :][:width]
            value = int.from_bytes(here, "little", signed=role in INTEGER_ROLES)
            values[buffer, low * per_leaf + offset] = value
        at += width * elements + HASH_BYTES * count_siblings(leaves, low, high)
    return values


def _list_runs(node: Node, element: int) -> Iterator[tuple[int, int, int]]:
    def refuse(buffer: int) -> Any:
        raise AssertionError("no index is read")

    yield node.output.buffer, locate(node.output, unravel(element, node.output_sizes)), 1
    yield from iterate_runs(node, element, refuse)


def count_siblings(count: int, first: int, last: int) -> int:
    """Length of `merkle.compute_range_path` in a tree over `count` leaves."""
    found = 0
    for _ in range(compute_depth(count)):
        found += (first & 1) + (not last & 1)
        first, last = first >> 1, last >> 1
    return found
