"""A task's step in a store: program, layout of W and constants, each a blob.

The task's training names program and layout, the program its constants.
"""

import torch
from torch import Tensor

from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.compute.digest import tensor_bytes
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.known_steps import (
    TaskStep,
    get_step,
    knows_step,
    learn_step,
    require_fit,
)
from touchstone.protocol.compute.program.program_form import require_constants
from touchstone.protocol.compute.program.tensor_allocator import view_mapped
from touchstone.protocol.spec.program import Program, Role
from touchstone.protocol.spec.program_codec import decode_program, encode_program
from touchstone.protocol.spec.task_spec import NamedBytes, TrainingSpec
from touchstone.protocol.spec.weights_layout import WeightsLayout, decode_layout, encode_layout

MAPPED_BYTES = 1 << 20


def refer_named(named: NamedBytes) -> BlobRef:
    """Returns the reference of the blob of a program or of a layout."""
    return BlobRef(BlobKey(BlobKind.STEP, named.root), named.size_bytes)


def list_constants(program: Program) -> dict[int, BlobRef]:
    """Returns the blobs of a program's constants, by buffer."""
    return {
        number: BlobRef(BlobKey(BlobKind.STEP, buffer.constant_root), 4 * buffer.size)
        for number, buffer in enumerate(program.buffers)
        if buffer.role is Role.CONSTANT
    }


def list_step_keys(training: TrainingSpec) -> set[BlobKey]:
    """Returns all blobs of a step that this process knows."""
    constants = list_constants(get_step(training).built.program).values()
    return {ref.key for ref in (refer_named(training.program), refer_named(training.layout), *constants)}


def keep_step(store: BlobStore, training: TrainingSpec, step: TaskStep) -> None:
    """Puts the whole step into a store, which serves it to peers."""
    store.put(refer_named(training.program), encode_program(step.built.program))
    store.put(refer_named(training.layout), encode_layout(step.layout))
    for number, ref in list_constants(step.built.program).items():
        store.put(ref, tensor_bytes(step.built.constants[number]))


def read_program(
    store: BlobStore, training: TrainingSpec, parameter_count: int
) -> tuple[Program, WeightsLayout]:
    """Returns the program and the layout of a task from a store that has them, checked. Raises InvalidInput
    if they are not what a task may have."""
    program = decode_program(store.get(refer_named(training.program)))
    layout = decode_layout(store.get(refer_named(training.layout)))
    require_fit(training, program, layout, parameter_count)
    return program, layout


def open_step(store: BlobStore, training: TrainingSpec, parameter_count: int) -> TaskStep:
    """Returns the step of a task from a store that has all of it, and lets this process use it. Raises
    InvalidInput if a part is missing, or is not what a task may have."""
    if knows_step(training):
        step = get_step(training)
        require_fit(training, step.built.program, step.layout, parameter_count)
    else:
        program, layout = read_program(store, training, parameter_count)
        found = list_constants(program).items()
        built = BuiltProgram(program, {number: _read_constant(store, ref) for number, ref in found})
        require_constants(built)
        learn_step(TaskStep(built, layout))
    return get_step(training)


def _read_constant(store: BlobStore, ref: BlobRef) -> Tensor:
    """Reads a constant. Large ones are mapped from their files, so that processes share the memory."""
    if ref.size_bytes >= MAPPED_BYTES:
        return view_mapped(store.open_map(ref))
    return torch.frombuffer(bytearray(store.get(ref)), dtype=torch.float32)
