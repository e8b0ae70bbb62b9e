"""What a node offers to others: blobs, answers to requests, reports of its work."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from touchstone.node.defending import step_requests
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.party import Party
from touchstone.node.merging import merge_requests
from touchstone.node.serving.bucket_copies import list_copies
from touchstone.node.serving.distance_reports import ReportDistances, list_distances, list_unreported
from touchstone.node.serving.loss_reports import find_loss, list_losses
from touchstone.node.serving.reachability_probe import ReachabilityProbe
from touchstone.protocol.adapters.reports.round_reports import AUDITS_MAX, ReportsSaid
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.server import ReadPolicy
from touchstone.protocol.spec.game.state import GameState
from touchstone.verifier import audit_duties as audits

MAY_READ: tuple[Callable[[Party, str, BlobKind, bytes], bool], ...] = (
    merge_requests.may_read,
    audits.may_read,
    step_requests.may_read,
)
"""(party, account, kind, root): whether a room shows a blob to an account now."""


def list_handlers(party: Party) -> Iterator[Mapping[str, RequestHandler]]:
    """Who answers which messages."""
    yield merge_requests.make_handlers(party)
    yield audits.make_handlers(party)
    yield step_requests.make_handlers(party)


@dataclass(frozen=True)
class Answered:
    """Reports of a round as they were shown last, and what they were made of: the chain as it was read, its
    newest block, and how many reports the journal has."""

    game: GameState
    counts: tuple[int, int, int]
    said: ReportsSaid


@dataclass(frozen=True)
class ServedData:
    """What all rooms of a party show and answer, as its server asks for each request."""

    party: Party
    lookout: ReachabilityProbe
    said: dict[int, Answered] = field(default_factory=dict)
    """The last answer of each round."""

    def make_policy(self) -> ReadPolicy:
        """Any account may ask; the rooms decide which account is shown what."""
        return ReadPolicy(
            is_staked=lambda account: True,
            may_read=self.may_read,
            get_status=self.party.status.show,
            find_handler=self.find_handler,
            is_member=self.party.is_member,
            get_reports=self.get_reports,
        )

    def may_read(self, account: str, kind: BlobKind, root: bytes) -> bool:
        """Whether some room shows it."""
        return any(room(self.party, account, kind, root) for room in MAY_READ)

    def find_handler(self, name: str) -> RequestHandler | None:
        """Who answers messages of this kind."""
        offered = [self.lookout.make_handlers(), *list_handlers(self.party)]
        return next((handlers[name] for handlers in offered if name in handlers), None)

    def get_reports(self, task: bytes, index: int) -> ReportsSaid | None:
        """What this node reports of round `index`; None where it works on another task. Made once for each
        block and each new report: what is public yet takes milliseconds to find out, and strangers ask as
        often as they like."""
        party = self.party
        if party.joined is None or party.task.task != task or not party.is_task_known:
            return None
        game, book = party.game, party.task.audits.room.book
        if index not in game.rounds:
            return ReportsSaid()
        counts = (party.state.head_block, len(party.task.claims.reports), len(book.reports))
        known = self.said.get(index)
        if known is None or known.game is not game or known.counts != counts:
            found = islice(list_distances(party.task.audits.room, index), AUDITS_MAX)
            known = Answered(game, counts, ReportsSaid(find_loss(party.view, index), tuple(found)))
            for forgotten in self.said.keys() - game.rounds.keys():
                del self.said[forgotten]
            self.said[index] = known
        return known.said


def list_reports(party: Party, block: int) -> Iterator[Duty]:
    """All reports that it has still to write down."""
    yield from list_losses(party.view, block)
    yield from (ReportDistances(place) for place in list_unreported(party.task.audits.room, block))


def list_duties(party: Party, block: int) -> Iterator[Duty]:
    """What a solver offers by itself: reports, and copies in its bucket."""
    yield from list_reports(party, block)
    yield from list_copies(party, block)
