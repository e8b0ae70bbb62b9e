"""The tree of a whole step at once; a node hashes each buffer as the step makes it (`trace.py`)."""

from protocol.compute.bounds.check import Provider
from protocol.compute.bounds.trace import TraceTree, build_buffer_tree
from protocol.spec.merkle import compute_levels
from protocol.spec.program import Program, Role


def build_trace_tree(program: Program, get_tensor: Provider) -> TraceTree:
    """The tree of a whole step: W, m and v of the state before it, its other inputs, constants and tensors.
    `get_tensor` gives any buffer, flat, also later, when runs are opened. Values that are not finite are part
    of a trace as well. Raises InvalidInput where a tensor is not the program's."""
    roots = [
        buffer.constant_root
        if buffer.role is Role.CONSTANT
        else build_buffer_tree(program, get_tensor, number).root
        for number, buffer in enumerate(program.buffers)
    ]
    return TraceTree(program, compute_levels(roots), get_tensor)
