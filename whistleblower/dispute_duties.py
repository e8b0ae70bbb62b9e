"""What a node has to do in disputes, asks and evidence, by what lateness costs."""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from touchstone.node.defending import query_answers, step_serving
from touchstone.node.defending.dispute_answers import post_roots, post_trace, serve, show_leaves
from touchstone.node.kit.duty import Wait, find_round
from touchstone.node.kit.party import Party
from touchstone.node.kit.view import View
from touchstone.node.records.dispute_records import to_key
from touchstone.protocol.spec.game.calls import AskSigner, DisputeStatement, GameCall
from touchstone.protocol.spec.game.dispute_moves import Move, list_moves
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.timing import get_ask_until, get_statement_until
from touchstone.protocol.spec.game.upkeep_turns import find_turn
from touchstone.protocol.spec.statements import VoteWord
from touchstone.whistleblower import (
    case_judging,
    dispute_opening,
    prosecuting,
    queries,
    step_judging,
    votes_on_chain,
)
from touchstone.whistleblower.evidence import list_cases
from touchstone.whistleblower.judging_work import list_work_cases
from touchstone.whistleblower.known_statements import get_inner, get_now, list_provable_rounds

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


def _list_answers(party: Party, block: int) -> Iterator[DisputeDuty]:
    for dispute, moves in list_playable(party.view, block):
        if Move.POST_ROOTS in moves:
            yield _make("post roots", dispute.name, dispute, post_roots)
        if Move.POST_TRACE in moves:
            yield _make("post the trace", dispute.name, dispute, post_trace)
        if Move.SHOW_LEAVES in moves:
            yield _make("show leaves", dispute.name, dispute, show_leaves)
    for asked in query_answers.list_own_asked(party.view, block):
        yield _make("answer", asked.name, asked, query_answers.answer_own)
    for asked in query_answers.list_others_asked(party, block):
        yield _make("answer for another", asked.name, asked, query_answers.answer_others)


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


def _list_moves(view: View, block: int) -> Iterator[DisputeDuty]:
    searched = view.cases.searched
    for dispute, moves in list_playable(view, block):
        if Move.NAME_STEP in moves:
            yield _make("name a step", dispute.name, dispute, step_judging.name_step)
        if Move.PROVE in moves and dispute.name not in searched:
            yield _make("prosecute", (dispute.name, dispute.stage), dispute, prosecuting.prosecute)


def _list_openings(view: View, block: int) -> Iterator[DisputeDuty | Wait]:
    for unread in votes_on_chain.list_unread(view, block):
        yield _make("read votes", unread, unread, votes_on_chain.read_votes)
    for found in case_judging.list_unjudged(view, block):
        yield _make("judge steps", found.sentence, found, case_judging.judge_case)
    for case in dispute_opening.list_unopened(view, block):
        duty, ref = _make("dispute", case.salt, case, dispute_opening.open_case), to_key(case).ref
        until = get_statement_until(get_now(view), ref) - case_judging.OPENING_BLOCKS
        yield _take_turn(view, DisputeStatement(ref, 0), until, block, duty)
    for doubt in queries.list_open_queries(view, block):
        duty = _make("ask", doubt, doubt, queries.ask)
        last = get_ask_until(get_now(view), doubt.statement) or block
        call = AskSigner(doubt.statement, VoteWord.ACCEPT, doubt.leaf, 0)
        yield _take_turn(view, call, last - case_judging.OPENING_BLOCKS, block, duty)


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
