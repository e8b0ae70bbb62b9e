"""What an auditor saw of each solver before: the sum of its unit residuals, kept in the node's home.

A steer that is steady agrees with its own past, whatever its direction. A file a solver, as large as a state:
a line of JSON that says which audits are in the sum, then W's, m's and v's, float32. Each audit counts once,
also where a restarted node looks at it again.
"""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta
from torch import Tensor

from protocol.adapters.mapping import map_file, read_piece
from protocol.adapters.messages import Count, Form, Message, encode_message
from protocol.compute.digest import tensor_bytes
from protocol.compute.residuals import PastResiduals, Vectors, scale_to_unit
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.ledger import QUANTITIES

PAST_FOLDER = "past"
MAX_SOLVERS = 16
"""Files that are kept: those written last."""
MAX_PLACES = 256
"""Audits of one solver that are remembered by name: far more than rounds that overlap have."""
HEAD_BYTES = 8192

Place = tuple[Count, Count, Count]
"""(round, slot, segment)"""

log = logging.getLogger(__name__)


class _Head(Message, frozen=True):
    places: Annotated[tuple[Place, ...], Meta(max_length=MAX_PLACES)]


_HEAD = Form(_Head, HEAD_BYTES, "the line of audits is malformed")


@dataclass(frozen=True)
class Past:
    """The sum, and the audits in it; nothing was seen: no residuals, no places."""

    residuals: PastResiduals
    places: tuple[Place, ...]


@dataclass(frozen=True)
class _StoredSum:
    """The sum of one quantity, in a mapped file from byte `first` on: this process holds the slices that it
    asks for."""

    mapped: memoryview
    first: int
    elements: int

    def __getitem__(self, part: slice) -> Tensor:
        start, stop, _ = part.indices(self.elements)
        piece = torch.empty(max(0, stop - start))
        read_piece(self.mapped, self.first + 4 * start, tensor_bytes(piece))
        return piece


class PastFile:
    """One solver's file of one task. Not for two threads at once."""

    def __init__(self, home: Path, task: bytes, solver: str, elements: int) -> None:
        """elements: of each of W, m and v."""
        self._folder = home / PAST_FOLDER
        self._path = self._folder / f"{hashlib.sha256(task + solver.encode()).hexdigest()}.sum"
        self._elements = elements

    def load(self) -> Past:
        """What was seen; the numbers stay in the file. A damaged file is as good as none: it begins anew."""
        try:
            return self._load() if self._path.exists() else Past(PastResiduals(), ())
        except (OSError, ValueError, ProtocolFault) as error:
            log.warning("%s is damaged and begins anew: %s", self._path, error)
            return Past(PastResiduals(), ())

    def _load(self) -> Past:
        expected = HEAD_BYTES + 4 * len(QUANTITIES) * self._elements
        if self._path.stat().st_size != expected:
            raise ValueError(f"{expected} bytes were expected")
        with self._path.open("rb") as file:
            places = _HEAD.decode(file.read(HEAD_BYTES)).places
        mapped = map_file(self._path)
        sums = [
            _StoredSum(mapped, self._locate(index, 0), self._elements) for index in range(len(QUANTITIES))
        ]
        return Past(PastResiduals(sums), places)

    def add(self, place: Place, parts: Iterable[Vectors], norms: Sequence[float]) -> None:
        """One audit more, unless it is in the sum: its residuals part by part, and the L2 norms of the whole.
        Raises EnvironmentFault where the disk does not take it."""
        past = self.load()
        if place in past.places:
            return
        head = encode_message(_Head((*past.places, place)[-MAX_PLACES:]))
        temporary = self._path.with_suffix(".new")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(head.ljust(HEAD_BYTES))
                first = 0
                for part in parts:
                    stop = first + part[0].numel()
                    for index, unit in enumerate(map(scale_to_unit, part, norms)):
                        for before in past.residuals.sums[index : index + 1]:
                            unit += before[first:stop]
                        file.seek(self._locate(index, first))
                        file.write(tensor_bytes(unit))
                    first = stop
            temporary.replace(self._path)
            self._forget()
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise EnvironmentFault(
                what="what was seen of a solver cannot be kept",
                expected=f"room for {HEAD_BYTES + 12 * self._elements} bytes",
                actual=error.strerror or str(error),
                where=str(self._path),
                remedy="Free some space; until then its past does not grow.",
            ) from error

    def _locate(self, index: int, element: int) -> int:
        """The byte where an element of W (0), m (1) or v (2) is."""
        return HEAD_BYTES + 4 * (index * self._elements + element)

    def _forget(self) -> None:
        files = sorted(self._folder.glob("*.sum"), key=lambda path: path.stat().st_mtime_ns)
        for path in files[:-MAX_SOLVERS]:
            path.unlink(missing_ok=True)
