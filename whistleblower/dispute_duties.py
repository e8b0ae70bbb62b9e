"""What a node has to do in disputes, asks and evidence, by what lateness costs; and answering.

Answers come first: silence costs the seat. Then come the moves of disputes that this node opened, and what it
serves to peers. Last comes what no clock waits for: reading votes, suspicions, new disputes, asks, proofs in
one transaction. Upkeep ends games whose clock has run out.

In a dispute on its claim or vote a node recomputes, traces the named step and shows what is demanded. What it
posts follows from the journal and the task alone, so a killed node says the same again. While the
dispute is open, the node serves everything that a challenger may look at.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from touchstone.node.defending import step_serving
from touchstone.node.defending.step_serving import show_steps, show_trace
from touchstone.node.kit.party import Party, Wait, find_round, keep_state
from touchstone.node.kit.stored_tensors import TraceKeeper, describe_layout, load_buffer
from touchstone.node.kit.view import View
from touchstone.node.models.claim_openings import open_boundary
from touchstone.node.records.dispute_records import TracedStep, to_sentence
from touchstone.node.training.segments import (
    compute_roots,
    compute_state,
    find_replay,
    get_batches,
    restore_own_start,
)
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.bounds.fault import open_demanded, prove_outputs
from touchstone.protocol.compute.bounds.trace import TraceTree
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step_facts import compute_step_facts
from touchstone.protocol.spec.codec import compute_state_root
from touchstone.protocol.spec.containers import BufferOpening, StateHeader
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.calls import AskSigner, DisputeStatement, GameCall
from touchstone.protocol.spec.game.inner_dispute import DemandedLeaf, InnerDispute, Move, list_moves
from touchstone.protocol.spec.game.state import SeatStatus
from touchstone.protocol.spec.game.timing import get_ask_until, get_statement_until
from touchstone.protocol.spec.game.upkeep import find_turn
from touchstone.protocol.spec.program import get_constant_roots
from touchstone.protocol.spec.statements import VoteWord
from touchstone.whistleblower import dispute_opening, judging_work, prosecuting, queries, step_judging
from touchstone.whistleblower.evidence import list_cases
from touchstone.whistleblower.judging_work import list_work_cases
from touchstone.whistleblower.known_statements import find_solver, get_inner, get_now, list_provable_rounds

# --- Duties -------------------------------------------------------------------------------------------------
Perform = Callable[[Party], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class DisputeDuty:
    """One thing to do. what: names it; about: which one it is; round: to which it belongs."""

    what: str
    about: object
    act: Perform = field(compare=False, repr=False)
    round: int | None = field(default=None, compare=False, repr=False)

    @property
    def title(self) -> str:
        """As of `name_duty`."""
        return self.what.title().replace(" ", "")

    async def perform(self, party: Party) -> None:
        """Do it. Raises as every duty does."""
        await self.act(party)


def list_duties(party: Party, block: int) -> Iterator[DisputeDuty | Wait]:
    """What is due in `block`."""
    yield from _list_answers(party, block)
    yield from _list_moves(party.view, block)
    yield from _list_served(party, block)
    yield from _list_openings(party.view, block)
    yield from _list_proofs(party, block)


# --- As the accused -----------------------------------------------------------------------------------------
def _list_answers(party: Party, block: int) -> Iterator[DisputeDuty]:
    for dispute, moves in list_playable(party.view, block):
        if Move.POST_ROOTS in moves:
            yield _make("post roots", dispute.name, dispute, post_roots)
        if Move.POST_TRACE in moves:
            yield _make("post the trace", dispute.name, dispute, post_trace)
        if Move.SHOW_LEAVES in moves:
            yield _make("show leaves", dispute.name, dispute, show_leaves)
    for asked in queries.list_own_asked(party.view, block):
        yield _make("answer", asked.name, asked, queries.answer_own)
    for asked in queries.list_others_asked(party, block):
        yield _make("answer for another", asked.name, asked, queries.answer_others)


def _list_served(party: Party, block: int) -> Iterator[DisputeDuty]:
    shown = party.task.cases.shown
    for dispute in get_inner(party.view).disputes.values():
        kinds = [kind for kind in ("steps", "trace") if (kind, dispute.name) in shown]
        if not dispute.is_open:
            for kind in kinds:
                yield _make("forget", (kind, dispute.name), (kind, dispute.name), _forget)
        elif dispute.roots and find_claimant(party.view, dispute) == party.account:
            is_traced = dispute.trace is None or "trace" in kinds
            if "steps" not in kinds or not is_traced:
                yield _make("serve", (dispute.name, dispute.stage), dispute, serve)
    for wanted in step_serving.list_wanted(party, block):
        yield _make("show steps", wanted, wanted, step_serving.show_wanted)


async def _forget(party: Party, name: tuple[str, bytes]) -> None:
    """Two disputes may be about one segment, whose states then stay with the other one."""
    step_serving.forget(party, name)
    book, disputes = party.task.cases, get_inner(party.view).disputes
    book.traces.pop(name[1], None)
    place = _get_place(disputes[name[1]])
    if not any(_get_place(one) == place for one in disputes.values() if ("steps", one.name) in book.shown):
        book.steps.pop(place, None)


def _get_place(dispute: InnerDispute) -> tuple[int, int, int]:
    return dispute.statement.round, dispute.statement.slot, dispute.segment


# --- As the opener ------------------------------------------------------------------------------------------
def _list_moves(view: View, block: int) -> Iterator[DisputeDuty]:
    searched = view.cases.searched
    for dispute, moves in list_playable(view, block):
        if Move.NAME_STEP in moves:
            yield _make("name a step", dispute.name, dispute, step_judging.name_step)
        if Move.PROVE in moves and dispute.name not in searched:
            yield _make("prosecute", (dispute.name, dispute.stage), dispute, prosecuting.prosecute)


# --- What no clock waits for --------------------------------------------------------------------------------
def _list_openings(view: View, block: int) -> Iterator[DisputeDuty | Wait]:
    for unread in judging_work.list_unread(view, block):
        yield _make("read votes", unread, unread, judging_work.read_votes)
    for found in dispute_opening.list_unjudged(view, block):
        yield _make("judge steps", found.sentence, found, dispute_opening.judge_case)
    for case in dispute_opening.list_unopened(view, block):
        duty, ref = _make("dispute", case.salt, case, dispute_opening.open_case), to_sentence(case).ref
        until = get_statement_until(get_now(view), ref) - dispute_opening.OPENING_BLOCKS
        yield _take_turn(view, DisputeStatement(ref, 0), until, block, duty)
    for doubt in queries.list_doubts(view, block):
        duty = _make("ask", doubt, doubt, queries.ask)
        last = get_ask_until(get_now(view), doubt.statement) or block
        call = AskSigner(doubt.statement, VoteWord.ACCEPT, doubt.leaf, 0)
        yield _take_turn(view, call, last - dispute_opening.OPENING_BLOCKS, block, duty)


def _take_turn(view: View, call: GameCall, until: int, block: int, duty: DisputeDuty) -> DisputeDuty | Wait:
    """The duty when it is this node's turn, or time is short. Several nodes know the same fault, so the turn
    to open it first goes round with the blocks."""
    turn = find_turn(get_now(view), view.account, call, block)
    return duty if turn <= block or block >= until else Wait(min(turn, until))


def _list_proofs(party: Party, block: int) -> Iterator[DisputeDuty]:
    """Each is tried as often as the loop likes: a refusal tells that it does not hold, or came too late."""
    for game_round in list_provable_rounds(get_now(party.view), block):
        for listing in (list_cases, list_work_cases):
            for case in listing(party, game_round, block):
                yield DisputeDuty("prove", case.name, case.prove, game_round.index)


# --- Helpers ------------------------------------------------------------------------------------------------
def list_playable(view: View, block: int) -> Iterator[tuple[InnerDispute, tuple[Move, ...]]]:
    """Open disputes and what this node may do in them."""
    for dispute in get_inner(view).disputes.values():
        seat = get_now(view).seats.get(dispute.seat)
        if dispute.is_open and seat is not None:
            is_closed = seat.status == SeatStatus.CLOSED
            yield dispute, list_moves(dispute, view.account, seat.account, block, is_closed)


def find_claimant(view: View, dispute: InnerDispute) -> str | None:
    """The account of the accused seat."""
    seat = get_now(view).seats.get(dispute.seat)
    return None if seat is None else seat.account


def _make(what: str, about: object, subject: Any, act: Callable[[Party, Any], Any]) -> DisputeDuty:
    return DisputeDuty(what, about, lambda party: act(party, subject), find_round(subject))


# --- Answering a dispute ------------------------------------------------------------------------------------
async def post_roots(party: Party, dispute: InnerDispute) -> None:
    """Post the root of each step's state, start and end included, as the statement binds them."""
    place = (dispute.statement.round, dispute.statement.slot)
    start = await restore_own_start(party, dispute)
    work = (compute_roots, party, place, dispute.segment, start)
    roots = await party.task.retraining.compute(dispute.clock, *work)
    if dispute.statement.draw is None:
        await _post_claim_roots(party, dispute, roots)
    else:
        await _post_vote_roots(party, dispute, roots)


async def _post_claim_roots(party: Party, dispute: InnerDispute, roots: tuple[bytes, ...]) -> None:
    first = dispute.segment
    ends = [open_boundary(party.view, dispute.statement.round, boundary) for boundary in (first, first + 1)]
    require_end(ends[1].header, roots[-1])
    await party.chain.disputes.post_claim_roots(party.task.task, dispute.name, roots, *ends)


async def _post_vote_roots(party: Party, dispute: InnerDispute, roots: tuple[bytes, ...]) -> None:
    """The start's opening is the one that the solver has shown before this node sealed, the end's the one
    that it has shown for the seal. A REJECT_START says nothing of the end: the contract opens none, and takes
    whatever stands there."""
    ref, replay = dispute.statement, find_replay(party.view, dispute.statement)
    require_end(replay.own_end, roots[-1])
    solver = find_solver(get_now(party.view), ref.round, ref.slot)
    ends = (solver, replay.start, replay.claimed_end or replay.start, replay.seal_salt)
    await party.chain.disputes.post_vote_roots(party.task.task, dispute.name, roots, *ends)


def require_end(end: StateHeader, root: bytes) -> None:
    """Raises EnvironmentFault where a recomputed segment ends elsewhere than the statement says."""
    if compute_state_root(end) != root:
        raise EnvironmentFault(
            what="this machine computes other bits than when it made the statement that is disputed",
            expected=compute_state_root(end).hex(),
            actual=root.hex(),
            remedy="Bring back the versions of torch and of the drivers that the statement was made with.",
        )


async def post_trace(party: Party, dispute: InnerDispute) -> None:
    """Run the named step again, keep all of it to be served, and post the root of its trace."""
    traced = await trace_named_step(party, dispute)
    facts = await asyncio.to_thread(compute_step_facts, party.task.spec)
    proof = await asyncio.to_thread(prove_outputs, traced.tree)
    ends = (traced.tree.root, traced.start, traced.end)
    await party.chain.disputes.post_trace(party.task.task, dispute.name, facts, *ends, proof)


async def show_leaves(party: Party, dispute: InnerDispute) -> None:
    """Show the demanded leaves that are not shown yet."""
    traced = await trace_named_step(party, dispute)
    demands = dispute.demands[len(dispute.shown) :]
    work = (_open_leaves, party.store, traced.tree, demands)
    openings = await party.task.retraining.compute(dispute.clock, *work)
    await party.chain.disputes.show_leaves(party.task.task, dispute.name, traced.start, openings)


def _open_leaves(store: BlobStore, tree: TraceTree, demands: Sequence[DemandedLeaf]) -> list[BufferOpening]:
    """Open leaves of a kept trace. The step is run again only for a buffer that is lost or damaged."""
    layout, constants = describe_layout(tree.program), get_constant_roots(tree.program)

    def load(buffer: int) -> Tensor:
        """Constants are the program's own: no trace keeps them."""
        if buffer in constants:
            return tree.get(buffer)
        try:
            return load_buffer(store, tree.roots[buffer], layout[buffer])
        except (InvalidInput, EnvironmentFault):
            return tree.get(buffer)

    kept = replace(tree, get=load)
    return [open_demanded(kept, one.node, one.place, one.leaf_index) for one in demands]


async def serve(party: Party, dispute: InnerDispute) -> None:
    """Show the states of all steps of a disputed segment, and the trace of the named one, from now on."""
    if dispute.trace is not None:
        await trace_named_step(party, dispute)
    await show_steps(party, dispute)


async def trace_named_step(party: Party, dispute: InnerDispute) -> TracedStep:
    """The trace of the named step as this node computes it, once for each dispute."""
    book, name = party.task.cases, dispute.name
    async with party.task.locks["trace", name]:
        if name not in book.traces:
            start = await restore_own_start(party, dispute)
            traced = await party.task.retraining.compute(dispute.clock, _trace, party, dispute, start)
            book.traces[name] = traced
            show_trace(party.view, dispute, book.traces[name])
        return book.traces[name]


def _trace(party: Party, dispute: InnerDispute, start: StateHeader) -> TracedStep:
    assert dispute.step is not None
    spec, place = party.task.spec, (dispute.statement.round, dispute.statement.slot)
    before = compute_state(party, place, dispute.segment, start, dispute.step)
    inner_step = dispute.segment * spec.terms.segment_steps + dispute.step
    program = get_program(spec.training).program
    keeper = TraceKeeper(party.store, describe_layout(program), get_constant_roots(program))
    run = party.task.cases.compute.retrace
    tree, end = run(before, spec.training, get_batches(party, *place), inner_step, keeper.keep)
    keeper.finish()
    return TracedStep(tree, keep_state(party, before), keep_state(party, end))
