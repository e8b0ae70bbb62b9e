"""What the journal of a node says about one task: salts, boundaries and claims, by round.

Read once at the start, then kept in step with every record that is written through it.
"""

from dataclasses import dataclass, field
from typing import Any

from protocol.adapters.journal import Journal
from protocol.adapters.records import (
    AccusationMade,
    AuditMade,
    BoundaryReached,
    BoundarySaltsDrawn,
    ClaimMade,
)
from protocol.spec.containers import StateHeader

AuditKey = tuple[int, int, int, int]
"""(round, slot, draw, rank)"""


@dataclass
class Memory:
    """The journal's records of one task, indexed. `write` appends a record durably before it is known
    here."""

    journal: Journal
    task: bytes
    salts: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    boundaries: dict[tuple[int, int], StateHeader] = field(default_factory=dict)
    claims: dict[int, ClaimMade] = field(default_factory=dict)
    audits: dict[AuditKey, AuditMade] = field(default_factory=dict)
    accusations: list[AccusationMade] = field(default_factory=list)

    def __post_init__(self) -> None:
        for record in self.journal.replay():
            self._index(record)

    def write(self, record: Any) -> None:
        """Append a record; on return it is on disk and indexed."""
        self.journal.append(record)
        self._index(record)

    def _index(self, record: Any) -> None:
        if getattr(record, "task", None) != self.task:
            return
        if isinstance(record, BoundarySaltsDrawn):
            self.salts[record.round] = record.salts
        elif isinstance(record, BoundaryReached):
            self.boundaries[(record.round, record.boundary)] = header_of(record)
        elif isinstance(record, ClaimMade):
            self.claims[record.round] = record
        elif isinstance(record, AuditMade):
            self.audits[(record.round, record.slot, record.draw, record.rank)] = record
        elif isinstance(record, AccusationMade):
            self.accusations.append(record)


def header_of(record: BoundaryReached | AuditMade) -> StateHeader:
    """The state that a record names."""
    return StateHeader(
        record.weights_root,
        record.first_moment_root,
        record.second_moment_root,
        record.local_step,
        record.global_step,
    )


def header_fields(header: StateHeader) -> dict[str, Any]:
    """The fields of a record that names a state."""
    return {
        "weights_root": header.weights_root,
        "first_moment_root": header.first_moment_root,
        "second_moment_root": header.second_moment_root,
        "local_step": header.local_step,
        "global_step": header.global_step,
    }
