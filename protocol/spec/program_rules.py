"""Decides which programs are valid, from their integers alone, before anything is allocated."""

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import MAX_VOCABULARY
from touchstone.protocol.spec.program import (
    CHUNK_TERMS,
    COMPUTED_ROLES,
    FINITE_ROLES,
    INDEX_ROLES,
    INPUTS,
    INTEGER_ROLES,
    MAX_ELEMENTS,
    MAX_LOOPS,
    QUANTIZED_ROLES,
    Access,
    Node,
    Program,
    Role,
)
from touchstone.protocol.spec.program_addressing import is_run
from touchstone.protocol.spec.program_operations import (
    INDEXED,
    OPERAND_COUNTS,
    QUANTIZED_FACTORS,
    QUANTIZED_LIMITS,
    REDUCTIONS,
    Operation,
)
from touchstone.protocol.spec.program_tiling import is_tiled

SCALARS = 3
"""Learning rate, 1 - beta1^t, 1 - beta2^t."""


def require_valid(program: Program) -> None:
    """Raises InvalidInput unless a program is valid. The inputs come first, in order. Every node has the
    shape of its operation, stays inside its buffers, and reads indices only where an index belongs. It sums
    at most `chunk_terms` terms, each operand's in one run. Every element of a tensor is written once
    (`require_written_once`), and read only after that."""
    _require("chunk length", program.chunk_terms in CHUNK_TERMS, f"one of {CHUNK_TERMS}", program.chunk_terms)
    roles = tuple(buffer.role for buffer in program.buffers)
    _require(
        "inputs", roles[: len(INPUTS)] == INPUTS, "buffers 0 to 5 to be the inputs", roles[: len(INPUTS)]
    )
    _require("inputs", not {*INPUTS} & {*roles[len(INPUTS) :]}, "one buffer for each input", roles)
    for number, buffer in enumerate(program.buffers):
        _require(f"buffer {number}", 1 <= buffer.size <= MAX_ELEMENTS, "1 or more elements", buffer.size)
        root_bytes = 32 if buffer.role is Role.CONSTANT else 0
        _require(f"buffer {number}", len(buffer.constant_root) == root_bytes, "a root of a constant", buffer)
    for number, node in enumerate(program.nodes):
        _require_node(program, node, f"node {number}")
    early = find_early_reader(program)
    _require(f"node {early}", early is None, "an operand that is wholly written before", "a part")
    outputs = program.outputs
    results = (outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment)
    computed = {node.output.buffer for node in program.nodes}
    _require("outputs", all(b in computed for b in results), "buffers that nodes write", results)
    loss_elements = program.buffers[outputs.loss].size
    _require("outputs", loss_elements == 1, "a loss of one element", loss_elements)
    require_written_once(program)


def require_step(program: Program) -> None:
    """Raises InvalidInput unless a valid program is a training step. Its results have a buffer each. W and
    both vectors have the same length before and after, and are always finite. There are as many labels as
    tokens."""
    outputs = program.outputs
    results = (outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment)
    _require("outputs", len({*results}) == len(results), "a buffer for each", results)
    sizes = [buffer.size for buffer in program.buffers]
    vectors = [*sizes[:3], *(sizes[number] for number in results[1:])]
    _require("outputs", len({*vectors}) == 1, "vectors as long as W", vectors)
    _require("inputs", sizes[3] == sizes[4], "as many labels as tokens", sizes[3:5])
    _require("inputs", sizes[5] == SCALARS, f"{SCALARS} scalars", sizes[5])
    for number, node in enumerate(program.nodes):
        if node.output.buffer in results[1:]:
            what = "FINITE_SELECT of x, x and what is given"
            _require(f"node {number}", _is_finite(program, node), what, node.operation.name)


def _is_finite(program: Program, node: Node) -> bool:
    """Returns whether a buffer is finite whenever W, both vectors, scalars and constants are. A state that is
    not finite cannot be shown, so an honest solver that computed one would be silent in a dispute."""
    if node.operation is not Operation.FINITE_SELECT:
        return False
    condition, chosen, other = node.operands
    return condition == chosen and program.buffers[other.buffer].role in FINITE_ROLES


def _require_node(program: Program, node: Node, where: str) -> None:
    operation, loops = node.operation, len(node.sizes)
    _require(where, loops <= MAX_LOOPS, f"at most {MAX_LOOPS} loops", loops)
    _require(where, all(size >= 1 for size in node.sizes), "loops of 1 or more", node.sizes)
    _require(where, 0 <= node.reduced <= loops, "reduced loops among the loops", node.reduced)
    _require(where, operation in REDUCTIONS or not node.reduced, "no reduced loop", node.reduced)
    _require(where, node.terms <= program.chunk_terms, f"{program.chunk_terms} terms", node.terms)
    _require(where, len(node.operands) == OPERAND_COUNTS[operation], "its operands", len(node.operands))
    _require_access(program, node.output, node.output_sizes, where)
    role = program.buffers[node.output.buffer].role
    wanted = QUANTIZED_ROLES.get(node.selected) if operation is Operation.QUANTIZE else Role.TENSOR
    _require(where, role is wanted, "a tensor to write to, of the operation's kind", role.name)
    for place, operand in enumerate(node.operands):
        _require_access(program, operand, node.sizes, where)
        role = program.buffers[operand.buffer].role
        is_index = operation in INDEXED and place == 0
        _require(where, (role in INDEX_ROLES) == is_index, "an index first", operand.buffer)
        is_integer = operation is Operation.QUANTIZED_PRODUCT_SUM and place < QUANTIZED_FACTORS
        _require(
            where, (role in INTEGER_ROLES) == is_integer, "integers for quantized factors alone", role.name
        )
        strides = operand.strides[len(node.output_sizes) :]
        _require(where, is_run(strides, node.reduced_sizes), "terms that lie in one run", strides)
        is_alike = not is_integer or role is program.buffers[node.operands[0].buffer].role
        _require(where, is_alike, "factors of one kind", role.name)
        is_still = not any(strides)
        is_scale = operation is Operation.QUANTIZED_PRODUCT_SUM and not is_integer
        _require(where, is_still or not is_scale, "one scale for all terms", strides)
    _require_selected(node, where)


def _require_selected(node: Node, where: str) -> None:
    if node.operation in (Operation.SELECTED_SUM, Operation.EQUAL_SELECT):
        _require(where, 0 <= node.selected < len(node.output_sizes), "an output loop", node.selected)
    elif node.operation is Operation.GATHER:
        _require(where, node.selected >= 1, "a stride for the index", node.selected)
    elif node.operation in (Operation.SCALE_OF, Operation.QUANTIZE):
        _require(where, node.selected in QUANTIZED_LIMITS, f"bits: {[*QUANTIZED_LIMITS]}", node.selected)
    else:
        _require(where, node.selected == 0, "no selected loop", node.selected)


def _require_access(program: Program, access: Access, sizes: tuple[int, ...], where: str) -> None:
    """Raises InvalidInput unless an access stays inside its buffer. Indices that move operands are not known
    here; an index that leads outside is refused when it is read."""
    _require(where, 0 <= access.buffer < len(program.buffers), "a buffer of the program", access.buffer)
    _require(where, len(access.strides) == len(sizes), f"{len(sizes)} strides", access.strides)
    _require(where, all(stride >= 0 for stride in access.strides), "strides of 0 or more", access.strides)
    reach = [(size - 1) * stride for size, stride in zip(sizes, access.strides, strict=True)]
    low, high = (access.offset + sum(f(r, 0) for r in reach) for f in (min, max))
    size = program.buffers[access.buffer].size
    _require(where, low >= 0 and high < size, f"elements of a buffer of {size}", (low, high))


def _require(where: str, holds: bool, expected: object, actual: object) -> None:
    if not holds:
        raise _refuse("not a valid program", expected, actual, where)


def _refuse(what: str, expected: object, actual: object, where: str) -> InvalidInput:
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        where=where,
        remedy="Do not stake on a task with this program; tell its submitter.",
    )


def find_early_reader(program: Program) -> int | None:
    """Returns the number of the first node that reads a tensor before all of it is written, or None."""
    last = {node.output.buffer: number for number, node in enumerate(program.nodes)}
    for number, node in enumerate(program.nodes):
        for operand in node.operands:
            is_input = program.buffers[operand.buffer].role not in COMPUTED_ROLES
            if not is_input and last.get(operand.buffer, number) >= number:
                return number
    return None


def require_written_once(program: Program) -> None:
    """Raises InvalidInput unless the nodes write each element of each tensor exactly once, in loops for which
    `program_tiling.is_tiled` can tell."""
    writers: dict[int, list[tuple[Access, tuple[int, ...]]]] = {}
    for node in program.nodes:
        writers.setdefault(node.output.buffer, []).append((node.output, node.output_sizes))
    for number, buffer in enumerate(program.buffers):
        is_written = buffer.role not in COMPUTED_ROLES or number in writers
        _require(f"buffer {number}", is_written, "a node that writes it", "none")
    for number, accesses in writers.items():
        size = program.buffers[number].size
        _require(
            f"buffer {number}",
            is_tiled(size, accesses),
            "each element written once",
            f"{len(accesses)} nodes",
        )


def require_indices(program: Program, vocabulary_size: int) -> None:
    """Raises InvalidInput unless every token of the vocabulary is a valid index wherever the program reads by
    tokens and labels."""
    for number, node in enumerate(program.nodes):
        rows = _count_rows(program, node)
        if rows is not None:
            expected = f"a row for each of {vocabulary_size} tokens"
            _require(f"node {number}", rows >= vocabulary_size, expected, rows)


def find_vocabulary(program: Program) -> int:
    """Returns the largest vocabulary whose tokens are valid indices in a program; `MAX_VOCABULARY` if it
    reads nothing by tokens."""
    found = (_count_rows(program, node) for node in program.nodes)
    return min((rows for rows in found if rows is not None), default=MAX_VOCABULARY)


def _count_rows(program: Program, node: Node) -> int | None:
    """Returns how many rows a token or a label chooses from; None if no node reads by them."""
    if node.operation in (Operation.SELECTED_SUM, Operation.EQUAL_SELECT):
        return node.sizes[node.selected]
    if node.operation is not Operation.GATHER:
        return None
    access = node.operands[1]
    reach = sum((size - 1) * stride for size, stride in zip(node.sizes, access.strides, strict=True))
    return (program.buffers[access.buffer].size - 1 - access.offset - reach) // node.selected + 1
