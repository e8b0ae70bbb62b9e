"""Openings of a claim, judged by its root: a boundary, the work leaf, and where it must start."""

from protocol.actions.audit.messages import BoundarySaid, WorkSaid
from protocol.actions.audit.records import WorkShown
from protocol.adapters.chain.types import BoundaryProof
from protocol.spec.claim_tree import compute_work_leaf, verify_in_claim
from protocol.spec.codec import compute_boundary_leaf, compute_state_root
from protocol.spec.containers import StateHeader
from protocol.spec.game.auditing import DrawnAudit


def compute_leaf(drawn: DrawnAudit, boundary: int, proof: BoundaryProof) -> bytes:
    """The claim's leaf at a boundary, as an opening says."""
    root = compute_state_root(proof.header)
    return compute_boundary_leaf(
        drawn.place.domain, drawn.place.round, drawn.solver, boundary, proof.salt, root
    )


def read_boundary(drawn: DrawnAudit, boundary: int, said: BoundarySaid) -> BoundaryProof:
    """An opening that holds. Raises ProtocolFault for another."""
    proof = said.read()
    leaf = compute_leaf(drawn, boundary, proof)
    verify_in_claim(drawn.place.claim_root, leaf, boundary, drawn.segments, proof.path)
    return proof


def read_work(drawn: DrawnAudit, said: WorkSaid) -> WorkShown:
    """An opening of the work leaf that holds. Raises ProtocolFault for another."""
    place = drawn.place
    roots = (said.delta_root, said.carried_root)
    leaf = compute_work_leaf(place.domain, place.round, drawn.solver, drawn.segments, *roots)
    verify_in_claim(place.claim_root, leaf, drawn.segments + 1, drawn.segments, said.path)
    return WorkShown(*roots, said.path)


def are_steps_right(
    header: StateHeader, first: StateHeader, global_step: int, local_steps: int, *, carries: bool
) -> bool:
    """Whether a state has the step numbers of its place: `global_step`, and `local_steps` since the round
    began. Local steps count from boundary 0 where moments carry over, else from zero; never more of them than
    of global ones are done, so that what a replay ends with has a number on chain."""
    local = (first.local_step if carries else 0) + local_steps
    return (header.global_step, header.local_step) == (global_step, local) and local <= global_step
