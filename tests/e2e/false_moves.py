"""Moves against an honest claimant that the contracts must refuse: proofs each of which is false in one way
only, and moves that are not their sender's to make. Everything of a proof that hostility needs of its shape
is here.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from protocol.actions.claim import get_dealt_batches
from protocol.actions.party import Party
from protocol.actions.prosecute import LABELS, SCALARS, TOKENS, get_inner_step, open_scalars, open_token
from protocol.actions.states import fetch_state
from protocol.adapters.chain import Chain
from protocol.adapters.chain.contract import Receipt
from protocol.compute.facts import compute_step_facts
from protocol.compute.fault import OperationFault, iterate_runs, prove_operation
from protocol.compute.openings import open_buffer, prove_node
from protocol.compute.retrace import retrace
from protocol.compute.step import TrainingState
from protocol.compute.trace import TraceTree
from protocol.spec.containers import BufferOpening, StateHeader, StepFacts
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import SCALAR_COUNT
from protocol.spec.params import ZERO_WORD
from protocol.spec.program import INDEXED, SMALL_LEAVES, Program, Role, leaf_bytes, locate, unravel

Send = Callable[[Chain], Awaitable[Receipt]]


@dataclass(frozen=True)
class FalseMove:
    """What is false about it, the error that it deserves (one of several, with `|` between), how it is
    sent."""

    name: str
    expected: str
    send: Send


@dataclass(frozen=True)
class KnownStep:
    """A disputed step, traced by whoever wants to lie about it: with the facts of the task's steps, the trace
    of the step after it and that of another claim."""

    dispute: DisputeState
    facts: StepFacts
    start: StateHeader
    end: StateHeader
    tree: TraceTree
    following: TraceTree
    foreign: TraceTree


async def learn_step(party: Party, dispute: DisputeState) -> KnownStep:
    """Fetch the start of the named step from its claimant and trace it. Raises as `fetch_state` does."""
    assert dispute.trace is not None
    peer = party.view.network.find(dispute.claimant)
    start = await fetch_state(party, [peer], dispute.trace.start)
    return await asyncio.to_thread(trace_around, party, dispute, start)


def trace_around(party: Party, dispute: DisputeState, start: TrainingState) -> KnownStep:
    """The true step, with two that it is not."""
    trace, audit, inner_step = dispute.trace, dispute.claim.audit, get_inner_step(party, dispute)
    spec, batches = party.spec.training, get_dealt_batches(party, audit.round, audit.slot)
    others = get_dealt_batches(party, audit.round, (audit.slot + 1) % len(party.round(audit.round).solvers))
    true = retrace(start, spec, batches, inner_step)
    assert trace is not None and true.tree.root == trace.root
    following = retrace(true.end, spec, batches, inner_step + 1)
    foreign = retrace(start, spec, others, (inner_step + 1) % party.spec.terms.inner_steps)
    trees = (replace(one.tree, get=cache(one.tree.get)) for one in (true, following, foreign))
    return KnownStep(dispute, compute_step_facts(party.spec), trace.start, trace.end, *trees)


# --- Spoiling -----------------------------------------------------------------------------------------------
def spoil(data: bytes) -> bytes:
    """One bit of the first byte."""
    return bytes([data[0] ^ 1]) + data[1:]


UNTRACED = "LeavesMismatch"
"""The error where a root stands in a state or in the program."""
MISMATCH = f"{UNTRACED}|TraceMismatch|BufferMismatch|WrongOpeningBytes|IndexOutside"
"""One of these, by what is read first."""


def spoil_leaves(opening: BufferOpening) -> BufferOpening:
    """Another element than the claimed one."""
    return replace(opening, leaves=spoil(opening.leaves))


def spoil_path(path: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Another sibling; one too many where there is none."""
    return (spoil(path[0]), *path[1:]) if path else (ZERO_WORD,)


# --- Operations ---------------------------------------------------------------------------------------------
def list_false_operations(step: KnownStep, number: int) -> Iterator[FalseMove]:
    """Proofs about the last element of a node."""
    true = prove_operation(step.tree, number, step.tree.program.nodes[number].elements - 1)
    make = partial(_prove_operation, step)
    for name, expected, fault in (*vary_element(step, true), *vary_whole(step, true)):
        yield FalseMove(f"operation: {name}", expected, make(fault))
    for name, expected, fault in vary_openings(step, true):
        yield FalseMove(f"operation: {name}", expected, make(fault))
    yield FalseMove("operation: other facts", "FactsMismatch", make(true, facts=spoil_facts(step)))
    yield FalseMove("operation: another state", "HeaderMismatch", make(true, start=step.end))


def _prove_operation(
    step: KnownStep, fault: OperationFault, facts: StepFacts | None = None, start: StateHeader | None = None
) -> Send:
    context = (step.dispute.dispute, facts or step.facts, start or step.start)
    return lambda chain: chain.dispute_game.prove_operation(
        *context, fault.node, fault.element, fault.openings
    )


def spoil_facts(step: KnownStep) -> StepFacts:
    """Coarser bounds than the task's."""
    return replace(step.facts, numeric_format=1)


Variation = tuple[str, str, OperationFault]
"""Name, error, proof."""


def vary_element(step: KnownStep, true: OperationFault) -> Iterator[Variation]:
    """An honest element; proofs about another node or element than the one that is opened."""
    program, number, node = step.tree.program, true.node.number, true.node
    other = prove_node(program, (number + 1) % len(program.nodes))
    yield "an honest element", "NoFault", true
    yield "another number", "NodeMismatch", replace(true, node=replace(node, number=other.number))
    yield "another node", "NodeMismatch", replace(true, node=replace(other, number=number))
    yield "a spoiled node", "NodeMismatch", replace(true, node=replace(node, data=spoil(node.data)))
    yield "no such element", "ElementUnknown", replace(true, element=program.nodes[number].elements)


def vary_whole(step: KnownStep, true: OperationFault) -> Iterator[Variation]:
    """Openings that are too short or too long, or another trace's."""
    shown = true.openings
    for name, openings in (
        ("nothing opened", b""),
        ("a byte too few", shown[:-1]),
        ("a byte too many", shown + b"\0"),
        ("an opening twice", shown + shown),
    ):
        yield name, "WrongOpeningBytes", replace(true, openings=openings)
    for name, tree in (("the step after", step.following), ("another claim", step.foreign)):
        stranger = prove_operation(tree, true.node.number, true.element).openings
        yield f"openings of {name}", MISMATCH, replace(true, openings=stranger)


def vary_openings(step: KnownStep, true: OperationFault) -> Iterator[Variation]:
    """Each run and each sibling spoiled, constants as well: they are no claimant's to choose."""
    place, is_indexed = 0, step.tree.program.nodes[true.node.number].operation in INDEXED
    pieces = list(list_pieces(step.tree, true))
    runs = Counter(buffer for name, buffer, _ in pieces if name == "run")
    for name, buffer, size in pieces:
        is_traced = step.tree.program.buffers[buffer].role not in SMALL_LEAVES
        # Another index chooses another run, which the bytes behind it do not fit.
        # Two runs of one buffer must give one root, which is looked at before the trace is.
        mismatch = "BufferMismatch" if runs[buffer] > 1 else "TraceMismatch"
        expected = MISMATCH if is_indexed else mismatch if is_traced else UNTRACED
        openings = true.openings[:place] + spoil(true.openings[place:])
        yield f"a spoiled {name} of buffer {buffer}", expected, replace(true, openings=openings)
        place += size
    if place < len(true.openings):
        openings = true.openings[:place] + spoil(true.openings[place:])
        yield "a spoiled sibling in the trace", "TraceMismatch", replace(true, openings=openings)


def list_pieces(tree: TraceTree, true: OperationFault) -> Iterator[tuple[str, int, int]]:
    """What is opened, in order: leaves or siblings, of which buffer, so many bytes."""
    node = tree.program.nodes[true.node.number]
    output = node.output.buffer, locate(node.output, unravel(true.element, node.output_sizes)), 1
    for run in (output, *iterate_runs(node, true.element, tree.get)):
        leaves, path = tree.open_run(*run)
        yield "run", run[0], len(leaves)
        if path:
            yield "sibling", run[0], sum(map(len, path))


# --- Data ---------------------------------------------------------------------------------------------------
def list_false_tokens(party: Party, step: KnownStep, is_label: bool) -> Iterator[FalseMove]:
    """Proofs about the last token, or label, of the batch."""
    buffer, other = (LABELS, TOKENS) if is_label else (TOKENS, LABELS)
    place = step.tree.program.buffers[buffer].size - 1
    true, dealt = open_buffer(step.tree, buffer, place, 1), open_token(party, step.dispute, place, is_label)
    wrong_leaf = replace(dealt, data=spoil(dealt.data))
    for name, expected, position, opening, leaf in (
        ("an honest one", "NoFault", place, true, dealt),
        ("no such position", "LeafUnknown", place + 1, true, dealt),
        ("a spoiled one", "LeafMismatch", place, spoil_leaves(true), dealt),
        ("an empty leaf", "WrongLeafBytes", place, replace(true, leaves=b""), dealt),
        ("a long leaf", "LeafMismatch", place, replace(true, leaves=true.leaves + bytes(4)), dealt),
        ("another buffer", "BufferMismatch", place, open_buffer(step.tree, other, place, 1), dealt),
        ("another claim", "BufferMismatch", place, open_buffer(step.foreign, buffer, place, 1), dealt),
        ("a constant", "BufferMismatch", place, open_constant(step.tree), dealt),
        ("a dataset of one's own", "LeafMismatch", place, true, wrong_leaf),
        ("a dataset elsewhere", "LeafMismatch", place, true, replace(dealt, path=spoil_path(dealt.path))),
    ):
        about = (step.dispute.dispute, step.facts, is_label, position, opening, leaf)
        kind = "label" if is_label else "token"
        yield FalseMove(f"{kind}: {name}", expected, partial(_prove_token, about))


def _prove_token(about: tuple[Any, ...], chain: Chain) -> Awaitable[Receipt]:
    return chain.dispute_game.prove_token(*about)


def open_constant(tree: TraceTree) -> BufferOpening:
    """An element of a constant: nobody's claim."""
    roles = [buffer.role for buffer in tree.program.buffers]
    return open_buffer(tree, roles.index(Role.CONSTANT), 0, 1)


def list_false_scalars(party: Party, step: KnownStep, which: int) -> Iterator[FalseMove]:
    """Proofs about one scalar."""
    true, leaf = open_buffer(step.tree, SCALARS, which, 1), open_scalars(party, step.start, which)
    later, stranger = open_scalars(party, step.end, which), open_buffer(step.following, SCALARS, which, 1)
    for name, expected, start, number, opening, proof in (
        ("an honest one", "NoFault", step.start, which, true, leaf),
        ("no such scalar", "LeafUnknown", step.start, SCALAR_COUNT, true, leaf),
        ("another state", "HeaderMismatch", step.end, which, true, later),
        ("that of the step after", "LeafMismatch", step.start, which, true, later),
        ("a trace of the step after", "BufferMismatch", step.start, which, stranger, leaf),
        ("a spoiled one", "LeafMismatch", step.start, which, spoil_leaves(true), leaf),
        ("a schedule of one's own", "LeafMismatch", step.start, which, true, replace(leaf, data=bytes(12))),
    ):
        about = (step.dispute.dispute, step.facts, start, number, opening, proof)
        yield FalseMove(f"scalar: {name}", expected, partial(_prove_scalar, about))


def _prove_scalar(about: tuple[Any, ...], chain: Chain) -> Awaitable[Receipt]:
    return chain.dispute_game.prove_scalar(*about)


# --- Demands and moves of others ----------------------------------------------------------------------------
def list_false_demands(step: KnownStep) -> Iterator[FalseMove]:
    """Demands of what no claimant owes."""
    number, place = find_constant(step.tree.program)
    node, buffer = step.tree.program.nodes[number], step.tree.program.nodes[number].output.buffer
    proof, size = prove_node(step.tree.program, number), step.tree.program.buffers[buffer].size
    beyond = -(-4 * size // leaf_bytes(step.tree.program, buffer))
    for name, expected, shown, at, leaf in (
        ("a constant", "ConstantDemanded", proof, place, 0),
        ("no such place", "PlaceUnknown", proof, len(node.operands) + 1, 0),
        ("no such leaf", "LeafUnknown", proof, 0, beyond),
        ("a spoiled node", "NodeMismatch", replace(proof, data=spoil(proof.data)), 0, 0),
    ):
        about = (step.dispute.dispute, step.facts, shown, at, leaf)
        yield FalseMove(f"demand: {name}", expected, partial(_demand, about))


def _demand(about: tuple[Any, ...], chain: Chain) -> Awaitable[Receipt]:
    return chain.dispute_game.demand_leaf(*about)


def find_constant(program: Program) -> tuple[int, int]:
    """A node and the place where it has a constant."""
    return next(
        (number, place)
        for number, node in enumerate(program.nodes)
        for place, access in enumerate(node.operands, start=1)
        if program.buffers[access.buffer].role is Role.CONSTANT
    )


def list_stolen_moves(step: KnownStep) -> Iterator[FalseMove]:
    """Moves that are another's, or not due."""
    dispute = step.dispute
    name, roots, opening = dispute.dispute, dispute.roots, open_buffer(step.tree, TOKENS, 0, 1)
    yield FalseMove("another step", "WrongStage", lambda chain: chain.dispute_game.name_step(name, 1, roots))
    yield FalseMove(
        "another's roots", "WrongStage", lambda chain: chain.dispute_game.post_step_roots(name, roots, ())
    )
    yield FalseMove(
        "another's answer",
        "NotClaimant",
        lambda chain: chain.dispute_game.answer_demand(name, 0, step.start, opening),
    )
    yield FalseMove("an early end", "ClockRunning", lambda chain: chain.dispute_game.timeout(name))
