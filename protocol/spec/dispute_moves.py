"""The moves of a dispute: what may be done (twin of every `revert` of DisputeGame) and what must be.

`block` is the block that would hold the call. Facts that only hashing or another contract can tell are
keyword fields of a move, true unless somebody says otherwise; money is left to the chain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from protocol.spec.clock import NEVER
from protocol.spec.dispute import ACTIVE_STAGES, DisputeBook, DisputeState, count_queue
from protocol.spec.guards import Refusal, RuleViolation
from protocol.spec.hashing import field_word, sha256_of
from protocol.spec.statuses import ClaimRef, Stage

MAX_DEMANDS_EACH = 8
"""of one challenger in one dispute: a flood costs its sender fees and the claimant no sleep."""
MAX_DEMANDS_OTHERS = 32
"""of all challengers but the opener together: nobody crowds the opener out."""
MAX_QUEUE = 32
"""open disputes of one claimant in one task; the bond has doubled as often."""
SCALAR_COUNT = 3
"""learning rate and two bias corrections."""


@dataclass(frozen=True)
class Move:
    """Base of the moves in an open dispute."""

    dispute: bytes


@dataclass(frozen=True)
class OpenDispute:
    """openDispute of a claim under a seal. Facts: whether the claim can be disputed now (committed or
    revealed, not convicted, the segment right), and the block from which no dispute can be opened."""

    claim: ClaimRef
    seal_hash: bytes
    claimant: str
    is_disputable: bool = field(default=True, kw_only=True)
    closes_block: int = field(default=NEVER, kw_only=True)


@dataclass(frozen=True)
class PostStepRoots(Move):
    """postStepRoots: `root_count` state roots. Facts: the ends open the claim; first and last root fit."""

    root_count: int
    are_ends_valid: bool = field(default=True, kw_only=True)
    are_endpoints_met: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class NameStep(Move):
    """nameStep: the step (0 .. k-1) that the opener will prove wrong. Fact: the roots are those posted."""

    step: int
    are_roots_right: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class PostTrace(Move):
    """postTrace of the named step. Facts: the facts of the step are the task's; both headers hash to the
    roots around it; their step numbers are the claim's; the head is the program's; the trace ends in the
    state after the step."""

    are_facts_right: bool = field(default=True, kw_only=True)
    are_headers_right: bool = field(default=True, kw_only=True)
    are_steps_right: bool = field(default=True, kw_only=True)
    is_head_right: bool = field(default=True, kw_only=True)
    are_outputs_right: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class DemandLeaf(Move):
    """demandLeaf of the buffer at a place of a node: 0 its output, 1 and up its operands. Facts: the facts
    are the task's; the node is the program's; it has this place; no constant, which everybody has, stands
    there; the buffer has such a leaf."""

    node: int
    place: int
    leaf_index: int
    are_facts_right: bool = field(default=True, kw_only=True)
    is_node_right: bool = field(default=True, kw_only=True)
    is_place_known: bool = field(default=True, kw_only=True)
    is_no_constant: bool = field(default=True, kw_only=True)
    is_leaf_known: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class AnswerDemand(Move):
    """answerDemand: the oldest open one. Facts: the header is that of the state before the step; the leaf has
    the buffer's length; the buffer is the trace's; the leaf is in its tree."""

    demand: int
    node: int
    place: int
    leaf_index: int
    is_header_right: bool = field(default=True, kw_only=True)
    is_length_right: bool = field(default=True, kw_only=True)
    is_buffer_right: bool = field(default=True, kw_only=True)
    is_leaf_right: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class Proof(Move):
    """Base of the proofs of a fault. Facts: the facts are the task's; the claim is neither settled nor
    convicted; there is a fault."""

    are_facts_right: bool = field(default=True, kw_only=True)
    is_standing: bool = field(default=True, kw_only=True)
    is_fault: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class ProveOperation(Proof):
    """proveOperation: an element of a node lies beyond its bound. Fact: the header is that of the state
    before the step. What is no proof of an element the referee refuses by errors of its own."""

    node: int
    element: int
    is_header_right: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class ProveToken(Proof):
    """proveToken: the token (or label) at a position is not the dealt one. Facts: the buffer is the trace's;
    both leaves are in their trees."""

    is_label: bool
    position: int
    is_position_known: bool = field(default=True, kw_only=True)
    is_buffer_right: bool = field(default=True, kw_only=True)
    are_leaves_right: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class ProveScalar(Proof):
    """proveScalar: 0 the learning rate, 1 and 2 the bias corrections are not those of the step. Facts as
    before."""

    which: int
    is_header_right: bool = field(default=True, kw_only=True)
    is_buffer_right: bool = field(default=True, kw_only=True)
    are_leaves_right: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class Timeout(Move):
    """timeout. Fact: the claim was convicted otherwise meanwhile, which closes the dispute at once."""

    is_claim_convicted: bool = field(default=False, kw_only=True)


def compute_opening_seal(claim: ClaimRef, opener: str, salt: bytes) -> bytes:
    """What `sealOpening` takes and the dispute's id: SHA-256 of abi.encode(claim, opener, salt)."""
    audit = claim.audit
    name: tuple[int | bytes, ...] = (audit.task, audit.round, audit.slot, audit.draw, audit.rank)
    fields: tuple[int | bytes | str, ...] = (*name, claim.segment, claim.by_solver, opener, salt)
    return sha256_of(b"".join(map(field_word, fields)))


# --- Guards -------------------------------------------------------------------------------------------------
def check_opening(book: DisputeBook, call: OpenDispute, sender: str, block: int) -> Refusal:
    """Why the contract refuses to open a dispute; None: it opens one."""
    sealed = book.seals.get(call.seal_hash)
    if sealed is None:
        return _refuse("NotSealed", seal_hash=call.seal_hash)
    if block <= sealed:
        return _refuse("SealTooYoung", sealed_block=sealed, block_number=block)
    if call.seal_hash in book.disputes:
        return _refuse("DisputeExists", dispute=call.seal_hash)
    if block >= call.closes_block:
        return _refuse("DisputeWindowClosed", closes_block=call.closes_block, block_number=block)
    if not call.is_disputable:
        return _refuse("ClaimNotDisputable")
    if call.claimant == sender:
        return _refuse("OwnClaim", account=sender)
    is_full = count_queue(book, call.claimant) >= MAX_QUEUE
    return _refuse("QueueFull", cap=MAX_QUEUE) if is_full else None


def check_move(state: DisputeState, move: Move, sender: str, block: int) -> Refusal:
    """Why the contract refuses a move in a dispute; None: it accepts. Raises KeyError on anything else."""
    return _GUARDS[type(move)](state, move, sender, block)


def _refuse(name: str, **values: Any) -> RuleViolation:
    return RuleViolation(name, values)


def _check_stage(state: DisputeState, expected: Stage) -> Refusal:
    if state.stage == expected:
        return None
    return _refuse("WrongStage", expected=expected, actual=state.stage)


def _check_clock(state: DisputeState, expected: Stage, block: int) -> Refusal:
    if refusal := _check_stage(state, expected):
        return refusal
    if block < state.clock_block:
        return None
    return _refuse("ClockOver", clock_block=state.clock_block, block_number=block)


def _check_roots(state: DisputeState, move: PostStepRoots, sender: str, block: int) -> Refusal:
    if refusal := _check_clock(state, Stage.ROOTS, block):
        return refusal
    if sender != state.claimant:
        return _refuse("NotClaimant", expected=state.claimant, actual=sender)
    expected = state.terms.segment_steps + 1
    if move.root_count != expected:
        return _refuse("WrongRootCount", expected=expected, actual=move.root_count)
    if not move.are_ends_valid:
        return _refuse("BoundaryMismatch")
    return None if move.are_endpoints_met else _refuse("EndpointMismatch")


def _check_name(state: DisputeState, move: NameStep, sender: str, block: int) -> Refusal:
    if refusal := _check_clock(state, Stage.NAME, block):
        return refusal
    if sender != state.opener:
        return _refuse("NotOpener", expected=state.opener, actual=sender)
    if not move.are_roots_right:
        return _refuse("RootsMismatch")
    count = state.terms.segment_steps
    return None if 0 <= move.step < count else _refuse("StepUnknown", index=move.step, count=count)


def _check_trace(state: DisputeState, move: PostTrace, sender: str, block: int) -> Refusal:
    if refusal := _check_clock(state, Stage.TRACE, block):
        return refusal
    if sender != state.claimant:
        return _refuse("NotClaimant", expected=state.claimant, actual=sender)
    return _check_facts(
        FactsMismatch=move.are_facts_right,
        HeaderMismatch=move.are_headers_right,
        WrongSteps=move.are_steps_right,
        HeadMismatch=move.is_head_right,
        OutputMismatch=move.are_outputs_right,
    )


def _check_facts(**facts: bool) -> Refusal:
    """The refusal of the first fact that does not hold, by its name."""
    return next((_refuse(name) for name, holds in facts.items() if not holds), None)


def _check_demand(state: DisputeState, move: DemandLeaf, sender: str, block: int) -> Refusal:
    if refusal := _check_clock(state, Stage.PROVE, block):
        return refusal
    if sender == state.claimant:
        return _refuse("OwnClaim", account=sender)
    if not move.are_facts_right:
        return _refuse("FactsMismatch")
    if refusal := _check_demand_cap(state, sender):
        return refusal
    return _check_facts(
        NodeMismatch=move.is_node_right,
        PlaceUnknown=move.is_place_known,
        ConstantDemanded=move.is_no_constant,
        LeafUnknown=move.is_leaf_known,
    )


def _check_demand_cap(state: DisputeState, sender: str) -> Refusal:
    if sum(demand.challenger == sender for demand in state.demands) >= MAX_DEMANDS_EACH:
        return _refuse("TooManyDemands", challenger=sender, cap=MAX_DEMANDS_EACH)
    others = sum(demand.challenger != state.opener for demand in state.demands)
    if sender != state.opener and others >= MAX_DEMANDS_OTHERS:
        return _refuse("TooManyDemands", challenger=sender, cap=MAX_DEMANDS_OTHERS)
    return None


def _check_answer(state: DisputeState, move: AnswerDemand, sender: str, block: int) -> Refusal:
    if refusal := _check_stage(state, Stage.PROVE):
        return refusal
    if sender != state.claimant:
        return _refuse("NotClaimant", expected=state.claimant, actual=sender)
    if move.demand != state.answered or not state.has_open_demand:
        made = len(state.demands)
        return _refuse("DemandUnknown", demand=move.demand, answered=state.answered, made=made)
    if block >= state.demand_clock:
        return _refuse("ClockOver", clock_block=state.demand_clock, block_number=block)
    return _check_facts(
        HeaderMismatch=move.is_header_right,
        WrongLeafBytes=move.is_length_right,
        BufferMismatch=move.is_buffer_right,
        LeafMismatch=move.is_leaf_right,
    )


def _check_proof(state: DisputeState, move: Proof) -> Refusal:
    """What all proofs need: a trace that was posted, in time for the claim."""
    if state.trace is None or state.stage == Stage.CONVICTED:
        return _refuse("WrongStage", expected=Stage.PROVE, actual=state.stage)
    return _check_facts(FactsMismatch=move.are_facts_right, ClaimNotDisputable=move.is_standing)


def _check_operation(state: DisputeState, move: ProveOperation, sender: str, block: int) -> Refusal:
    if refusal := _check_proof(state, move):
        return refusal
    return _check_facts(HeaderMismatch=move.is_header_right, NoFault=move.is_fault)


def _check_token(state: DisputeState, move: ProveToken, sender: str, block: int) -> Refusal:
    if refusal := _check_proof(state, move):
        return refusal
    return _check_facts(
        LeafUnknown=move.is_position_known,
        BufferMismatch=move.is_buffer_right,
        LeafMismatch=move.are_leaves_right,
        NoFault=move.is_fault,
    )


def _check_scalar(state: DisputeState, move: ProveScalar, sender: str, block: int) -> Refusal:
    if refusal := _check_proof(state, move):
        return refusal
    return _check_facts(
        HeaderMismatch=move.is_header_right,
        LeafUnknown=0 <= move.which < SCALAR_COUNT,
        BufferMismatch=move.is_buffer_right,
        LeafMismatch=move.are_leaves_right,
        NoFault=move.is_fault,
    )


def _check_timeout(state: DisputeState, move: Timeout, sender: str, block: int) -> Refusal:
    if state.stage not in ACTIVE_STAGES:
        return _refuse("WrongStage", expected=Stage.PROVE, actual=state.stage)
    clock = state.timeout_block
    if move.is_claim_convicted or block >= clock:
        return None
    return _refuse("ClockRunning", clock_block=clock, block_number=block)


_GUARDS: dict[type[Move], Callable[[DisputeState, Any, str, int], Refusal]] = {
    PostStepRoots: _check_roots,
    NameStep: _check_name,
    PostTrace: _check_trace,
    DemandLeaf: _check_demand,
    AnswerDemand: _check_answer,
    ProveOperation: _check_operation,
    ProveToken: _check_token,
    ProveScalar: _check_scalar,
    Timeout: _check_timeout,
}


# --- Duties -------------------------------------------------------------------------------------------------
def get_claimant_actions(state: DisputeState, me: str, block: int) -> tuple[Move, ...]:
    """What the claimant owes: its step roots, the trace of the named step, the answer to the oldest open
    demand."""
    moves: list[Move] = [
        PostStepRoots(state.dispute, state.terms.segment_steps + 1),
        PostTrace(state.dispute),
    ]
    if state.has_open_demand:
        demand = state.demands[state.answered]
        moves.append(
            AnswerDemand(state.dispute, state.answered, demand.node, demand.place, demand.leaf_index)
        )
    return _keep_allowed(state, moves, me, block)


def get_opener_actions(
    state: DisputeState, me: str, block: int, own_roots: Sequence[bytes]
) -> tuple[Move, ...]:
    """What the opener does: names the first step after which the roots part from `own_roots` (k+1, of its own
    replay). Then it is the claimant's turn; what of the trace can be proven takes the trace to see."""
    step = find_first_difference(state.roots, own_roots)
    moves = [] if step is None else [NameStep(state.dispute, step)]
    return _keep_allowed(state, moves, me, block) if me == state.opener else ()


def find_first_difference(roots: Sequence[bytes], own_roots: Sequence[bytes]) -> int | None:
    """The step before the first root that differs; None where all agree: then there is nothing to prove."""
    pairs = enumerate(zip(roots[1:], own_roots[1:], strict=False))
    return next((step for step, (root, own) in pairs if root != own), None)


def get_timeout_actions(
    state: DisputeState, block: int, is_claim_convicted: bool = False
) -> tuple[Move, ...]:
    """The permissionless timeout, once it is due. Whoever waits for the end of the dispute sends it."""
    move = Timeout(state.dispute, is_claim_convicted=is_claim_convicted)
    return _keep_allowed(state, [move], "", block)


def _keep_allowed(state: DisputeState, moves: Sequence[Move], me: str, block: int) -> tuple[Move, ...]:
    return tuple(move for move in moves if check_move(state, move, me, block) is None)


def get_next_dispute_deadline(state: DisputeState, block: int) -> int:
    """The first block after `block` in which a clock of the dispute runs out; NEVER when none runs."""
    clock = state.timeout_block if state.stage in ACTIVE_STAGES else NEVER
    return clock if clock > block else NEVER
