"""What a blob is called and how its bytes are judged while they stream.

A blob is named by what it must hash to, so no peer is trusted for its content. The name is the root of a
positional tree (docs/spec.md, section 1), of which a dispute may open any leaf. The number of bytes is part
of a reference and known before the first byte comes: from the task for tensors, deltas and datasets, from the
program for traces. A tree pads its last leaf, so a root alone does not fix the length.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

import numpy as np

from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.containers import LeafProof, StateHeader
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES, LEAF_BYTES, ZERO_WORD

ROOT_BYTES = 32
CHUNK_DEPTH = 10
"""1,024 leaves (1 MiB of tensor) are one subtree: with the subtree roots at hand a wrong byte costs at most
one chunk of bandwidth, without them the whole blob."""
SMALL_CHUNK_DEPTH = 5
"""Of a trace a challenger often wants one leaf: it compares 32 leaves at a time by their root. Of a dataset
a node wants single leaves: with the roots of all chunks (0.1 % of it) at hand, five siblings prove one."""


class BlobKind(Enum):
    """How the bytes of a blob are laid out and hashed; the value names its folder and its place in URLs."""

    TENSOR = "tensor"
    """little-endian float32, finite; tree of 1,024-byte leaves"""
    DELTA = "delta"
    """int8 blocks of a pseudo-gradient; tree of 260-byte leaves (docs/spec.md, section 5)"""
    DATASET = "dataset"
    """raw bytes of tokens; tree of 1,024-byte leaves"""
    STEP = "step"
    """bytes of a step's program, of its layout, or of one of its constants; tree of 1,024-byte leaves"""
    TRACE_512 = "trace512"
    """little-endian elements, whatever they are: a number that is not finite is what a challenger wants to
    see; tree of 512-byte leaves"""
    TRACE_1024 = "trace1024"
    """the same in 1,024-byte leaves: a state before or after a step, finite or not"""
    TRACE_2048 = "trace2048"
    """the same in 2,048-byte leaves"""
    TRACE_4096 = "trace4096"
    """the same in 4,096-byte leaves"""
    ROOTS = "roots"
    """32-byte roots of a trace's buffers, none of them zero; tree over the roots themselves, so that its
    address is the trace root"""

    @property
    def leaf_bytes(self) -> int:
        """Bytes of a leaf."""
        return _LEAF_BYTES[self]

    @property
    def chunk_depth(self) -> int:
        """Levels of a chunk's subtree."""
        return SMALL_CHUNK_DEPTH if self in _SMALL_CHUNKED else CHUNK_DEPTH

    @property
    def chunk_leaves(self) -> int:
        """Leaves of a chunk."""
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
"""Tensors of a trace."""
_SMALL_CHUNKED = TRACE_KINDS | {BlobKind.DATASET}

_UNITS = {
    BlobKind.TENSOR: 4,
    BlobKind.DELTA: DELTA_LEAF_BYTES,
    BlobKind.ROOTS: ROOT_BYTES,
}


def get_trace_kind(leaf_bytes: int) -> BlobKind:
    """The kind of a trace's tensors with leaves of this size. Raises InvalidInput where there is none."""
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
    """The address of a blob: its kind and 32 bytes of root or digest."""

    kind: BlobKind
    root: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.root, bytes) or len(self.root) != ROOT_BYTES:
            raise InvalidInput(
                what="a blob's root has another length",
                expected="32 bytes",
                actual=repr(self.root),
                remedy="Pass the root as it stands on chain.",
            )

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.root.hex()}"


@dataclass(frozen=True)
class BlobRef:
    """A blob to be read: its address and its exact length in bytes."""

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
        """Bytes of a whole chunk."""
        return self.key.kind.chunk_leaves * self.key.kind.leaf_bytes

    @property
    def chunk_count(self) -> int:
        """Subtrees that are judged one by one."""
        return -(-self.size_bytes // self.chunk_bytes)

    def allow_lengths(self, left: range) -> range:
        """How many bytes a peer's file may give for the bytes `left`, which end with the blob or before.

        A root says nothing of zeros at the end of the last leaf, and others may name the same blob with more
        or fewer of them: a peer has one file for all."""
        if left.stop < self.size_bytes:
            return range(len(left), len(left) + 1)
        leaf_bytes = self.key.kind.leaf_bytes
        last = (self.size_bytes - 1) // leaf_bytes * leaf_bytes
        # Who asks for a range is sent no more.
        most = len(left) if left.start else last + leaf_bytes
        return range(max(last + 1 - left.start, 1), most + 1)

    def locate_chunks(self, chunks: range) -> range:
        """The bytes of chunks that follow each other. Raises InvalidInput where there are none."""
        if chunks.step != 1 or not 0 <= chunks.start < chunks.stop <= self.chunk_count:
            raise InvalidInput(
                what="the blob has no such chunks",
                expected=f"some of {self.chunk_count}, one after the other",
                actual=str(chunks),
                where=str(self.key),
                remedy="Compute them from the length of the blob.",
            )
        return range(chunks.start * self.chunk_bytes, min(chunks.stop * self.chunk_bytes, self.size_bytes))


def refer_tensor(root: bytes, parameter_count: int) -> BlobRef:
    """The blob of a flat float32 vector (W, m or v) of `parameter_count` elements."""
    return BlobRef(BlobKey(BlobKind.TENSOR, root), 4 * parameter_count)


def refer_delta(root: bytes, parameter_count: int) -> BlobRef:
    """The blob of a pseudo-gradient of `parameter_count` elements: one delta leaf per state leaf."""
    leaves = merkle.count_tensor_leaves(parameter_count)
    return BlobRef(BlobKey(BlobKind.DELTA, root), DELTA_LEAF_BYTES * leaves)


def refer_state(header: StateHeader, parameter_count: int) -> tuple[BlobRef, BlobRef, BlobRef]:
    """The blobs of a training state in the order W, m, v: the whole checkpoint container, since the header
    has the step counters and the task fixes names, shapes and order (docs/spec.md, section 2)."""
    weights = refer_tensor(header.weights_root, parameter_count)
    first_moment = refer_tensor(header.first_moment_root, parameter_count)
    return weights, first_moment, refer_tensor(header.second_moment_root, parameter_count)


def refer_trace_tensor(root: bytes, size_bytes: int, leaf_bytes: int) -> BlobRef:
    """The blob of a buffer of a trace, in leaves of `leaf_bytes`."""
    return BlobRef(BlobKey(get_trace_kind(leaf_bytes), root), size_bytes)


def refer_roots(trace_root: bytes, count: int) -> BlobRef:
    """The blob of the roots of all `count` buffers of a trace, in their order."""
    return BlobRef(BlobKey(BlobKind.ROOTS, trace_root), ROOT_BYTES * count)


class BlobVerifier:
    """Judges the bytes of one blob while they stream; memory stays below two chunks whatever the length.

    Feed bytes in order with `update`; `finish` tells that length and root are right. Until then nothing that
    was fed may be used. Any deviation raises ProtocolFault with `source`, who delivered the bytes, as
    culprit.
    """

    def __init__(self, ref: BlobRef, *, source: str = "", chunk_roots: Sequence[bytes] = ()) -> None:
        """chunk_roots: subtree roots announced by the source (see `chunk_roots`), else empty."""
        self._ref = ref
        self._source = source
        self._announced = tuple(chunk_roots)
        self._size_bytes = ref.size_bytes
        self._pending = bytearray()
        self._chunk_roots: list[bytes] = []
        self.received_bytes = 0
        if self._announced:
            self._check_announced()

    def _check_announced(self) -> None:
        count = self._ref.chunk_count
        if len(self._announced) != count:
            self._fail("the list of chunk hashes has another length", count, len(self._announced))
        folded = fold_chunks(self._announced, self._ref.key.kind)
        self._require_root(folded, "the chunk hashes do not fold to the root")

    def update(self, data: bytes) -> None:
        """Take the next bytes, of any length. Raises ProtocolFault at the first that cannot be right."""
        self.received_bytes += len(data)
        if self.received_bytes > self._size_bytes:
            self._fail("the blob is too long", f"{self._size_bytes} bytes", f"at least {self.received_bytes}")
        chunk_bytes = self._ref.chunk_bytes
        self._pending += data
        while len(self._pending) >= chunk_bytes:
            self._take_chunk(bytes(self._pending[:chunk_bytes]))
            del self._pending[:chunk_bytes]

    def finish(self) -> None:
        """Raises ProtocolFault unless exactly the bytes that were expected were fed."""
        if self.received_bytes != self._size_bytes:
            self._fail("the blob is too short", f"{self._size_bytes} bytes", f"{self.received_bytes} bytes")
        if self._pending:
            self._take_chunk(bytes(self._pending))
            self._pending.clear()
        folded = fold_chunks(self._chunk_roots, self._ref.key.kind)
        self._require_root(folded, "the bytes do not match their root")

    def rewind(self, kept_bytes: int) -> int:
        """Forget what no announced root has judged, and what lies behind `kept_bytes`, so that somebody else
        can go on; returns the bytes that are left. Without announced roots that is none."""
        whole = min(len(self._chunk_roots), kept_bytes // self._ref.chunk_bytes) if self._announced else 0
        del self._chunk_roots[whole:]
        self._pending.clear()
        self.received_bytes = min(whole * self._ref.chunk_bytes, self._size_bytes)
        return self.received_bytes

    @property
    def chunk_roots(self) -> tuple[bytes, ...]:
        """Roots of the chunks so far."""
        return tuple(self._chunk_roots)

    def _take_chunk(self, chunk: bytes) -> None:
        index = len(self._chunk_roots)
        require_finite(self._ref, chunk, index, self._source)
        if self._ref.key.kind is BlobKind.ROOTS:
            self._require_no_zero(chunk, index)
        root = hash_chunk(chunk, self._ref)
        if self._announced and root != self._announced[index]:
            self._fail("a chunk does not match its hash", self._announced[index].hex(), root.hex())
        self._chunk_roots.append(root)

    def _require_no_zero(self, chunk: bytes, index: int) -> None:
        roots = split_roots(chunk)
        if ZERO_WORD in roots:
            place = index * self._ref.key.kind.chunk_leaves + roots.index(ZERO_WORD)
            self._fail("a list of roots has a zero word", "a root", f"32 zero bytes as root {place}")

    def _require_root(self, root: bytes, what: str) -> None:
        if root != self._ref.key.root:
            self._fail(what, self._ref.key.root.hex(), root.hex())

    def _fail(self, what: str, expected: object, actual: object) -> NoReturn:
        _refuse(self._ref, what, expected, actual, self._source)


def _refuse(ref: BlobRef, what: str, expected: object, actual: object, source: str) -> NoReturn:
    raise ProtocolFault(
        what=what,
        expected=expected,
        actual=actual,
        where=str(ref.key),
        culprit=source,
        remedy="Discard it; ask another peer, or report the blob as unserved.",
    )


def tell_damage(fault: ProtocolFault) -> EnvironmentFault:
    """The same of a blob on this machine's own disk: nobody is to blame."""
    return EnvironmentFault(
        what=f"a stored blob is damaged ({fault.what}) and was removed",
        expected=fault.expected,
        actual=fault.actual,
        where=fault.where,
        remedy="Fetch it again; check the disk.",
    )


def require_finite(ref: BlobRef, data: bytes | memoryview, first_chunk: int = 0, source: str = "") -> None:
    """Raises ProtocolFault, with `source` as culprit, where whole chunks of a tensor from `first_chunk` on
    hold a number that is not finite. Other blobs may hold anything."""
    if ref.key.kind is not BlobKind.TENSOR:
        return
    values, part = np.frombuffer(data, dtype="<f4"), ref.chunk_bytes // 4
    for start in range(0, len(values), part):
        is_finite = np.isfinite(values[start : start + part])
        if not is_finite.all():
            place = start + int(is_finite.argmin())
            actual = f"{values[place]} at element {first_chunk * part + place}"
            _refuse(ref, "a tensor is not finite", "finite float32", actual, source)


def hash_chunk(chunk: bytes, ref: BlobRef) -> bytes:
    """Root of the subtree over one chunk (the last of a blob may be shorter): lifted with zero padding to
    the depth of chunks where the blob has several, else the root of the whole tree."""
    leaves = split_roots(chunk) if ref.key.kind is BlobKind.ROOTS else _hash_leaves(chunk, ref)
    root = merkle.compute_root(leaves)
    if ref.chunk_count == 1:
        return root
    for level in range(merkle.compute_depth(len(leaves)), ref.key.kind.chunk_depth):
        root = merkle.hash_node(root, _EMPTY_SUBTREES[level])
    return root


def _hash_leaves(chunk: bytes, ref: BlobRef) -> list[bytes]:
    leaf_bytes = ref.key.kind.leaf_bytes
    pieces = [chunk[start : start + leaf_bytes] for start in range(0, len(chunk), leaf_bytes)]
    pieces[-1] = pieces[-1].ljust(leaf_bytes, b"\0")
    return [merkle.hash_leaf(piece) for piece in pieces]


def split_roots(data: bytes) -> list[bytes]:
    """The roots that stand one after the other in `data`."""
    return [data[start : start + ROOT_BYTES] for start in range(0, len(data), ROOT_BYTES)]


def stack_chunk(chunk: bytes, ref: BlobRef) -> merkle.Levels:
    """All levels of the subtree over one chunk, padding included where the blob has several chunks."""
    leaves = _hash_leaves(chunk, ref)
    if ref.chunk_count > 1:
        leaves += [ZERO_WORD] * (ref.key.kind.chunk_leaves - len(leaves))
    return merkle.stack_levels(leaves)


def get_chunk_level(levels: merkle.Levels, kind: BlobKind) -> Sequence[bytes]:
    """The roots of the chunks of a tree over a blob of this kind."""
    return levels[min(kind.chunk_depth, len(levels) - 1)]


def fold_chunks(chunk_roots: Sequence[bytes], kind: BlobKind) -> bytes:
    """Root of the tree over a blob of this kind whose chunks have these roots (at least one)."""
    growing = merkle.GrowingRoot(_EMPTY_SUBTREES[kind.chunk_depth])
    for root in chunk_roots:
        growing.add(root)
    return growing.finish()


def open_leaves(
    ref: BlobRef, chunk_roots: Sequence[bytes], chunk: bytes, indices: Iterable[int]
) -> Iterator[LeafProof]:
    """Leaves of one chunk, padding included, with their paths, from the chunk and the roots of all: nothing
    is judged here."""
    kind = ref.key.kind
    size, padding = kind.leaf_bytes, _EMPTY_SUBTREES[kind.chunk_depth]
    levels = merkle.compute_levels(_hash_leaves(chunk, ref))
    above = merkle.stack_levels(chunk_roots, padding)
    for index in indices:
        number, within = divmod(index, kind.chunk_leaves)
        path = merkle.compute_path(levels, within)
        if len(chunk_roots) > 1:
            path += _EMPTY_SUBTREES[len(path) : kind.chunk_depth]
            path += merkle.compute_path(above, number, padding)
        leaf = chunk[within * size : (within + 1) * size]
        yield LeafProof(leaf.ljust(size, b"\0"), tuple(path))


def _list_empty_subtrees() -> tuple[bytes, ...]:
    roots = [ZERO_WORD]
    for _ in range(CHUNK_DEPTH):
        roots.append(merkle.hash_node(roots[-1], roots[-1]))
    return tuple(roots)


_EMPTY_SUBTREES = _list_empty_subtrees()
