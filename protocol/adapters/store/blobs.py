"""Names blobs: by kind, address and length.

The address is the root that a blob's bytes must hash to, so no peer is trusted for its content. It is the
root of a positional tree (docs/spec.md, section 1), and a dispute may open any leaf of that tree. The length
is part of a reference and known before the first byte comes: from the task for tensors, deltas and datasets,
from the program for traces. A tree pads its last leaf, so a root alone does not fix the length.
"""

from dataclasses import dataclass
from enum import Enum

from touchstone.protocol.spec import data_trees
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES, LEAF_BYTES
from touchstone.protocol.spec.state_headers import StateHeader

ROOT_BYTES = 32
CHUNK_DEPTH = 10
"""1,024 leaves (1 MiB of tensor) are one chunk. If the chunk roots are known, a wrong byte costs one chunk of
bandwidth at most, else the whole blob."""
SMALL_CHUNK_DEPTH = 5
"""32 leaves are one chunk of a trace or a dataset. A challenger often wants one leaf of a trace. A node wants
single leaves of a dataset: if it has all chunk roots (0.1 % of the dataset), five siblings prove a leaf."""


class BlobKind(Enum):
    """How the bytes of a blob are laid out and hashed. The value is its folder, and its place in URLs."""

    TENSOR = "tensor"
    """Little-endian float32, finite; a tree of 1,024-byte leaves."""
    DELTA = "delta"
    """The int8 blocks of a pseudo-gradient; a tree of 260-byte leaves (docs/spec.md, section 5)."""
    DATASET = "dataset"
    """Raw bytes of tokens; a tree of 1,024-byte leaves."""
    STEP = "step"
    """The bytes of a step's program, of its layout, or of a constant; a tree of 1,024-byte leaves."""
    TRACE_512 = "trace512"
    """A tensor of a trace: little-endian elements of any value, because a challenger must see even numbers
    that are not finite; a tree of 512-byte leaves."""
    TRACE_1024 = "trace1024"
    """A tensor of a trace, or of a state before or after a step; a tree of 1,024-byte leaves."""
    TRACE_2048 = "trace2048"
    """A tensor of a trace; a tree of 2,048-byte leaves."""
    TRACE_4096 = "trace4096"
    """A tensor of a trace; a tree of 4,096-byte leaves."""
    ROOTS = "roots"
    """The 32-byte roots of a trace's buffers, none of them zero; a tree over the roots, so that the address
    is the trace root."""

    @property
    def leaf_bytes(self) -> int:
        """The bytes of a leaf."""
        return _LEAF_BYTES[self]

    @property
    def chunk_depth(self) -> int:
        """The levels of a chunk's subtree."""
        return SMALL_CHUNK_DEPTH if self in _SMALL_CHUNKED else CHUNK_DEPTH

    @property
    def chunk_leaves(self) -> int:
        """The leaves of a chunk."""
        return 1 << self.chunk_depth


_LEAF_BYTES = {
    BlobKind.TENSOR: LEAF_BYTES,
    BlobKind.DELTA: DELTA_LEAF_BYTES,
    BlobKind.DATASET: LEAF_BYTES,
    BlobKind.STEP: LEAF_BYTES,
    BlobKind.TRACE_512: 512,
    BlobKind.TRACE_1024: 1024,
    BlobKind.TRACE_2048: 2048,
    BlobKind.TRACE_4096: 4096,
    BlobKind.ROOTS: ROOT_BYTES,
}
_TRACE_KINDS = {
    _LEAF_BYTES[kind]: kind
    for kind in (BlobKind.TRACE_512, BlobKind.TRACE_1024, BlobKind.TRACE_2048, BlobKind.TRACE_4096)
}
TRACE_KINDS = frozenset(_TRACE_KINDS.values())
"""The kinds of a trace's tensors."""
_SMALL_CHUNKED = TRACE_KINDS | {BlobKind.DATASET}
_UNITS = {
    BlobKind.TENSOR: 4,
    BlobKind.DELTA: DELTA_LEAF_BYTES,
    BlobKind.ROOTS: ROOT_BYTES,
}


def get_trace_kind(leaf_bytes: int) -> BlobKind:
    """Returns the kind for a trace's tensors with leaves of this size. Raises InvalidInput if there is
    none."""
    if leaf_bytes not in _TRACE_KINDS:
        raise InvalidInput(
            what="no tensor of a trace has leaves of this size",
            expected=f"one of {sorted(_TRACE_KINDS)} bytes",
            actual=leaf_bytes,
            remedy="Take the size from the program.",
        )
    return _TRACE_KINDS[leaf_bytes]


@dataclass(frozen=True)
class BlobKey:
    """The address of a blob: its kind and its 32-byte root."""

    kind: BlobKind
    root: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.root, bytes) or len(self.root) != ROOT_BYTES:
            raise InvalidInput(
                what="a blob's root is not 32 bytes long",
                expected="32 bytes",
                actual=repr(self.root),
                remedy="Pass the root that the chain has.",
            )

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.root.hex()}"


@dataclass(frozen=True)
class BlobRef:
    """A blob to read: its address and its exact length in bytes."""

    key: BlobKey
    size_bytes: int

    def __post_init__(self) -> None:
        kind, size = self.key.kind, self.size_bytes
        unit = _UNITS.get(kind, 1)
        if size < unit or size % unit:
            raise InvalidInput(
                what=f"a {kind.value} blob cannot have this length",
                expected=f"a multiple of {unit} bytes, at least {unit}",
                actual=f"{size} bytes",
                where=str(self.key),
                remedy="Take the length from the task or its program.",
            )

    @property
    def chunk_bytes(self) -> int:
        """The bytes of a whole chunk."""
        return self.key.kind.chunk_leaves * self.key.kind.leaf_bytes

    @property
    def chunk_count(self) -> int:
        """The number of chunks, which are checked one by one."""
        return -(-self.size_bytes // self.chunk_bytes)

    def allow_lengths(self, left: range) -> range:
        """Returns the lengths that a peer may send for the last `left` bytes of a blob. A root does not fix
        the zeros at the end of the last leaf, and others may name the same blob with more or fewer of them. A
        peer has one file for all of these lengths."""
        if left.stop < self.size_bytes:
            return range(len(left), len(left) + 1)
        leaf_bytes = self.key.kind.leaf_bytes
        last = (self.size_bytes - 1) // leaf_bytes * leaf_bytes
        # A request for a range gets no more than the range.
        most = len(left) if left.start else last + leaf_bytes
        return range(max(last + 1 - left.start, 1), most + 1)

    def locate_chunks(self, chunks: range) -> range:
        """Returns the byte range of successive chunks. Raises InvalidInput if they do not exist."""
        if chunks.step != 1 or not 0 <= chunks.start < chunks.stop <= self.chunk_count:
            raise InvalidInput(
                what="the blob has no chunks with these numbers",
                expected=f"some of {self.chunk_count}, one after the other",
                actual=str(chunks),
                where=str(self.key),
                remedy="Compute them from the length of the blob.",
            )
        return range(chunks.start * self.chunk_bytes, min(chunks.stop * self.chunk_bytes, self.size_bytes))


def refer_tensor(root: bytes, parameter_count: int) -> BlobRef:
    """Returns the reference of a flat float32 vector (W, m or v) of `parameter_count` elements."""
    return BlobRef(BlobKey(BlobKind.TENSOR, root), 4 * parameter_count)


def refer_delta(root: bytes, parameter_count: int) -> BlobRef:
    """Returns the reference of a pseudo-gradient of `parameter_count` elements, with one delta leaf for each
    state leaf."""
    leaves = data_trees.count_tensor_leaves(parameter_count)
    return BlobRef(BlobKey(BlobKind.DELTA, root), DELTA_LEAF_BYTES * leaves)


def refer_state(header: StateHeader, parameter_count: int) -> tuple[BlobRef, BlobRef, BlobRef]:
    """Returns the references of a training state in the order W, m, v. They are the whole checkpoint, because
    the header has the step counters and the task fixes names, shapes and order (docs/spec.md, section 2)."""
    weights = refer_tensor(header.weights_root, parameter_count)
    first_moment = refer_tensor(header.first_moment_root, parameter_count)
    return weights, first_moment, refer_tensor(header.second_moment_root, parameter_count)


def refer_trace_tensor(root: bytes, size_bytes: int, leaf_bytes: int) -> BlobRef:
    """Returns the reference of a trace's buffer, with leaves of `leaf_bytes`."""
    return BlobRef(BlobKey(get_trace_kind(leaf_bytes), root), size_bytes)


def refer_roots(trace_root: bytes, count: int) -> BlobRef:
    """Returns the reference of the roots of all `count` buffers of a trace, in order."""
    return BlobRef(BlobKey(BlobKind.ROOTS, trace_root), ROOT_BYTES * count)
