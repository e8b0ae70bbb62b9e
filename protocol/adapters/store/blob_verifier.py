"""Checks the bytes of a blob while they stream."""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from touchstone.protocol.adapters.store.blobs import BlobKind, BlobRef
from touchstone.protocol.adapters.store.chunk_trees import fold_chunks, hash_chunk, split_roots
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.params import ZERO_WORD


class BlobVerifier:
    """Checks the bytes of one blob while they stream; memory stays below two chunks.

    Pass bytes in order to `update`; `finish` checks length and root. Until then the caller must not use the
    bytes. Any error raises ProtocolFault with `source`, the sender of the bytes, as culprit."""

    def __init__(self, ref: BlobRef, *, source: str = "", chunk_roots: Sequence[bytes] = ()) -> None:
        """Begins. `chunk_roots` are the ones that the sender announced (see `chunk_roots`), empty if it
        announced none."""
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
            self._fail("the list of chunk hashes has the wrong length", count, len(self._announced))
        folded = fold_chunks(self._announced, self._ref.key.kind)
        self._require_root(folded, "the chunk hashes do not give the root")

    def update(self, data: bytes) -> None:
        """Takes the next bytes, of any length. Raises ProtocolFault at the first chunk that is wrong."""
        self.received_bytes += len(data)
        if self.received_bytes > self._size_bytes:
            self._fail("the blob is too long", f"{self._size_bytes} bytes", f"at least {self.received_bytes}")
        chunk_bytes = self._ref.chunk_bytes
        self._pending += data
        while len(self._pending) >= chunk_bytes:
            self._take_chunk(bytes(self._pending[:chunk_bytes]))
            del self._pending[:chunk_bytes]

    def finish(self) -> None:
        """Raises ProtocolFault unless exactly the expected bytes were passed."""
        if self.received_bytes != self._size_bytes:
            self._fail("the blob is too short", f"{self._size_bytes} bytes", f"{self.received_bytes} bytes")
        if self._pending:
            self._take_chunk(bytes(self._pending))
            self._pending.clear()
        folded = fold_chunks(self._chunk_roots, self._ref.key.kind)
        self._require_root(folded, "the bytes do not match their root")

    def rewind(self, kept_bytes: int) -> int:
        """Forgets unchecked bytes, and bytes after `kept_bytes`, so that another peer can go on. Returns how
        many bytes are left: none without announced roots."""
        whole = min(len(self._chunk_roots), kept_bytes // self._ref.chunk_bytes) if self._announced else 0
        del self._chunk_roots[whole:]
        self._pending.clear()
        self.received_bytes = min(whole * self._ref.chunk_bytes, self._size_bytes)
        return self.received_bytes

    @property
    def chunk_roots(self) -> tuple[bytes, ...]:
        """The roots of the chunks so far."""
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


def make_damage_fault(fault: ProtocolFault) -> EnvironmentFault:
    """Returns the error for a damaged blob on this machine's own disk, for which nobody is to blame."""
    return EnvironmentFault(
        what=f"a stored blob is damaged ({fault.what}) and was removed",
        expected=fault.expected,
        actual=fault.actual,
        where=fault.where,
        remedy="Fetch it again; check the disk.",
    )


def require_finite(ref: BlobRef, data: bytes | memoryview, first_chunk: int = 0, source: str = "") -> None:
    """Raises ProtocolFault, with `source` as culprit, if whole chunks of a tensor from `first_chunk` on have
    a number that is not finite. Other kinds of blobs may hold any bytes."""
    if ref.key.kind is not BlobKind.TENSOR:
        return
    values, part = np.frombuffer(data, dtype="<f4"), ref.chunk_bytes // 4
    for start in range(0, len(values), part):
        is_finite = np.isfinite(values[start : start + part])
        if not is_finite.all():
            place = start + int(is_finite.argmin())
            actual = f"{values[place]} at element {first_chunk * part + place}"
            _refuse(ref, "a tensor is not finite", "finite float32", actual, source)
