"""Reads the number that convicted a cheat from the transaction, and judges it again.

Calldata has the node, the element, the leaves with its operands and its claimed value; the contract has
checked all of it against the cheat's own roots. Here the value is computed a second time, exactly. Nothing
but the call is needed: neither the program nor any tensor.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from touchstone.protocol.adapters.chain.abi import SELECTOR_BYTES, find_function, load_abi
from touchstone.protocol.adapters.chain.abi_values import decode_values
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.float32 import bits_to_float, is_finite
from touchstone.protocol.spec.merkle import compute_depth
from touchstone.protocol.spec.program import ELEMENT_BYTES, INTEGER_ROLES, MAX_LOOPS, Access, Node, Role
from touchstone.protocol.spec.program_addressing import iterate_runs, locate, unravel
from touchstone.protocol.spec.program_operations import QUANTIZED_FACTORS, Operation
from touchstone.protocol.spec.referee import Judgement, judge_operation, read_terms

HASH_BYTES = 32
INTEGER_BYTES = 8
UNREADABLE = frozenset({Operation.GATHER, Operation.EQUAL_SELECT})
"""Operations whose operands' places depend on another operand's value; these are not read here."""
SHOWN_TERMS = 3
SIGNS = {
    Operation.ADD: "{} + {}", Operation.SUBTRACT: "{} - {}", Operation.MULTIPLY: "{} x {}",
    Operation.DIVIDE: "{} / {}", Operation.MAXIMUM: "the larger of {} and {}",
    Operation.MINIMUM: "the smaller of {} and {}", Operation.SQUARE_ROOT: "root of {}",
    Operation.RECIPROCAL_ROOT: "1 / root of {}", Operation.EXPONENTIAL: "exp {}",
    Operation.LOGARITHM: "log {}", Operation.SIGMOID: "1 / (1 + exp -{})",
}  # fmt: skip

LISTED = {Operation.MAXIMUM_OF: "the largest of ", Operation.SCALE_OF: "the scale of "}
"""Operations that are not sums of their terms."""


@dataclass(frozen=True)
class ConvictedNumber:
    """An element of a node of the step's program. `terms` are the float32 bits of its operands; `claimed` are
    its claimed bits."""

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

    @property
    def exact_shown(self) -> str:
        """The exact value as people write it."""
        exact = self.judgement.exact
        return "none" if exact is None else f"{float(exact):.12g}"

    @property
    def distance_shown(self) -> str:
        """How far the claimed value is from the exact one; empty if it is NaN or infinite."""
        distance = self.judgement.distance
        return "" if distance is None else f"{float(distance):.3g}"

    def _show(self, place: int, value: int) -> str:
        """Returns an operand as text; the first two operands of quantized products are integers."""
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
        """Returns all operands for the report, exact values as fractions."""
        return {
            "node": self.node,
            "operation": self.operation.name,
            "element": self.element,
            "operands": [[self._show(place, value) for place, value in enumerate(one)] for one in self.terms],
            "claimed": str(self.claimed) if self.operation is Operation.QUANTIZE else show_bits(self.claimed),
            "formula": self.formula,
            "exact": str(self.judgement.exact),
            "exact_shown": self.exact_shown,
            "bound": str(self.judgement.bound),
            "bound_shown": f"{float(self.judgement.bound):.3g}",
            "distance_shown": self.distance_shown,
            "is_fault": self.judgement.is_fault,
        }


def show_bits(bits: int) -> str:
    """Returns a float32 as a decimal number of at most 9 digits, or its bits if it is not finite."""
    return f"{bits_to_float(bits):.9g}" if is_finite(bits) else f"0x{bits:08x} (not finite)"


@dataclass(frozen=True)
class ShownBuffer:
    """A buffer as the encoding of a program's node describes it. `size` is in elements; `leaf_bytes` is the
    size of the leaves of its tree."""

    role: Role
    size: int
    leaf_bytes: int

    @property
    def leaf_elements(self) -> int:
        """The elements in a leaf."""
        return self.leaf_bytes // ELEMENT_BYTES[self.role]


@dataclass(frozen=True)
class ShownNode:
    """A node of a program as a proof shows it. `buffers` are the ones that it uses, by number."""

    number: int
    node: Node
    buffers: Mapping[int, ShownBuffer]


async def find_number(
    connection: Connection, game: str, event: Event, numeric_format: str
) -> ConvictedNumber | None:
    """Returns what the transaction of a conviction proved. `game` is the address of `Game`; `numeric_format`
    is the task's. None if it proved something else than an operation, or if another contract passed the
    proof on, so that the transaction does not show the call. Raises EnvironmentFault if the chain's node
    has lost the transaction."""
    target, data = await connection.sent_call(event.transaction_hash)
    entry = find_function(load_abi("Steps"), "proveOperation")
    if target != game or data[:SELECTOR_BYTES] != entry.selector:
        return None
    try:
        values = decode_values(entry.inputs, data[SELECTOR_BYTES:])
        named = dict(zip((one.name for one in entry.inputs), values, strict=True))
        shown = decode_node(named["node"].number, named["node"].data)
        return read_number(shown, named["element"], named["openings"], numeric_format)
    except (TouchstoneError, LookupError, ValueError, ArithmeticError):
        return None


def decode_node(number: int, data: bytes) -> ShownNode:
    """Decodes what `program_codec.encode_node` writes. Raises ValueError if `data` is malformed."""
    operation, loops, reduced, operands = data[:4]
    if loops > MAX_LOOPS or reduced > loops:
        raise ValueError(f"expected at most {MAX_LOOPS} loops, got {loops} with {reduced} of them reduced")
    selected, *sizes = _read_integers(data, 4, 1 + loops)
    at, accesses, buffers = 4 + INTEGER_BYTES * (1 + loops), list[Access](), dict[int, ShownBuffer]()
    for strides in (loops - reduced, *[loops] * operands):
        role, leaf_exponent = Role(data[at]), data[at + 1]
        buffer, size, offset, *steps = _read_integers(data, at + 2, 3 + strides)
        at += 2 + INTEGER_BYTES * (3 + strides) + (HASH_BYTES if role is Role.CONSTANT else 0)
        accesses.append(Access(buffer, offset, tuple(steps)))
        buffers[buffer] = ShownBuffer(role, size, 1 << leaf_exponent)
    if at != len(data):
        raise ValueError(f"expected {at} bytes of a node, got {len(data)}")
    node = Node(Operation(operation), tuple(sizes), reduced, accesses[0], tuple(accesses[1:]), selected)
    return ShownNode(number, node, buffers)


def _read_integers(data: bytes, at: int, count: int) -> list[int]:
    places = range(at, at + INTEGER_BYTES * count, INTEGER_BYTES)
    if at + INTEGER_BYTES * count > len(data):
        raise ValueError(f"expected {count} integers from byte {at} on, got {len(data)} bytes")
    return [int.from_bytes(data[place : place + INTEGER_BYTES], "big", signed=True) for place in places]


def read_number(
    shown: ShownNode, element: int, openings: bytes, numeric_format: str = "float32"
) -> ConvictedNumber | None:
    """Returns the element that `openings` show; None for operations whose operands depend on others. Raises
    ValueError if there are fewer bytes than the node's operands take."""
    node = shown.node
    if node.operation in UNREADABLE:
        return None
    values = _read_openings(shown, element, openings)
    terms = tuple(read_terms(node, element, lambda buffer, index: values[buffer, index]))
    claimed = values[node.output.buffer, locate(node.output, unravel(element, node.output_sizes))]
    judgement = judge_operation(node.operation, terms, claimed, numeric_format, node.selected)
    return ConvictedNumber(shown.number, node.operation, element, terms, claimed, judgement)


def _read_openings(shown: ShownNode, element: int, openings: bytes) -> Mapping[tuple[int, int], int]:
    """Returns bits by buffer and element; the layout is that of `openings.open_element`."""
    values, at = dict[tuple[int, int], int](), 0
    for number, first, count in _list_runs(shown.node, element):
        buffer = shown.buffers[number]
        width, per_leaf = ELEMENT_BYTES[buffer.role], buffer.leaf_elements
        leaves = -(-buffer.size // per_leaf)
        low, high = first // per_leaf, (first + count - 1) // per_leaf
        elements = (high + 1 - low) * per_leaf  # The last leaf is padded.
        if at + width * elements > len(openings):
            raise ValueError(f"expected {at + width * elements} bytes or more, got {len(openings)}")
        for offset in range(elements):
            here = openings[at + width * offset : at + width * (offset + 1)]
            value = int.from_bytes(here, "little", signed=buffer.role in INTEGER_ROLES)
            values[number, low * per_leaf + offset] = value
        at += width * elements + HASH_BYTES * count_siblings(leaves, low, high)
    return values


def _list_runs(node: Node, element: int) -> Iterator[tuple[int, int, int]]:
    def refuse(buffer: int) -> Any:
        raise AssertionError("no index is read")

    yield node.output.buffer, locate(node.output, unravel(element, node.output_sizes)), 1
    yield from iterate_runs(node, element, refuse)


def count_siblings(count: int, first: int, last: int) -> int:
    """Returns the length of `merkle_ranges.compute_range_path` in a tree over `count` leaves."""
    found = 0
    for _ in range(compute_depth(count)):
        found += (first & 1) + (not last & 1)
        first, last = first >> 1, last >> 1
    return found
