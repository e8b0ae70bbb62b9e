"""What a claimant shows of its own steps, in a dispute and before one."""

import asyncio

from touchstone.node.kit.party import Party
from touchstone.node.kit.recompute_queue import AUDITS, QUESTIONS
from touchstone.node.kit.retention_windows import list_named
from touchstone.node.kit.states import has_state, keep_state
from touchstone.node.kit.trace_storage import describe_layout
from touchstone.node.kit.view import View
from touchstone.node.models.own_openings import list_own_boundaries
from touchstone.node.records.compute import TracedStep
from touchstone.node.training.segments import find_replay, iterate_states, restore_own_start
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, refer_state, refer_trace_tensor
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.spec.commitments import encode_state
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.program import get_constant_roots
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.whistleblower.known_statements import are_steps_shown, find_solver, get_now


def compute_place(view: View, slot: int, segment: int) -> int:
    """The number under which the steps of a segment of a slot's claim are asked for: an auditor may have
    replayed the same segment of several."""
    return slot * view.game.terms.segment_count + segment


async def show_steps(party: Party, dispute: InnerDispute) -> None:
    """Show the state after each step of a disputed segment from now on."""
    start = await restore_own_start(party, dispute)
    place, book = (dispute.statement.round, dispute.statement.slot), party.task.cases
    work = (keep_steps, party, place, dispute.segment, start)
    headers = await party.task.retraining.compute(AUDITS, *work)
    book.steps[*place, dispute.segment] = tuple(map(encode_state, headers))
    book.shown["steps", dispute.name] = list_keys(headers)


def show_trace(view: View, dispute: InnerDispute, traced: TracedStep) -> None:
    """Show a trace that is in the store, and the states around its step."""
    program = get_program(view.spec.training).program
    layout, constants = describe_layout(program), get_constant_roots(program)
    keys = {BlobKey(BlobKind.ROOTS, traced.tree.root)}
    for number, (root, buffer) in enumerate(zip(traced.tree.roots, layout, strict=True)):
        if number not in constants:
            keys.add(refer_trace_tensor(root, buffer.size_bytes, buffer.leaf_bytes).key)
    view.cases.shown["trace", dispute.name] = frozenset(keys) | list_keys([traced.start, traced.end])


def keep_steps(party: Party, place: tuple[int, int], segment: int, start: StateHeader) -> list[StateHeader]:
    """Keep all k + 1 states of a segment."""
    headers = []
    for state in iterate_states(party, place, segment, start):
        headers.append(keep_state(party, state))
    return headers


def list_keys(headers: list[StateHeader]) -> frozenset[BlobKey]:
    """The blobs of states."""
    return frozenset(ref.key for header in headers for ref in refer_state(header, 1))


def forget(party: Party, name: object) -> None:
    """Show something no more, and let go of what nothing else needs."""
    book = party.task.cases
    keys = book.shown.pop(name, frozenset())
    for key in keys - list_kept(party.view):
        party.store.delete(key)


def list_kept(view: View) -> frozenset[BlobKey]:
    """What a record names, all that is shown, and what audits under way have fetched or computed. What
    is named and settled goes by pruning."""
    book, shown = view.audits.book, view.cases.shown.values()
    return list_named(view.claims, book).union(*shown, *book.held.values())


def list_wanted(party: Party, block: int) -> list[tuple[int, int]]:
    """(round, place) of what was asked for and may be shown; all other requests are dropped."""
    handler, found = party.task.cases.step_requests, []
    for wanted in list(handler.wanted):
        task, index, place = wanted
        if task == party.task.task and find_own_start(party, index, place, block) is not None:
            found.append((index, place))
        else:
            handler.drop(wanted)
    return found


def find_own_start(party: Party, index: int, place: int, block: int) -> StateHeader | None:
    """The start of the segment at a place, where this node made a statement on it and its steps may be shown.
    None else, and where it is not on disk: for a question alone no round is trained again. What auditors may
    ask for before they dispute it stays as long as they need."""
    ref, segment = (
        _find_own_statement(party.view, index, place, block),
        place % party.game.terms.segment_count,
    )
    if ref is None:
        return None
    if ref.draw is None:
        start = list_own_boundaries(party.view, index).get(segment)
    else:
        start = find_replay(party.view, ref).start.header
    return start if start is not None and has_state(party, start) else None


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


async def show_wanted(party: Party, wanted: tuple[int, int]) -> None:
    """Recompute a segment that was asked for, (round, place), and show the state after each step from now on;
    of what others than auditors asked for only the last segments stay. While it waits its turn an auditor may
    come to ask for it too."""
    (index, place), book, retraining = wanted, party.task.cases, party.task.retraining
    asked = (party.task.task, index, place)
    slot, segment = divmod(place, party.game.terms.segment_count)
    async with retraining.take_turn(lambda: AUDITS if book.step_requests.is_urgent(asked) else QUESTIONS):
        start = find_own_start(party, index, place, party.state.head_block + 1)
        if start is None:
            return
        headers = await retraining.run(keep_steps, party, (index, slot), segment, start)
    states = tuple(map(encode_state, headers))
    book.shown["wanted", states] = list_keys(headers)
    for old in book.step_requests.offer(asked, states):
        await asyncio.to_thread(forget, party, ("wanted", old))
