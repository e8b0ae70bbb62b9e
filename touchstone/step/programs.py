"""Writes a recording as a program, with the same bytes on every machine.

Nodes that no output needs are dropped, terms of sums are copied into runs (`straight.py`), and buffers are
numbered as they appear.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.program_form import require_constants, require_form
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.program import INPUTS, Access, Buffer, Node, Outputs, Program, Role, find_needed
from touchstone.protocol.spec.program_rules import find_early_reader, require_step, require_valid
from touchstone.step.builder import Builder
from touchstone.step.lowering import Lowering
from touchstone.step.quantized import quantize_products
from touchstone.step.recordings import Recording
from touchstone.step.straight import straighten
from touchstone.step.views import View, make_contiguous


def write_program(recording: Recording, chunk_terms: int, product_bits: int = 0) -> BuiltProgram:
    """Returns the program of a step. Its inputs are those of `spec.program.INPUTS`; its outputs are the new
    W, two vectors and the loss. `product_bits` is for quantized products in exact programs; 0 in all others.
    Raises InvalidInput if the step uses an operation that programs do not have."""
    built = _write(recording, chunk_terms, product_bits, shares_pieces=True)
    if find_early_reader(built.program) is not None:
        # A piece is read before its whole is complete, so such pieces lie apart, and are copied.
        built = _write(recording, chunk_terms, product_bits, shares_pieces=False)
    require_valid(built.program)
    require_step(built.program)
    require_form(built.program)
    require_constants(built)
    return built


def _write(recording: Recording, chunk_terms: int, product_bits: int, *, shares_pieces: bool) -> BuiltProgram:
    builder = Builder(chunk_terms, product_bits, shares_pieces)
    inputs = [
        make_contiguous(builder.add_buffer(role, prod(call.shape)), 0, call.shape)
        for role, call in zip(INPUTS, recording.inputs, strict=True)
    ]
    one = builder.add_number(1.0) if product_bits else None
    results = Lowering(builder).run(recording, inputs)
    weights, first, second, loss = (_own(builder, view) for view in results)
    constants = dict(builder.constants)
    constants[builder.numbers_buffer] = torch.tensor(builder.numbers, dtype=torch.float32)
    for number, values in constants.items():
        root = compute_data_root(values.numpy().tobytes())
        builder.buffers[number] = Buffer(Role.CONSTANT, values.numel(), root)
    outputs = Outputs(loss, weights, first, second)
    lowered = Program(chunk_terms, tuple(builder.buffers), tuple(builder.nodes), outputs)
    needed = drop_unneeded(lowered)
    if one is not None:
        needed = quantize_products(needed, product_bits, builder.weighted, Access(one.buffer, one.offset, ()))
    program, numbers = number_buffers(straighten(needed))
    return BuiltProgram(
        program, {numbers[old]: values for old, values in constants.items() if old in numbers}
    )


def keep_constants(built: BuiltProgram, tensors: Iterable[Tensor]) -> BuiltProgram:
    """Keeps these among the constants even if no node reads them, because exports take them from there."""
    buffers, constants = list(built.program.buffers), dict(built.constants)
    roots = {buffer.constant_root for buffer in buffers}
    for tensor in tensors:
        flat = tensor.detach().to(torch.float32).reshape(-1).contiguous()
        root = compute_data_root(flat.numpy().tobytes())
        if root not in roots:
            roots.add(root)
            constants[len(buffers)] = flat
            buffers.append(Buffer(Role.CONSTANT, flat.numel(), root))
    kept = BuiltProgram(replace(built.program, buffers=tuple(buffers)), constants)
    require_constants(kept)
    return kept


def _own(builder: Builder, view: View) -> int:
    """Returns the buffer of a result: one that holds only the result, in order, and that a node writes."""
    size, role = builder.buffers[view.buffer].size, builder.buffers[view.buffer].role
    is_whole = view == make_contiguous(view.buffer, 0, view.shape) and prod(view.shape) == size
    if not is_whole or role is not Role.TENSOR:
        view = builder.copy(view, builder.add_tensor(view.shape))
    return view.buffer


def drop_unneeded(program: Program) -> Program:
    """Returns the program without nodes that no output needs."""
    outputs = program.outputs
    results = (outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment)
    return replace(program, nodes=find_needed(program, results))


def number_buffers(program: Program) -> tuple[Program, dict[int, int]]:
    """Returns the program with its buffers renumbered, and the new numbers by the old ones. The inputs come
    first, in order, then the others as nodes use them; unused buffers are left out."""
    inputs = [n for role in INPUTS for n, buffer in enumerate(program.buffers) if buffer.role is role]
    numbers = {old: new for new, old in enumerate(inputs)}
    for node in program.nodes:
        for access in (*node.operands, node.output):
            numbers.setdefault(access.buffer, len(numbers))
    outputs = program.outputs
    results = (outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment)
    renumbered = Program(
        program.chunk_terms,
        tuple(program.buffers[old] for old in numbers),
        tuple(_renumber(node, numbers) for node in program.nodes),
        Outputs(*(numbers[buffer] for buffer in results)),
    )
    return renumbered, numbers


def _renumber(node: Node, numbers: Mapping[int, int]) -> Node:
    def move(access: Access) -> Access:
        """Returns the access with its buffer's new number."""
        return replace(access, buffer=numbers[access.buffer])

    return replace(node, output=move(node.output), operands=tuple(map(move, node.operands)))
