"""Answers requests for merge signatures, models and work, and says who may ask."""

from dataclasses import dataclass

from touchstone.node.kit.loop_signals import NotifyLoop
from touchstone.node.kit.signer import Signer
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.claim_openings import is_fetched
from touchstone.node.models.expected_merge import get_root, is_on_chain, make_statement
from touchstone.node.models.global_model import (
    MAX_BYTES,
    MERGE,
    OUTER,
    WORK,
    AskMerge,
    GlobalModel,
    MergeAnswer,
    get_initial_header,
    read_message,
)
from touchstone.node.models.outer_step import find_oldest
from touchstone.node.models.round_judging import MergeSet, find_merge_set
from touchstone.node.models.work_requests import WorkRequests, may_read_delta
from touchstone.node.records.claim_records import ClaimBook, MergeKey, MergeMade
from touchstone.node.records.round_seats import find_own_slot, list_open_solvers
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire.request_handler import Answer
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.root_posting import get_waiting_round
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound

BODY_BYTES = dict.fromkeys((OUTER, WORK, MERGE), MAX_BYTES)
"""The most bytes of a message to each handler of this room."""


@dataclass(frozen=True)
class MergeRequests:
    """Answers requests for models, work and merge signatures, and says who may read their blobs."""

    get_view: GetView
    claims: ClaimBook
    notify_loop: NotifyLoop
    signer: Signer
    model: GlobalModel
    work_requests: WorkRequests

    async def answer_merge(self, account: str, body: bytes) -> MergeAnswer:
        """Returns this node's signature of a merge. Raises EnvironmentFault while it cannot sign it,
        ProtocolFault if it never will."""
        view = self.get_view()
        asked = read_message(AskMerge, body, account)
        game_round = _require_waiting(view, asked)
        key = MergeKey(asked.round, asked.base_root, asked.slots, asked.claim_roots)
        if not is_on_chain(game_round, key):
            raise _refuse("claims of the round in shard order", "others", account)
        if account not in {seat.account for seat in list_open_solvers(view.game, game_round)}:
            raise _refuse("a solver of the round", account, account)
        missing = find_missing(view, find_merge_set(view, game_round, view.head_block + 1), key.slots)
        if missing is not None:
            raise _not_yet(*missing)
        made, wanted = self.claims.merges.get(key), self.claims.wanted
        if made is None:
            if wanted.note(account, key) and wanted.notices.take(account, view.head_block):
                self.notify_loop()
            raise _not_yet("this node's own merge of these claims", "not computed yet")
        if get_root(made) != asked.root:
            raise _refuse(get_root(made).hex(), asked.root.hex(), account)
        return MergeAnswer(await self.sign_merge(made))

    async def sign_merge(self, made: MergeMade) -> bytes:
        """Returns this node's signature of its own merge. Raises GateShut while nothing may be signed."""
        return await self.signer.sign(make_statement(self.get_view().domain, made))

    def list_answers(self) -> dict[str, Answer]:
        """Returns the function that answers each message of this room, by name."""
        return {
            OUTER: self.model.answer_outer,
            WORK: self.work_requests.answer_work,
            MERGE: self.answer_merge,
        }


def _require_waiting(view: View, asked: AskMerge) -> GameRound:
    if asked.task != view.task:
        raise _not_yet("a task that this node works on", asked.task.hex())
    state = get_state_at(view.game, view.head_block + 1)
    game_round = get_waiting_round(state)
    is_it = game_round is not None and (game_round.index, game_round.base_root) == (
        asked.round,
        asked.base_root,
    )
    if game_round is None or not is_it or game_round.beacon is None:
        raise _not_yet(f"round {asked.round}, closed and without a root", "another")
    if find_own_slot(state, game_round, view.account) is None:
        raise _not_yet("a solver seat of this node in the round", "none")
    return game_round


def find_missing(view: View, chosen: MergeSet, slots: tuple[int, ...]) -> tuple[str, str] | None:
    """Returns what this node expected and what it found, if it does not sign a merge of these slots; None if
    it signs. It refuses if a claim in it is not accepted, if an accepted claim is left out, or if a claim is
    undecided. If it signed too early, the signature could be used later to leave out a claim that is accepted
    meanwhile."""
    known = chosen.slots
    if not set(slots) <= set(known):
        return f"claims that are accepted: slots {known}", f"slots {slots}"
    if not chosen.is_final:
        return "no undecided claim", "one at least"
    if any(slot not in slots and is_fetched(view, chosen.game_round, slot) for slot in known):
        return f"every accepted claim: slots {known}", f"slots {slots}"
    return None


def _not_yet(expected: str, actual: object) -> EnvironmentFault:
    return EnvironmentFault(
        what="the merge is not signed now",
        expected=expected,
        actual=actual,
        remedy="Ask again: votes or pseudo-gradients may be on their way.",
    )


def _refuse(expected: object, actual: object, account: str) -> ProtocolFault:
    return ProtocolFault(
        what="the merge is not what this node computed",
        expected=expected,
        actual=actual,
        culprit=account,
        remedy="Merge the claims that the chain has.",
    )


def may_read(view: View, account: str, kind: BlobKind, root: bytes) -> bool:
    """Returns whether `account` may read this blob now.

    The task's first model is for any account that signs. A pseudo-gradient is for any account once its round
    is closed. A global model is for the submitter and for accounts with a seat in any task once its root is
    posted. It is for any account once its root cannot be contested any more, even if the chain has forgotten
    its round."""
    if kind is BlobKind.DELTA:
        return may_read_delta(view, root)
    is_member = view.chain_state.is_staked(account) or account == view.game.terms.submitter
    return kind is BlobKind.TENSOR and _is_model(view, root, is_member=is_member)


def _is_model(view: View, root: bytes, *, is_member: bool) -> bool:
    """Returns whether a tensor belongs to a global model that may be shown."""
    initial = get_initial_header(view)
    if root in (initial.weights_root, initial.momentum_root):
        return True
    headers = {name: (h.weights_root, h.momentum_root) for name, h in view.claims.outer.items()}
    posted = [r for r in view.game.rounds.values() if r.phase == RoundPhase.POSTED and r.root is not None]
    shown = [r.root for r in posted if is_member or _is_settled(view, r)]
    return any(root in headers.get(one or b"", ()) for one in (*shown, find_oldest(view.game)[1]))


def _is_settled(view: View, game_round: GameRound) -> bool:
    """Returns whether no account can contest the root any more."""
    return view.head_block > game_round.root_until
