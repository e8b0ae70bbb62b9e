"""Computes nodes wrongly: the next row, another buffer, a term left out, another operation.

A wrong node has the output elements of the right one and operands of its own. So kernels can compute it, and
the referee knows its right result.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from random import Random

import torch

from lab.benchmarks.honesty.cases import Sample
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_operations import INDEXED, REDUCTIONS, Operation

NEW_BUFFER = -1
"""Buffer numbers from here down belong to no program."""
OTHERS: dict[Operation, tuple[Operation, ...]] = {
    Operation.SUM: (Operation.MAXIMUM_OF,),
    Operation.MAXIMUM_OF: (Operation.SUM,),
    Operation.ADD: (Operation.SUBTRACT, Operation.MAXIMUM),
    Operation.SUBTRACT: (Operation.ADD, Operation.MULTIPLY),
    Operation.MULTIPLY: (Operation.DIVIDE, Operation.ADD),
    Operation.DIVIDE: (Operation.MULTIPLY, Operation.SUBTRACT),
    Operation.MAXIMUM: (Operation.MINIMUM, Operation.ADD),
    Operation.MINIMUM: (Operation.MAXIMUM, Operation.ADD),
    Operation.SQUARE_ROOT: (Operation.RECIPROCAL_ROOT, Operation.LOGARITHM),
    Operation.RECIPROCAL_ROOT: (Operation.SQUARE_ROOT, Operation.SIGMOID),
    Operation.EXPONENTIAL: (Operation.SIGMOID,),
    Operation.LOGARITHM: (Operation.SQUARE_ROOT, Operation.SIGMOID),
    Operation.SIGMOID: (Operation.EXPONENTIAL,),
    Operation.FLUSH: (Operation.MAXIMUM, Operation.MINIMUM, Operation.SUBTRACT),
    Operation.COPY: (Operation.SIGMOID,),
}
"""Operations that take the same operands, by the operation that they may replace."""
NEUTRAL = {
    Operation.ADD: 0.0, Operation.SUBTRACT: 0.0, Operation.MULTIPLY: 1.0, Operation.DIVIDE: 1.0,
    Operation.PRODUCT_SUM: 1.0,
}  # fmt: skip
SIDED = frozenset({Operation.SUBTRACT, Operation.DIVIDE, Operation.EQUAL_SELECT, Operation.FINITE_SELECT})
"""Operations whose last two operands cannot be exchanged."""
Wire = Callable[[Sample, Random], Iterator[Sample]]
"""Yields wrong operands for a node; they may lie outside their buffers."""


def list_wrong(name: str, sample: Sample, random: Random) -> list[Sample]:
    """Returns all wrong samples of one of WIRINGS that stay inside the buffers, in random order."""
    wrong = [other for other in WIRINGS[name](sample, random) if _fits(other)]
    random.shuffle(wrong)
    return wrong


def _fits(sample: Sample) -> bool:
    node = sample.node
    for place, access in enumerate(node.operands):
        reach = [(size - 1) * stride for size, stride in zip(node.sizes, access.strides, strict=True)]
        low, high = (access.offset + sum(pick(x, 0) for x in reach) for pick in (min, max))
        if node.operation is Operation.GATHER and place == 1:
            high += node.selected * int(sample.operand(0).max())
        if low < 0 or high >= sample.buffers[access.buffer].numel():
            return False
    return all(size >= 1 for size in node.sizes)


def _rewire(sample: Sample, place: int, access: Access) -> Sample:
    operands = list(sample.node.operands)
    operands[place] = access
    return Sample(replace(sample.node, operands=tuple(operands)), sample.buffers)


def _shift(sample: Sample, place: int, distance: int) -> Sample:
    """Returns the sample with an operand read `distance` elements further on; the end of the buffer wraps
    around."""
    access, moved = sample.node.operands[place], NEW_BUFFER - place
    rolled = sample.put(moved, sample.buffers[access.buffer].roll(-distance))
    return _rewire(rolled, place, replace(access, buffer=moved))


def _values(node: Node) -> range:
    """Returns the places of the operands that are not an index."""
    return range(int(node.operation in INDEXED), len(node.operands))


# Places
def read_neighbour(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Reads an operand or the index one place further or back along a loop."""
    for place, access in enumerate(sample.node.operands):
        for stride in set(access.strides) - {0}:
            yield from (_shift(sample, place, sign * stride) for sign in (1, -1))


def read_other_number(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Reads the element before or after an operand that is one number for the whole node. All strides of such
    an operand are 0."""
    for place in _values(sample.node):
        if not any(sample.node.operands[place].strides):
            yield from (_shift(sample, place, sign) for sign in (1, -1))


def read_transposed(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Exchanges two loops of an operand."""
    for place in _values(sample.node):
        access = sample.node.operands[place]
        for i, j in combinations(range(len(access.strides)), 2):
            strides = list(access.strides)
            strides[i], strides[j] = strides[j], strides[i]
            if strides[i] != strides[j]:
                yield _rewire(sample, place, replace(access, strides=tuple(strides)))


def read_other_buffer(sample: Sample, random: Random) -> Iterator[Sample]:
    """Reads another tensor in place of an operand."""
    floats = [b for b, values in sample.buffers.items() if values.is_floating_point()]
    for place in _values(sample.node):
        access = sample.node.operands[place]
        others = [b for b in floats if b not in (access.buffer, sample.node.output.buffer)]
        for buffer in random.sample(others, min(8, len(others))):
            yield _rewire(sample, place, replace(access, buffer=buffer))


def read_other_element(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Reads the operands of the next element, so that its result lies in the wrong place."""
    for loop in range(len(sample.node.output_sizes)):
        for sign in (1, -1):
            other = sample
            for place, access in enumerate(sample.node.operands):
                other = _shift(other, place, sign * access.strides[loop])
            yield other


def read_twice(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Reads one operand in place of another."""
    for a, b in combinations(_values(sample.node), 2):
        yield _rewire(sample, b, sample.node.operands[a])
        yield _rewire(sample, a, sample.node.operands[b])


def swap_operands(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Exchanges the last two operands: b - a for a - b, or the other branch."""
    if sample.node.operation in SIDED:
        *first, a, b = sample.node.operands
        yield Sample(replace(sample.node, operands=(*first, b, a)), sample.buffers)


def shift_index(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Raises each index by one; the highest becomes 0."""
    if sample.node.operation in INDEXED:
        buffer = sample.node.operands[0].buffer
        indices = sample.buffers[buffer]
        yield sample.put(buffer, (indices + 1) % (indices.max() + 1))


# Terms
def read_other_chunk(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Reads the next or the last chunk of terms of an operand."""
    node = sample.node
    for place in _values(node):
        for loop in range(len(node.output_sizes), len(node.sizes)):
            distance = node.sizes[loop] * node.operands[place].strides[loop]
            if distance:
                yield from (_shift(sample, place, sign * distance) for sign in (1, -1))


def leave_term_out(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Leaves out the last or the first term of a reduced loop."""
    node = sample.node
    for loop in range(len(node.output_sizes), len(node.sizes)):
        sizes = tuple(size - (n == loop) for n, size in enumerate(node.sizes))
        shorter = Sample(replace(node, sizes=sizes), sample.buffers)
        yield shorter
        for place, access in enumerate(node.operands):
            shorter = _shift(shorter, place, access.strides[loop])
        yield shorter


def double_term(sample: Sample, random: Random) -> Iterator[Sample]:
    """Counts one term of a reduced loop twice."""
    node = sample.node
    if node.operation in REDUCTIONS:
        place = _values(node)[-1]
        access = node.operands[place]
        for loop in range(len(node.output_sizes), len(node.sizes)):
            doubled = sample.put(access.buffer, sample.buffers[access.buffer].clone())
            sizes = [size if stride else 1 for size, stride in zip(node.sizes, access.strides, strict=True)]
            terms = doubled.view(access, sizes, access.strides)
            terms.select(loop, random.randrange(sizes[loop])).mul_(2)
            yield doubled


# Operations
def use_other_operation(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Uses another operation: add for subtract, the smaller for the larger, another function, all terms for
    the selected ones."""
    node = sample.node
    for operation in OTHERS.get(node.operation, ()):
        yield Sample(replace(node, operation=operation), sample.buffers)
    if node.operation is Operation.SELECTED_SUM:
        everything = replace(node, operation=Operation.SUM, operands=node.operands[1:], selected=0)
        yield Sample(everything, sample.buffers)


def leave_operand_out(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Leaves an operand out: adds nothing, or multiplies by 1."""
    if (number := NEUTRAL.get(sample.node.operation)) is not None:
        yield from _replace_by_number(sample, 1, number)


def skip_flush(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Flushes nothing, or everything."""
    if sample.node.operation is Operation.FLUSH:
        yield from _replace_by_number(sample, 1, 0.0)
        yield from _replace_by_number(sample, 1, 2.0**100)


def _replace_by_number(sample: Sample, place: int, number: float) -> Iterator[Sample]:
    still = Access(NEW_BUFFER, 0, (0,) * len(sample.node.sizes))
    yield _rewire(sample.put(NEW_BUFFER, torch.tensor([number])), place, still)


def lose_bits(sample: Sample, _random: Random) -> Iterator[Sample]:
    """Rounds the operands of products to bfloat16."""
    if sample.node.operation is Operation.PRODUCT_SUM:
        for buffer in {access.buffer for access in sample.node.operands}:
            yield sample.put(buffer, sample.buffers[buffer].bfloat16().float())


WIRINGS: dict[str, Wire] = {
    "neighbour": read_neighbour,
    "other number": read_other_number,
    "transposed": read_transposed,
    "other buffer": read_other_buffer,
    "other element": read_other_element,
    "operand twice": read_twice,
    "operands swapped": swap_operands,
    "operand left out": leave_operand_out,
    "index shifted": shift_index,
    "other chunk": read_other_chunk,
    "term left out": leave_term_out,
    "term doubled": double_term,
    "other operation": use_other_operation,
    "not flushed": skip_flush,
    "bfloat16": lose_bits,
}
