"""Removes the copies from a program that only a trace needs.

Before each sum over terms that lie far apart, a program has a COPY, so that a dispute opens one run of the
copy instead of a leaf for each term. Training does not need it: the reader's kernel reads the original
(`fold`), and neither its speed nor a bit changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from touchstone.protocol.spec.program import Access, Node, Program
from touchstone.protocol.spec.program_addressing import lay_row_major, unravel
from touchstone.protocol.spec.program_operations import Operation


def fold(program: Program, keeps_copies: bool) -> Program:
    """Returns the program in which every reader of a foldable copy (`find_foldable`) reads the original. The
    copying nodes are removed unless `keeps_copies`. Their buffers keep their numbers, and no node reads
    them."""
    foldable = find_foldable(program)
    nodes = []
    for node in program.nodes:
        operands = tuple(_look_through(operand, node.sizes, foldable) for operand in node.operands)
        folded = replace(node, operands=operands)
        if node.output.buffer in foldable:
            # Readers of this copy then read the original of a whole chain of copies.
            foldable[node.output.buffer] = folded
        if keeps_copies or node.output.buffer not in foldable:
            nodes.append(folded)
    return replace(program, nodes=tuple(nodes))


def find_foldable(program: Program) -> dict[int, Node]:
    """Returns, by buffer, the COPY that alone writes it, whole and row-major, if every reader's elements are
    elements of the original."""
    found = dict(_list_whole_copies(program))
    for node in program.nodes:
        for place, operand in enumerate(node.operands):
            if operand.buffer in found:
                is_moved = node.operation is Operation.GATHER and place == 1
                if is_moved or compose(operand, node.sizes, found[operand.buffer]) is None:
                    del found[operand.buffer]
    return found


def _list_whole_copies(program: Program) -> Iterator[tuple[int, Node]]:
    outputs = program.outputs
    results = {outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment}
    for node in program.nodes:
        output = node.output
        is_first_to_last = (output.offset, output.strides) == (0, lay_row_major(node.sizes))
        # Each element has one writer, so a node that writes as many as there are is the only one.
        is_whole = is_first_to_last and node.elements == program.buffers[output.buffer].size
        if node.operation is Operation.COPY and is_whole and output.buffer not in results:
            yield output.buffer, node


def _look_through(operand: Access, sizes: Sequence[int], foldable: Mapping[int, Node]) -> Access:
    if operand.buffer not in foldable:
        return operand
    composed = compose(operand, sizes, foldable[operand.buffer])
    if composed is None:
        raise AssertionError(f"{operand} cannot be folded, though it was found foldable")
    return composed


def compose(access: Access, sizes: Sequence[int], copy: Node) -> Access | None:
    """Returns where the elements that `access` reads in the output of `copy`, over loops of these sizes, were
    copied from. None if its loops are not loops of the copy."""
    source = copy.operands[0]
    strides = copy.output.strides
    indices = list(unravel(access.offset, copy.sizes))
    offset = source.offset + sum(i * stride for i, stride in zip(indices, source.strides, strict=True))
    composed = []
    for size, stride in zip(sizes, access.strides, strict=True):
        if stride == 0 or size == 1:
            composed.append(0)
            continue
        loop = next((k for k, own in enumerate(strides) if own == stride and copy.sizes[k] > 1), None)
        if loop is None:
            return None
        indices[loop] += size - 1
        composed.append(source.strides[loop])
    is_inside = all(index < size for index, size in zip(indices, copy.sizes, strict=True))
    return Access(source.buffer, offset, tuple(composed)) if is_inside else None
