"""Offers data to other nodes: blobs, answers to requests, reports of its work."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from touchstone.node.defending import step_requests
from touchstone.node.kit.config import Status
from touchstone.node.kit.view import FindView
from touchstone.node.merging import merge_requests
from touchstone.node.serving import audit_serving
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.node.serving.distance_reports import list_distances
from touchstone.node.serving.heldout_reports import list_heldout
from touchstone.node.serving.loss_reports import find_loss
from touchstone.node.serving.reachability_probe import ReachabilityProbe
from touchstone.protocol.adapters.messages import Message
from touchstone.protocol.adapters.reports.round_reports import AUDITS_MAX, ReportsSaid
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire.request_handler import Answer, RequestHandler
from touchstone.protocol.adapters.wire.server import ReadPolicy
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.state import GameState

MayRead = Callable[[str, BlobKind, bytes], bool]
"""`may_read(account, kind, root)` returns whether some room shows a blob to an account now."""
PUBLIC_KINDS = frozenset({BlobKind.DATASET, BlobKind.STEP})
"""Blobs of these kinds are for any account that signs."""
BODY_BYTES: Mapping[str, int] = {
    **merge_requests.BODY_BYTES,
    **audit_serving.BODY_BYTES,
    step_requests.STEPS: step_requests.ASK_BYTES,
}
"""The most bytes of a message to each handler that the rooms of a task answer."""


@dataclass(frozen=True)
class ServedRooms:
    """What the rooms of a joined task show and answer. `answers` are by handler name. `audits` are those
    whose distances are reported. `find_view` returns the present view."""

    answers: Mapping[str, Answer]
    may_read: MayRead
    audits: AuditRoom
    find_view: FindView


@dataclass(frozen=True)
class Answered:
    """The latest reports of a round and what they were made from: the chain's state, its newest block, and
    the number of reports in the journal."""

    game: GameState
    counts: tuple[int, ...]
    said: ReportsSaid


@dataclass
class ServedData:
    """What a node shows and answers; its server asks it at each request. `status` is how far the node has
    read the chain. `is_member` says whether an account takes part in its task. `rooms` is None until a task
    is joined."""

    probe: ReachabilityProbe
    status: Status
    is_member: Callable[[str], bool]
    rooms: ServedRooms | None = None
    reported: dict[int, Answered] = field(default_factory=dict)
    """The latest reports of each round."""

    def make_policy(self) -> ReadPolicy:
        """Returns a policy that lets any account ask. The rooms then decide what each account is shown."""
        return ReadPolicy(
            is_staked=lambda account: True,
            may_read=self.may_read,
            get_status=self.status.show,
            find_handler=self.find_handler,
            is_member=self.is_member,
            get_reports=self.get_reports,
        )

    def may_read(self, account: str, kind: BlobKind, root: bytes) -> bool:
        """Returns whether some room shows a blob to an account."""
        if kind in PUBLIC_KINDS:
            return True
        return self.rooms is not None and self.rooms.may_read(account, kind, root)

    def find_handler(self, name: str) -> RequestHandler | None:
        """Returns the function that answers messages of this kind."""
        if name in BODY_BYTES:
            return RequestHandler(BODY_BYTES[name], partial(self._answer, name))
        return self.probe.make_handlers().get(name)

    async def _answer(self, name: str, account: str, body: bytes) -> Message:
        """Answers a message. Raises EnvironmentFault before a task is joined, and what the room raises."""
        if self.rooms is None:
            raise EnvironmentFault(
                what="this node has joined no task yet",
                expected="a joined task",
                actual="none",
                remedy="Ask again.",
            )
        return await self.rooms.answers[name](account, body)

    def get_reports(self, task: bytes, index: int) -> ReportsSaid | None:
        """Returns this node's reports of round `index`; None if it works on another task. They are made once
        for each block and new report, because that takes milliseconds and strangers may ask often."""
        view = None if self.rooms is None else self.rooms.find_view()
        if self.rooms is None or view is None or view.task != task:
            return None
        game = view.game
        if index not in game.rounds:
            return ReportsSaid()
        claims, audits = view.claims, view.audits.book
        counts = (view.head_block, len(claims.reports), len(claims.heldout), len(audits.reports))
        known = self.reported.get(index)
        if known is None or known.game is not game or known.counts != counts:
            found = islice(list_distances(self.rooms.audits, index), AUDITS_MAX)
            said = ReportsSaid(find_loss(view, index), tuple(found), list_heldout(view, index))
            known = Answered(game, counts, said)
            for forgotten in self.reported.keys() - game.rounds.keys():
                del self.reported[forgotten]
            self.reported[index] = known
        return known.said
