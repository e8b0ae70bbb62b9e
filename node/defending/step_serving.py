"""What a claimant shows of its own steps, and how long an opponent waits for it.

    desk    member of the task, or opener of a dispute in it -> claimant    claimant ->
    steps   StepsAsked                                                      StepsShown: k + 1 states

    StepsAsked --> noted --> the segment, recomputed from its start --> StepsShown --> W, m, v by their roots

What an auditor of the segment asks for is computed beside the node's own claim, what another member asks for
between two claims. It is computed once for all of them: who asks later finds it at hand.

The asker checks the answer against the roots that the statement has, or that were posted. It then fetches W,
m and v by their roots. In a dispute the claimant recomputes the segment without being asked.

How long a claimant is waited for: until a block, however much of what it owes is on its way. A claimant that
shows its states slowly raises no fault for hours, and what its opponent must do in a dispute is due by a
block. So slow is what silent is: at that block the node gives up what still is on its way, and goes by what
it knows.

What this node itself computes meanwhile is not the claimant's to answer for. It is not cut off, and in the
judging of steps it moves the block.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, TypeVar

from msgspec import Meta

from touchstone.node.kit.party import Party, has_state, keep_state
from touchstone.node.kit.recompute_queue import AUDITS, QUESTIONS
from touchstone.node.kit.retention_windows import find_asked_until, find_supported_until, list_named
from touchstone.node.kit.stored_tensors import describe_layout
from touchstone.node.kit.view import View
from touchstone.node.models.claim_openings import list_own_boundaries
from touchstone.node.records.dispute_records import Asker, TracedStep
from touchstone.node.training.segments import find_replay, iterate_states, restore_own_start
from touchstone.protocol.adapters.messages import ClaimPath, Form, Message, Word
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, refer_state, refer_trace_tensor
from touchstone.protocol.adapters.wire.message_desk import Desk
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.spec.codec import STATE_BYTES, encode_state
from touchstone.protocol.spec.containers import StateHeader
from touchstone.protocol.spec.drawing import RANKS
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.auditing import get_ever_drawn
from touchstone.protocol.spec.game.fates import find_seat
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.state import GameRound, SeatRole, StatementRef
from touchstone.protocol.spec.program import get_constant_roots
from touchstone.whistleblower.known_statements import are_steps_shown, find_solver, get_inner, get_now

STEPS = "steps"
"""Name of the desk."""
ASK_BYTES = 1024
SHOW_BYTES = 96 * 1024
STATES_MAX = 256
"""k is at most 255: the contract keeps a step in a byte."""

Number = Annotated[int, Meta(ge=0, lt=1 << 32)]
State = Annotated[bytes, Meta(min_length=STATE_BYTES, max_length=STATE_BYTES)]


class StepsAsked(Message, frozen=True):
    """What are the states of this segment, of your claim or of your replay?"""

    task: Word
    round: Number
    slot: Number
    segment: Number


class StepsShown(Message, frozen=True):
    """The k + 1 states, as `encode_state` writes them. salts: of a replay the salt of its start, then those
    of all seals on the segment, in an exact task that of the claim's end too; path: of a replay that of its
    start in the claim's tree. They bind the states to a vote, and the vote to the claim."""

    states: Annotated[tuple[State, ...], Meta(max_length=STATES_MAX)]
    salts: Annotated[tuple[Word, ...], Meta(max_length=STATES_MAX)] = ()
    path: ClaimPath = ()


ASKED_FORM = Form(StepsAsked, ASK_BYTES, "a question for steps is malformed")
SHOWN_FORM = Form(StepsShown, SHOW_BYTES, "an answer about steps is malformed")


def compute_place(view: View, slot: int, segment: int) -> int:
    """The number under which the steps of a segment of a slot's claim are asked for: an auditor may have
    replayed the same segment of several."""
    return slot * view.game.terms.segment_count + segment


# --- In a dispute -------------------------------------------------------------------------------------------
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


# --- Before a dispute ---------------------------------------------------------------------------------------
def list_wanted(party: Party, block: int) -> list[tuple[int, int]]:
    """(round, place) of what was asked for and may be shown; all other requests are dropped."""
    desk, found = party.task.cases.desk, []
    for wanted in list(desk.wanted):
        task, index, place = wanted
        if task == party.task.task and find_own_start(party, index, place, block) is not None:
            found.append((index, place))
        else:
            desk.drop(wanted)
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
    async with retraining.take_turn(lambda: AUDITS if book.desk.is_urgent(asked) else QUESTIONS):
        start = find_own_start(party, index, place, party.state.head_block + 1)
        if start is None:
            return
        headers = await retraining.run(keep_steps, party, (index, slot), segment, start)
    states = tuple(map(encode_state, headers))
    book.shown["wanted", states] = list_keys(headers)
    for old in book.desk.offer(asked, states):
        await asyncio.to_thread(forget, party, ("wanted", old))


# --- To whom ------------------------------------------------------------------------------------------------
def make_desks(party: Party) -> dict[str, Desk]:
    """Who answers which messages of this room."""
    return {STEPS: Desk(ASK_BYTES, partial(answer_steps, party))}


def may_read(party: Party, account: str, kind: BlobKind, root: bytes) -> bool:
    """Whether a blob is shown because of a dispute, or of wanted steps."""
    if party.joined is None:
        return False
    return party.task.cases.may_read(account, kind, root, is_served(party.view, account))


def is_served(view: View, account: str) -> bool:
    """Whether steps are shown to an account: with a seat of this task, or an open dispute in it. A seat of
    another task may cost next to nothing, and each question the training of a segment."""
    opened = get_inner(view).disputes.values()
    return view.chain_state.is_member(account, view.task) or any(
        one.is_open and one.opener == account for one in opened
    )


def is_auditor(view: View, account: str, asked: StepsAsked) -> bool:
    """Whether an account was drawn for the segment in any rank, is the solver that trained it, or has a
    whistleblower's seat while the claim is convicted. For each only as long as it may have to judge the
    segment, which it does also in a round that is undone."""
    state, game_round = view.game, view.game.rounds.get(asked.round)
    if game_round is None or asked.slot not in game_round.claims:
        return False
    if _is_prosecutor(view, account, game_round, asked):
        return True
    until = find_asked_until(state, game_round, asked.slot, asked.segment)
    if until is None or view.head_block >= until:
        return False
    if find_solver(state, asked.round, asked.slot) == account:
        return True
    places = product(range(state.terms.draws + 1), range(RANKS))
    drawn = (get_ever_drawn(state, asked.round, asked.slot, *place) for place in places)
    return any(one and (one.seat.account, one.segment) == (account, asked.segment) for one in drawn)


def _is_prosecutor(view: View, account: str, game_round: GameRound, asked: StepsAsked) -> bool:
    """Whether a whistleblower may have to judge the vote of this node that stands by a convicted claim. What
    it is not shown it disputes, and the vote may be right: then its bond is lost."""
    seat = find_seat(view.game, account)
    if seat is None or seat.role != SeatRole.WHISTLEBLOWER:
        return False
    until = find_supported_until(view.game, game_round, asked.slot, asked.segment)
    return until is not None and view.head_block < until


def _look_at_news(party: Party, account: str) -> None:
    """Have the loop look at what the desk has just noted, once a block for each account. At each look all
    duties are listed, in the thread that serves."""
    desk = party.task.cases.desk
    if desk.is_news:
        party.task.retraining.look_again()
        if desk.wakes.take(account, party.state.head_block):
            party.wake()


def _show(view: View, asked: StepsAsked, states: tuple[bytes, ...]) -> StepsShown:
    """The answer with these states. Those of this node's own claim need nothing that binds them."""
    replays = list(view.audits.list_replays(asked.round))
    here = [one for one in replays if (one.ref.slot, one.segment) == (asked.slot, asked.segment)]
    if not here:
        return StepsShown(states)
    start, salts = here[0].start, [one.seal_salt for one in here]
    if view.game.terms.is_exact:
        salts += dict.fromkeys(one.claimed_end.salt for one in here if one.claimed_end is not None)
    return StepsShown(states, (start.salt, *salts), tuple(start.path))


async def answer_steps(party: Party, account: str, body: bytes) -> StepsShown:
    """The states of a segment of this node's own. Where they are not at hand they are noted, and computed if
    they may be shown. Raises EnvironmentFault until then, ProtocolFault for a malformed question."""
    asked = ASKED_FORM.decode(body, account)
    if party.joined is not None and asked.task == party.task.task and is_served(party.view, account):
        book, place = party.task.cases, compute_place(party.view, asked.slot, asked.segment)
        states = book.steps.get((asked.round, asked.slot, asked.segment))
        if states is not None:
            return _show(party.view, asked, states)
        asker = Asker(account, is_auditor(party.view, account, asked))
        found = book.desk.find(asker, asked.task, asked.round, place)
        if found is not None:
            pieces = range(0, len(found), STATE_BYTES)
            return _show(party.view, asked, tuple(found[at : at + STATE_BYTES] for at in pieces))
        _look_at_news(party, account)
    raise EnvironmentFault(
        what="the steps are not shown now",
        expected="a segment of this node that no auditor may copy any more",
        actual=f"round {asked.round}, slot {asked.slot}, segment {asked.segment}",
        remedy="Ask again: they may have to be computed.",
    )


# --- How long a claimant is waited for ----------------------------------------------------------------------
LOOK_S = 0.25
"""Between two looks at the chain. What is shown as fast counts at any block."""
NEVER = 1 << 62
"""A block that never comes."""

Shown = TypeVar("Shown")


async def wait_for(party: Party, until: int, asking: Awaitable[Shown]) -> Shown:
    """What the claimant shows. Raises EnvironmentFault where it has not shown it when the chain is at block
    `until`: then the asking has ended."""
    task = asyncio.ensure_future(asking)
    try:
        while True:
            await asyncio.wait({task}, timeout=LOOK_S)
            if task.done():
                return task.result()
            if party.state.head_block >= until:
                raise _make_slow(until)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@dataclass
class BlocksLeft:
    """Blocks that are left to wait for several things of one claimant, one after the other."""

    blocks: int

    async def wait(self, party: Party, until: int, asking: Awaitable[Shown]) -> Shown:
        """As `wait_for`, and no longer than blocks are left."""
        began = party.state.head_block
        try:
            return await wait_for(party, min(until, began + self.blocks), asking)
        finally:
            self.blocks = max(0, self.blocks - (party.state.head_block - began))


def _make_slow(until: int) -> EnvironmentFault:
    return EnvironmentFault(
        what="a claimant shows too slowly what it owes",
        expected=f"all of it before block {until}",
        actual="a part at most",
        remedy="Nothing: it counts as not shown.",
    )


def get_half_time(view: View, dispute: InnerDispute) -> int:
    """The block from which on the opener goes by what it knows: half of its turn is left."""
    return dispute.clock - view.game.terms.windows.respond // 2


def start_waiting(view: View, until: int) -> int:
    """`until`, but one block more than now at least: a node may have been down."""
    return max(until, view.head_block + 1)
