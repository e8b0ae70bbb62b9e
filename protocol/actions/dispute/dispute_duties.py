"""What a node has to do in disputes, asks and evidence, in the order of what lateness costs.

Answers come first: silence costs the seat. Then come the moves of disputes that this node opened, and what
it serves to peers. Last comes what no clock waits for: reading votes, suspicions, new disputes, asks, proofs
in one transaction. Upkeep ends games whose clock has run out.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from protocol.actions.dispute import (
    answering,
    asking,
    dispute_opening,
    judging_work,
    prosecuting,
    step_judging,
    step_serving,
)
from protocol.actions.dispute.casebook import to_sentence
from protocol.actions.dispute.evidence import list_cases
from protocol.actions.dispute.judging_work import list_work_cases
from protocol.actions.dispute.known_statements import get_inner, get_now, list_provable_rounds
from protocol.actions.runtime.party import Party, Wait
from protocol.spec.game.calls import AskSigner, DisputeStatement, GameCall
from protocol.spec.game.inner_dispute import InnerDispute, Move, list_moves
from protocol.spec.game.state import SeatStatus
from protocol.spec.game.timing import get_ask_until, get_statement_until
from protocol.spec.game.upkeep import find_turn
from protocol.spec.statements import VoteWord

Perform = Callable[[Party], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class DisputeDuty:
    """One thing to do. what: names it; about: which one it is."""

    what: str
    about: object
    act: Perform = field(compare=False, repr=False)

    async def perform(self, party: Party) -> None:
        """Do it. Raises as every duty does."""
        await self.act(party)


def list_duties(party: Party, block: int) -> Iterator[DisputeDuty | Wait]:
    """What is due in `block`."""
    yield from _list_answers(party, block)
    yield from _list_moves(party, block)
    yield from _list_served(party, block)
    yield from _list_openings(party, block)
    yield from _list_proofs(party, block)


# --- As the accused -----------------------------------------------------------------------------------------
def _list_answers(party: Party, block: int) -> Iterator[DisputeDuty]:
    for dispute, moves in list_playable(party, block):
        if Move.POST_ROOTS in moves:
            yield _make("post roots", dispute.name, dispute, answering.post_roots)
        if Move.POST_TRACE in moves:
            yield _make("post the trace", dispute.name, dispute, answering.post_trace)
        if Move.SHOW_LEAVES in moves:
            yield _make("show leaves", dispute.name, dispute, answering.show_leaves)
    for asked in asking.list_own_asked(party, block):
        yield _make("answer", asked.name, asked, asking.answer_own)
    for asked in asking.list_others_asked(party, block):
        yield _make("answer for another", asked.name, asked, asking.answer_others)


def _list_served(party: Party, block: int) -> Iterator[DisputeDuty]:
    shown = party.task.cases.shown
    for dispute in get_inner(party).disputes.values():
        kinds = [kind for kind in ("steps", "trace") if (kind, dispute.name) in shown]
        if not dispute.is_open:
            for kind in kinds:
                yield _make("forget", (kind, dispute.name), (kind, dispute.name), _forget)
        elif dispute.roots and find_claimant(party, dispute) == party.account:
            is_traced = dispute.trace is None or "trace" in kinds
            if "steps" not in kinds or not is_traced:
                yield _make("serve", (dispute.name, dispute.stage), dispute, answering.serve)
    for wanted in step_serving.list_wanted(party, block):
        yield _make("show steps", wanted, wanted, step_serving.show_wanted)


async def _forget(party: Party, name: tuple[str, bytes]) -> None:
    """Two disputes may be about one segment, whose states then stay with the other one."""
    step_serving.forget(party, name)
    book, disputes = party.task.cases, get_inner(party).disputes
    book.traces.pop(name[1], None)
    place = _get_place(disputes[name[1]])
    if not any(_get_place(one) == place for one in disputes.values() if ("steps", one.name) in book.shown):
        book.steps.pop(place, None)


def _get_place(dispute: InnerDispute) -> tuple[int, int, int]:
    return dispute.statement.round, dispute.statement.slot, dispute.segment


# --- As the opener ------------------------------------------------------------------------------------------
def _list_moves(party: Party, block: int) -> Iterator[DisputeDuty]:
    searched = party.task.cases.searched
    for dispute, moves in list_playable(party, block):
        if Move.NAME_STEP in moves:
            yield _make("name a step", dispute.name, dispute, step_judging.name_step)
        if Move.PROVE in moves and dispute.name not in searched:
            yield _make("prosecute", (dispute.name, dispute.stage), dispute, prosecuting.prosecute)


# --- What no clock waits for --------------------------------------------------------------------------------
def _list_openings(party: Party, block: int) -> Iterator[DisputeDuty | Wait]:
    for unread in judging_work.list_unread(party, block):
        yield _make("read votes", unread, unread, judging_work.read_votes)
    for found in dispute_opening.list_unjudged(party, block):
        yield _make("judge steps", found.sentence, found, dispute_opening.judge_case)
    for case in dispute_opening.list_unopened(party, block):
        duty, ref = _make("dispute", case.salt, case, dispute_opening.open_case), to_sentence(case).ref
        until = get_statement_until(get_now(party), ref) - dispute_opening.OPENING_BLOCKS
        yield _take_turn(party, DisputeStatement(ref, 0), until, block, duty)
    for doubt in asking.list_doubts(party, block):
        duty = _make("ask", doubt, doubt, asking.ask)
        last = get_ask_until(get_now(party), doubt.statement) or block
        call = AskSigner(doubt.statement, VoteWord.ACCEPT, doubt.leaf, 0)
        yield _take_turn(party, call, last - dispute_opening.OPENING_BLOCKS, block, duty)


def _take_turn(party: Party, call: GameCall, until: int, block: int, duty: DisputeDuty) -> DisputeDuty | Wait:
    """The duty when it is this node's turn, or time is short. Several nodes know the same fault, so the turn
    to open it first goes round with the blocks."""
    turn = find_turn(get_now(party), party.account, call, block)
    return duty if turn <= block or block >= until else Wait(min(turn, until))


def _list_proofs(party: Party, block: int) -> Iterator[DisputeDuty]:
    """Each is tried as often as the loop likes: a refusal tells that it does not hold, or came too late."""
    for game_round in list_provable_rounds(get_now(party), block):
        for listing in (list_cases, list_work_cases):
            for case in listing(party, game_round, block):
                yield DisputeDuty("prove", case.name, case.prove)


# --- Helpers ------------------------------------------------------------------------------------------------
def list_playable(party: Party, block: int) -> Iterator[tuple[InnerDispute, tuple[Move, ...]]]:
    """Open disputes and what this node may do in them."""
    for dispute in get_inner(party).disputes.values():
        seat = get_now(party).seats.get(dispute.seat)
        if dispute.is_open and seat is not None:
            is_closed = seat.status == SeatStatus.CLOSED
            yield dispute, list_moves(dispute, party.account, seat.account, block, is_closed)


def find_claimant(party: Party, dispute: InnerDispute) -> str | None:
    """The account of the accused seat."""
    seat = get_now(party).seats.get(dispute.seat)
    return None if seat is None else seat.account


def _make(what: str, about: object, subject: Any, act: Callable[[Party, Any], Any]) -> DisputeDuty:
    return DisputeDuty(what, about, lambda party: act(party, subject))
