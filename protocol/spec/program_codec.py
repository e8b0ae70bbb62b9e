"""Canonical bytes of a program, cut into the leaves of its tree (docs/spec.md, section 8).

    leaf 0: head | leaf 1: all buffers | leaf 2 + n: node n, and what is to be known of each buffer it touches

So a proof of one leaf shows the contract a node, its place, and the sizes, roles and leaf sizes of its
buffers. All integers are 8-byte big-endian two's complement unless said otherwise.
"""

from functools import lru_cache

from protocol.spec.merkle import Levels, compute_levels, compute_path, compute_root, hash_leaf
from protocol.spec.program import Access, Node, Program, Role, leaf_bytes

PROGRAM_HEADER = b"touchstone.program\x02"
"""Magic and the version of this encoding."""
LEAVES_BEFORE_NODES = 2
"""The head and the buffers."""


# --- Encoding -----------------------------------------------------------------------------------------------
def encode_head(program: Program) -> bytes:
    """Leaf 0: header, chunk length, buffers of the loss and of the new W, m, v, numbers of nodes and of
    buffers."""
    outputs = program.outputs
    numbers = (
        program.chunk_terms,
        outputs.loss,
        outputs.weights,
        outputs.first_moment,
        outputs.second_moment,
    )
    return PROGRAM_HEADER + _encode_integers(*numbers, len(program.nodes), len(program.buffers))


def encode_buffers(program: Program) -> bytes:
    """Leaf 1: of each buffer role (1 byte), length of its constant root (1 byte), size, and that root."""
    return b"".join(
        bytes([buffer.role, len(buffer.constant_root)]) + _encode_integers(buffer.size) + buffer.constant_root
        for buffer in program.buffers
    )


def encode_node(program: Program, node: Node) -> bytes:
    """operation, number of loops, reduced loops, number of operands (1 byte each), selected, sizes, then the
    output and each operand (`encode_access`)."""
    head = bytes([node.operation, len(node.sizes), node.reduced, len(node.operands)])
    accesses = (encode_access(program, access) for access in (node.output, *node.operands))
    return b"".join((head, _encode_integers(node.selected, *node.sizes), *accesses))


def encode_access(program: Program, access: Access) -> bytes:
    """The buffer's role and the logarithm of its leaf size (1 byte each), its number and size, the offset,
    the strides, and a constant's root."""
    buffer = program.buffers[access.buffer]
    head = bytes([buffer.role, leaf_bytes(program, access.buffer).bit_length() - 1])
    numbers = _encode_integers(access.buffer, buffer.size, access.offset, *access.strides)
    return head + numbers + (buffer.constant_root if buffer.role is Role.CONSTANT else b"")


def _encode_integers(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "big", signed=True) for value in values)


def encode_program_leaves(program: Program) -> list[bytes]:
    """All leaves: the head, the buffers, and the nodes in order."""
    nodes = (encode_node(program, node) for node in program.nodes)
    return [encode_head(program), encode_buffers(program), *nodes]


def compute_program_root(program: Program) -> bytes:
    """Root over the leaves, hashed as data: 32 bytes."""
    return compute_root(list(map(hash_leaf, encode_program_leaves(program))))


def open_program_leaf(program: Program, index: int) -> tuple[bytes, list[bytes]]:
    """Leaf `index` and its path upwards; node n is leaf LEAVES_BEFORE_NODES + n. Raises InvalidInput if there
    is none."""
    leaves, levels = _build_tree(program)
    path = compute_path(levels, index)
    return leaves[index], path


@lru_cache(maxsize=2)
def _build_tree(program: Program) -> tuple[list[bytes], Levels]:
    """The leaves and all levels over them: twenty nodes of one program are shown at a time."""
    leaves = encode_program_leaves(program)
    return leaves, compute_levels(list(map(hash_leaf, leaves)))
