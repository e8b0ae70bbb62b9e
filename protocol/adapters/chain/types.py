"""The structs that calls take and return and that have a class of their own, by their Solidity names."""

from dataclasses import dataclass

from protocol.spec import containers


@dataclass(frozen=True)
class BoundaryProof:
    """A salted boundary leaf and its path in the claim tree."""

    header: containers.StateHeader
    salt: bytes
    path: tuple[bytes, ...]


STRUCTS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        containers.StateHeader, containers.Limits, containers.LeafProof, containers.StateLeaves,
        containers.StepFacts, containers.NodeProof, containers.BufferOpening, containers.TraceProof,
        containers.StepContext, BoundaryProof,
    )
}  # fmt: skip
