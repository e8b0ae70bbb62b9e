"""Shows the steps that a claimant has computed, in a dispute and before one."""

import asyncio
from dataclasses import dataclass

from touchstone.node.kit.known_statements import are_steps_shown, find_solver, get_inner, get_now
from touchstone.node.kit.recompute_queue import AUDITS, QUESTIONS, RecomputeQueue
from touchstone.node.kit.retention_windows import list_in_use, list_named
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.trace_storage import describe_layout
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.own_openings import list_own_boundaries
from touchstone.node.records.compute import TracedStep
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.training.segments import Segments, find_replay
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, refer_state, refer_trace_tensor
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.spec.commitments import encode_state
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.program import get_constant_roots
from touchstone.protocol.spec.state_headers import StateHeader


def compute_place(view: View, slot: int, segment: int) -> int:
    """Returns the number under which others ask for the steps of a segment. It has the claim's slot, because
    an auditor may have replayed the same segment of several claims."""
    return slot * view.game.terms.segment_count + segment


@dataclass(frozen=True)
class StepServing:
    """Shows the states of steps of this node's segments, and deletes them when nobody needs them."""

    get_view: GetView
    store: BlobStore
    states: StateStore
    cases: DisputeRecords
    recompute_queue: RecomputeQueue
    segments: Segments

    async def show_steps(self, dispute: InnerDispute) -> None:
        """Shows the state after each step of a disputed segment from now on."""
        start = await self.segments.restore_own_start(dispute)
        place, book = (dispute.statement.round, dispute.statement.slot), self.cases
        work = (self.keep_steps, place, dispute.segment, start)
        headers = await self.recompute_queue.compute(AUDITS, *work)
        book.steps[*place, dispute.segment] = tuple(map(encode_state, headers))
        book.shown["steps", dispute.name] = list_keys(headers)

    def keep_steps(self, place: tuple[int, int], segment: int, start: StateHeader) -> list[StateHeader]:
        """Keeps all k + 1 states of a segment."""
        headers = []
        for state in self.segments.iterate_states(place, segment, start):
            headers.append(self.states.keep(state))
        return headers

    def forget(self, name: object) -> None:
        """Stops showing a thing, and deletes the blobs that nothing else needs."""
        book = self.cases
        keys = book.shown.pop(name, frozenset())
        for key in keys - list_spared(self.get_view()):
            self.store.delete(key)

    def forget_dispute(self, kind: str, name: bytes) -> None:
        """Stops showing the steps or the trace of a dispute. If another dispute is about the same segment,
        the states stay for it."""
        self.forget((kind, name))
        book, disputes = self.cases, get_inner(self.get_view()).disputes
        book.traces.pop(name, None)
        place = _get_place(disputes[name])
        if not any(
            _get_place(one) == place for one in disputes.values() if ("steps", one.name) in book.shown
        ):
            book.steps.pop(place, None)

    async def show_wanted(self, wanted: tuple[int, int]) -> None:
        """Recomputes a requested segment, given as (round, place), and shows the state after each step from
        now on. Of the segments that only non-auditors asked for, it keeps the latest. While this one waits
        for its turn, an auditor may ask for it too."""
        (index, place), book, recompute_queue = wanted, self.cases, self.recompute_queue
        asked = (self.get_view().task, index, place)
        slot, segment = divmod(place, self.get_view().game.terms.segment_count)
        async with recompute_queue.take_turn(
            lambda: AUDITS if book.step_requests.is_urgent(asked) else QUESTIONS
        ):
            start = find_own_start(self.get_view(), index, place, self.get_view().head_block + 1)
            if start is None:
                return
            headers = await recompute_queue.run(self.keep_steps, (index, slot), segment, start)
        states = tuple(map(encode_state, headers))
        book.shown["wanted", states] = list_keys(headers)
        for old in book.step_requests.offer(asked, states):
            await asyncio.to_thread(self.forget, ("wanted", old))


def show_trace(view: View, dispute: InnerDispute, traced: TracedStep) -> None:
    """Shows a trace that is in the store, and the states around its step."""
    program = get_program(view.spec.training).program
    layout, constants = describe_layout(program), get_constant_roots(program)
    keys = {BlobKey(BlobKind.ROOTS, traced.tree.root)}
    for number, (root, buffer) in enumerate(zip(traced.tree.roots, layout, strict=True)):
        if number not in constants:
            keys.add(refer_trace_tensor(root, buffer.size_bytes, buffer.leaf_bytes).key)
    view.cases.shown["trace", dispute.name] = frozenset(keys) | list_keys([traced.start, traced.end])


def list_keys(headers: list[StateHeader]) -> frozenset[BlobKey]:
    """Returns the keys of the blobs of these states."""
    return frozenset(ref.key for header in headers for ref in refer_state(header, 1))


def _get_place(dispute: InnerDispute) -> tuple[int, int, int]:
    return dispute.statement.round, dispute.statement.slot, dispute.segment


def list_spared(view: View) -> frozenset[BlobKey]:
    """Returns the blobs that stay when something is no longer shown or read: those in use, and those that a
    record names and pruning has not reached."""
    book = view.audits.book
    return list_named(view.claims, book).union(list_in_use(view.cases, book))


def list_wanted(view: View, block: int) -> list[tuple[int, int]]:
    """Returns (round, place) of each request that may be served, and drops all other requests."""
    handler, found = view.cases.step_requests, []
    for wanted in list(handler.wanted):
        task, index, place = wanted
        if task == view.task and find_own_start(view, index, place, block) is not None:
            found.append((index, place))
        else:
            handler.drop(wanted)
    return found


def find_own_start(view: View, index: int, place: int, block: int) -> StateHeader | None:
    """Returns the start of the segment at a place, if this node made a statement on it whose steps may be
    shown. Returns None otherwise, or if the start is not on disk, because a question alone makes no node
    train a round again. Pruning keeps the starts that auditors may ask for."""
    ref, segment = (
        _find_own_statement(view, index, place, block),
        place % view.game.terms.segment_count,
    )
    if ref is None:
        return None
    if ref.draw is None:
        start = list_own_boundaries(view, index).get(segment)
    else:
        start = find_replay(view, ref).start.header
    return start if start is not None and view.stored.has(start) else None


def _find_own_statement(view: View, index: int, place: int, block: int) -> StatementRef | None:
    slot, segment = divmod(place, view.game.terms.segment_count)
    game_round, seat = get_now(view).rounds.get(index), find_seat(get_now(view), view.account)
    if game_round is None or seat is None or seat.settled > index or slot not in game_round.claims:
        return None
    if not are_steps_shown(get_now(view), game_round, slot, segment, block):
        return None
    if find_solver(get_now(view), index, slot) == view.account:
        return StatementRef(index, slot)
    replays = view.audits.list_replays(index)
    return next((one.ref for one in replays if (one.ref.slot, one.segment) == (slot, segment)), None)
