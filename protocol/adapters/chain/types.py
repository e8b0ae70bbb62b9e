"""The structs and enums of `contracts/Types.sol` that calls take and return, by their Solidity names."""

from dataclasses import dataclass
from enum import IntEnum

from protocol.spec import containers
from protocol.spec.statuses import AuditRef, AuditStatus, ClaimRef, ClaimStatus, Role, RoundStatus, Stage
from protocol.spec.tolerance import Judgement


class Turn(IntEnum):
    """Whose move a contest of an outer root waits for."""

    NONE = 0
    POSTER = 1
    RIVAL = 2
    LEAF = 3


@dataclass(frozen=True)
class BoundaryProof:
    """A salted boundary leaf and its path in the claim tree."""

    header: containers.StateHeader
    salt: bytes
    path: tuple[bytes, ...]


STRUCTS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        containers.StateHeader, containers.TaskTerms, containers.Windows, containers.Amounts,
        containers.Limits, containers.LeafProof, containers.StateLeaves, containers.StepFacts,
        containers.NodeProof, containers.BufferOpening, containers.TraceProof, containers.StepContext,
        BoundaryProof, AuditRef, ClaimRef,
    )
}  # fmt: skip
ENUMS: dict[str, type[IntEnum]] = {
    kind.__name__: kind for kind in (Role, RoundStatus, ClaimStatus, AuditStatus, Judgement, Stage, Turn)
}
