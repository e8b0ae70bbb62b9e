"""Answers requests for the states of a segment's steps, and says who may ask."""

from dataclasses import dataclass
from itertools import product
from typing import Annotated

from msgspec import Meta

from touchstone.node.defending.step_serving import compute_place
from touchstone.node.kit.known_statements import find_solver, get_inner
from touchstone.node.kit.loop_signals import NotifyLoop
from touchstone.node.kit.recompute_queue import RecomputeQueue
from touchstone.node.kit.retention_windows import find_asked_until, find_supported_until
from touchstone.node.kit.view import GetView, View
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.wanted_steps import Asker
from touchstone.protocol.adapters.messages import ClaimPath, Form, Message, Word
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.commitments import STATE_BYTES
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.drawn_audits import get_ever_drawn
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameRound

STEPS = "steps"
"""The name of the request handler."""


ASK_BYTES = 1024


SHOW_BYTES = 96 * 1024


STATES_MAX = 256
"""k + 1 states, where k is at most 255, because the contract keeps a step in a byte."""


Number = Annotated[int, Meta(ge=0, lt=1 << 32)]


State = Annotated[bytes, Meta(min_length=STATE_BYTES, max_length=STATE_BYTES)]


class StepsAsked(Message, frozen=True):
    """Asks for the states of a segment of the receiver's own claim or own replay."""

    task: Word
    round: Number
    slot: Number
    segment: Number


class StepsShown(Message, frozen=True):
    """The k + 1 states, as `encode_state` writes them. `salts` and `path` tie a replay's states to its vote,
    and the vote to the claim; they are empty for a claim. `salts` are those of the start and of all seals on
    the segment, and in an exact task of the claim's end. `path` leads from the start to the claim's root."""

    states: Annotated[tuple[State, ...], Meta(max_length=STATES_MAX)]
    salts: Annotated[tuple[Word, ...], Meta(max_length=STATES_MAX)] = ()
    path: ClaimPath = ()


ASKED_FORM = Form(StepsAsked, ASK_BYTES, "a request for steps is malformed")


SHOWN_FORM = Form(StepsShown, SHOW_BYTES, "an answer about steps is malformed")


@dataclass(frozen=True)
class StepAnswers:
    """Answers requests for the steps of this node's own segments."""

    get_view: GetView
    cases: DisputeRecords
    recompute_queue: RecomputeQueue
    notify_loop: NotifyLoop

    def _look_at_news(self, account: str) -> None:
        """Makes the loop look at what the handler has just noted, at most once a block for each account. More
        often would slow the server, because each look lists all duties in its thread."""
        handler = self.cases.step_requests
        if handler.is_news:
            self.recompute_queue.look_again()
            if handler.notices.take(account, self.get_view().head_block):
                self.notify_loop()

    async def answer_steps(self, account: str, body: bytes) -> StepsShown:
        """Returns the states of a segment of this node. If they are not in the store, notes the request, and
        they are computed if they may be shown. Raises EnvironmentFault until then, ProtocolFault for a
        malformed question."""
        view = self.get_view()
        asked = ASKED_FORM.decode(body, account)
        if asked.task == view.task and is_served(view, account):
            book, place = self.cases, compute_place(view, asked.slot, asked.segment)
            states = book.steps.get((asked.round, asked.slot, asked.segment))
            if states is not None:
                return _show(view, asked, states)
            asker = Asker(account, is_auditor(view, account, asked))
            found = book.step_requests.find(asker, asked.task, asked.round, place)
            if found is not None:
                pieces = range(0, len(found), STATE_BYTES)
                return _show(view, asked, tuple(found[at : at + STATE_BYTES] for at in pieces))
            self._look_at_news(account)
        raise EnvironmentFault(
            what="the steps are not shown now",
            expected="a segment of this node whose steps no auditor can copy any more",
            actual=f"round {asked.round}, slot {asked.slot}, segment {asked.segment}",
            remedy="Ask again: they may have to be computed.",
        )


def may_read(view: View, account: str, kind: BlobKind, root: bytes) -> bool:
    """Returns whether a blob may be read because a dispute or a request needs it."""
    return view.cases.may_read(account, kind, root, is_served(view, account))


def is_served(view: View, account: str) -> bool:
    """Returns whether steps are shown to an account: it needs a seat of this task, or an open dispute in it.
    A seat of another task may cost next to nothing, and each question may cost the training of a segment."""
    opened = get_inner(view).disputes.values()
    return view.chain_state.is_member(account, view.task) or any(
        one.is_open and one.opener == account for one in opened
    )


def is_auditor(view: View, account: str, asked: StepsAsked) -> bool:
    """Returns whether an account may have to judge the segment now. It may if it was drawn for the segment in
    any rank, if it trained the segment, or if it is a whistleblower and the claim is convicted. An undone
    round counts too."""
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
    """Returns whether a whistleblower may have to judge this node's vote for a convicted claim. If it were
    shown no steps, it would dispute the vote; if the vote is right, it would lose its bond."""
    seat = find_seat(view.game, account)
    if seat is None or seat.role != SeatRole.WHISTLEBLOWER:
        return False
    until = find_supported_until(view.game, game_round, asked.slot, asked.segment)
    return until is not None and view.head_block < until


def _show(view: View, asked: StepsAsked, states: tuple[bytes, ...]) -> StepsShown:
    """Returns the answer with these states. States of this node's own claim need no salts and no path."""
    replays = list(view.audits.list_replays(asked.round))
    here = [one for one in replays if (one.ref.slot, one.segment) == (asked.slot, asked.segment)]
    if not here:
        return StepsShown(states)
    start, salts = here[0].start, [one.seal_salt for one in here]
    if view.game.terms.is_exact:
        salts += dict.fromkeys(one.claimed_end.salt for one in here if one.claimed_end is not None)
    return StepsShown(states, (start.salt, *salts), tuple(start.path))
