"""What a node offers to others: blobs, answers at desks, reports of its work, copies in its bucket.

The rooms of a node decide which account is shown what. They are put together here.

Reports are for anybody, also for who signs nothing. A node says in them what no chain tells: the losses of
its shard, and how far the ends lay apart that it compared. Nothing of them is shown early:

    losses       from the close of the round on, of a claim that stands on the chain
    distances    once any account may read the segment itself (`is_segment_public`), so once no vote on it
                 counts any more: until then whoever has still to seal could learn what others found

A report is in the journal before it is shown, and of each claim and each audit there is one. A request is
answered from the journal's index alone: a stranger has this node compute, train and write nothing.

Copies in this node's bucket are of what any account may read, now or once a round closes:

    pseudo-gradient of an own claim    from the commitment on: until the close the bucket is private, and no
                                       peer is sent there
    of the submitter: the dataset, and the weights that the task begins with, where they are given

Nothing else goes there. States, traces and single steps are for few accounts, some of them for the drawn
auditors alone. What is deleted from the disk is deleted from the bucket.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from touchstone.node.defending import step_serving as disputes
from touchstone.node.joining.task_inputs import refer_start
from touchstone.node.kit.party import Duty, Party
from touchstone.node.kit.stored_step import list_step_keys
from touchstone.node.kit.view import View
from touchstone.node.merging import merge_signing as merge_serving
from touchstone.node.records.audit_records import DistancesReported, SealMade, VoteMade
from touchstone.node.records.claim_records import ClaimWork, LossReported, find_own_slot
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.node.serving.reachability_probe import Lookout
from touchstone.protocol.adapters.reports.round_reports import (
    AUDITS_MAX,
    DistancesSaid,
    LossSaid,
    ReportsSaid,
    say_distances,
    say_loss,
)
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.wire.message_desk import Desk
from touchstone.protocol.adapters.wire.server import ReadPolicy
from touchstone.protocol.compute.audit.compare import measure_apart
from touchstone.protocol.spec.codec import compute_state_root
from touchstone.protocol.spec.containers import Comparison, DistanceReport, LossReport, to_millionths
from touchstone.protocol.spec.game.auditing import (
    COMPARED_ENDS,
    AuditPlace,
    find_stated,
    get_place,
    is_segment_public,
    list_heard,
)
from touchstone.protocol.spec.game.ledger import get_state_at
from touchstone.protocol.spec.game.state import GameState
from touchstone.verifier import audit_duties as audits

MAY_READ: tuple[Callable[[Party, str, BlobKind, bytes], bool], ...] = (
    merge_serving.may_read,
    audits.may_read,
    disputes.may_read,
)
"""(party, account, kind, root): whether a room shows a blob to an account now."""


def list_desks(party: Party) -> Iterator[Mapping[str, Desk]]:
    """Who answers which messages."""
    yield merge_serving.make_desks(party)
    yield audits.make_desks(party)
    yield disputes.make_desks(party)


@dataclass(frozen=True)
class Answered:
    """Reports of a round as they were shown last, and what they were made of: the chain as it was read, its
    newest block, and how many reports the journal has."""

    game: GameState
    counts: tuple[int, int, int]
    said: ReportsSaid


@dataclass(frozen=True)
class Offers:
    """What all rooms of a party show and answer, as its server asks for each request."""

    party: Party
    lookout: Lookout
    said: dict[int, Answered] = field(default_factory=dict)
    """The last answer of each round."""

    def make_policy(self) -> ReadPolicy:
        """Any account may ask; the rooms decide which account is shown what."""
        return ReadPolicy(
            is_staked=lambda account: True,
            may_read=self.may_read,
            get_status=self.party.status.show,
            find_desk=self.find_desk,
            is_member=self.party.is_member,
            get_reports=self.get_reports,
        )

    def may_read(self, account: str, kind: BlobKind, root: bytes) -> bool:
        """Whether some room shows it."""
        return any(room(self.party, account, kind, root) for room in MAY_READ)

    def find_desk(self, name: str) -> Desk | None:
        """Who answers messages of this kind."""
        offered = [self.lookout.make_desks(), *list_desks(self.party)]
        return next((desks[name] for desks in offered if name in desks), None)

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


# --- Reports of losses --------------------------------------------------------------------------------------
def find_loss(view: View, index: int) -> LossSaid | None:
    """What this node reports of the losses of its claim on round `index`, once the round is closed."""
    key = _find_closed_claim(view, get_state_at(view.game, view.head_block + 1), index)
    made = None if key is None else view.claims.reports.get(key)
    return None if made is None else say_loss(made.report, made.signature)


def _find_closed_claim(view: View, state: GameState, index: int) -> tuple[int, bytes] | None:
    """Round and root of this node's claim as the chain has it; None before the round has closed."""
    game_round = state.rounds.get(index)
    if game_round is None or game_round.closed is None:
        return None
    own = (claim for claim in game_round.claims.values() if claim.account == view.account)
    return next(((index, claim.claim_root) for claim in own), None)


@dataclass(frozen=True)
class ReportLoss:
    """Write down, and sign, what the losses of an own claim were."""

    round: int

    async def perform(self, party: Party) -> None:
        """Nothing where the chain has taken the claim back."""
        report = _make_loss_report(
            party.view, get_state_at(party.game, party.state.head_block + 1), self.round
        )
        if report is not None:
            signature = await party.sign(report)
            party.task.claims.write(LossReported(party.task.task, report, signature))


def _make_loss_report(view: View, state: GameState, index: int) -> LossReport | None:
    """The report that is missing; None where there is one, or nothing to report."""
    key = _find_closed_claim(view, state, index)
    if key is None or key in view.claims.reports:
        return None
    game_round, work = state.rounds[index], view.claims.find(state.rounds[index])
    slot = find_own_slot(state, game_round, view.account)
    is_it = work.finished is not None and work.finished.claim_root == key[1]
    figures = _sum_losses(work) if is_it and slot is not None else None
    if slot is None or figures is None:
        return None
    return LossReport(view.domain, index, slot, key[1], *figures)


def _sum_losses(work: ClaimWork) -> tuple[int, int, int, int] | None:
    """Steps, first, last and mean loss of a claim, in millionths of a nat; None where the losses of a segment
    are not known: an earlier version trained it, or one was no number."""
    segments = 0 if work.finished is None else work.finished.segments
    trained = [work.trained[one] for one in range(segments) if one in work.trained]
    if not trained or len(trained) < segments:
        return None
    steps = sum(one.steps for one in trained)
    mean = sum(one.total_micronats for one in trained) // steps
    return steps, trained[0].first_micronats, trained[-1].last_micronats, mean


# --- Reports of distances -----------------------------------------------------------------------------------
def list_distances(room: AuditRoom, index: int) -> Iterator[DistancesSaid]:
    """What this node reports of its audits of round `index`, of segments that any account may read."""
    game = room.get_game()
    if index not in game.rounds:
        return
    for made in room.book.list_seals(index):
        place = get_place(made.sealed)
        said, where = room.book.reports.get(place), (place.slot, made.sealed.segment, room.block)
        is_known = said is not None and find_stated(game, place) is not None
        if said is not None and is_known and is_segment_public(game, game.rounds[index], *where):
            yield say_distances(said.report, said.signature)


@dataclass(frozen=True)
class ReportDistances:
    """Measure how far the claimed end of an audit lies from the own one, and write that down, signed."""

    place: AuditPlace

    async def perform(self, party: Party) -> None:
        """Raises InvalidInput or EnvironmentFault where a state cannot be read."""
        await report_distances(party.task.audits.room, self.place)


async def report_distances(room: AuditRoom, place: AuditPlace) -> None:
    """The same in a room."""
    made, vote = room.book.seals[place], room.book.votes[place]
    report = await asyncio.to_thread(measure_audit, room, made, vote)
    room.book.write(DistancesReported(room.about.task, report, await room.sign(report)))


def measure_audit(room: AuditRoom, made: SealMade, vote: VoteMade) -> DistanceReport:
    """What is to be reported of an audit that compared."""
    assert vote.ends is not None, "it compared both ends"
    own, end, said = made.own_end, vote.ends.end.header, made.sealed
    comparison = _compare(room, made, vote)
    apart = {"weights": 0, "first_moment": 0, "second_moment": 0}
    if comparison is Comparison.MEASURED:
        rate, states = room.about.get_rate_sum(said.round, said.segment), room.states
        pairs = measure_apart(states.open(end), states.open(own), rate, room.about.limits)
        shares = [_count_limits(*pair) for pair in pairs]
        apart = dict(zip(("first_moment", "second_moment", "weights"), shares, strict=True))
    place = (said.domain, said.round, said.base_root, said.seed, said.slot, said.claim_root, said.draw)
    far = (apart["weights"], apart["first_moment"], apart["second_moment"])
    return DistanceReport(*place, said.rank, said.segment, vote.vote.word, comparison, *far)


def _compare(room: AuditRoom, made: SealMade, vote: VoteMade) -> Comparison:
    assert vote.ends is not None, "it compared both ends"
    own, end = made.own_end, vote.ends.end.header
    if compute_state_root(own) == compute_state_root(end):
        return Comparison.EQUAL
    is_placed = (own.local_step, own.global_step) == (end.local_step, end.global_step)
    is_exact = room.get_game().terms.is_exact
    return Comparison.MEASURED if is_placed and not is_exact else Comparison.OTHER


def _count_limits(distance: float, limit: float) -> int:
    if not limit:
        return to_millionths(float("inf") if distance else 0.0)
    return to_millionths(distance / limit)


def list_unreported(room: AuditRoom, block: int) -> Iterator[AuditPlace]:
    """Own audits that compared both ends, that have no report yet, and whose ends are at hand."""
    game, book = room.get_game(), room.book
    for index in list_heard(game, block - 3 * game.terms.windows.audit_max):
        for made in book.list_seals(index):
            place, vote = get_place(made.sealed), book.votes.get(get_place(made.sealed))
            is_due = vote is not None and vote.vote.word in COMPARED_ENDS and place not in book.reports
            if vote is None or not is_due or find_stated(game, place) is None:
                continue
            if _compare(room, made, vote) is not Comparison.MEASURED or _are_ends_here(room, made, vote):
                yield place


def _are_ends_here(room: AuditRoom, made: SealMade, vote: VoteMade) -> bool:
    headers = (made.own_end,) if vote.ends is None else (made.own_end, vote.ends.end.header)
    return all(room.store.has(ref) for header in headers for ref in room.states.refer(header))


# --- Copies in the bucket -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class CopyToBucket:
    """Upload what is missing in the bucket, and delete what is not on the disk any more. is_large: of what is
    there for the whole task; that may take hours, and what rounds need does not wait for it."""

    is_large: bool = False

    async def perform(self, party: Party) -> None:
        """Raises EnvironmentFault where the storage fails, InvalidInput where anybody may read the bucket.
        Peers get the bytes from the disk then."""
        bucket = party.bucket
        assert bucket is not None, "only a node with a bucket has this duty"
        if bucket.there is None:
            there = await bucket.learn()
            party.say(
                f"the bucket {bucket.settings.bucket} takes copies; it has {len(there)} of this node's blobs"
            )
        if not self.is_large:
            await bucket.remove(list_gone(party, bucket))
        # What is asked for soon goes first, and what is wanted may change meanwhile.
        while missing := [key for key in list_missing(party, bucket) if _is_large(key) == self.is_large]:
            await bucket.put(missing[0], party.store.get_path(missing[0]))


def list_copies(party: Party, block: int) -> Iterator[Duty]:
    """At most two duties, while bucket and disk differ."""
    bucket = party.bucket
    if bucket is None:
        return
    missing = {_is_large(key) for key in list_missing(party, bucket)}
    if bucket.there is None or False in missing or list_gone(party, bucket):
        yield CopyToBucket()
    if bucket.there is not None and True in missing:
        yield CopyToBucket(is_large=True)


def _is_large(key: BlobKey) -> bool:
    return key.kind is not BlobKind.DELTA


def list_gone(party: Party, bucket: Bucket) -> list[BlobKey]:
    """Copies of what is not on the disk any more."""
    return [key for key in bucket.there or {} if party.store.get_size_bytes(key) is None]


def list_missing(party: Party, bucket: Bucket) -> list[BlobKey]:
    """What belongs into the bucket and is not whole there, the newest claim first."""
    there, missing = bucket.there or {}, list[BlobKey]()
    for key in _list_wanted(party.view):
        size = party.store.get_size_bytes(key)
        if size is not None and there.get(key) != size and bucket.may_upload(key):
            missing.append(key)
    return missing


def _list_wanted(view: View) -> Iterator[BlobKey]:
    game, spec = view.game, view.spec
    for game_round in sorted(game.rounds.values(), key=lambda one: -one.index):
        slot = find_own_slot(game, game_round, view.account)
        claim = None if slot is None else game_round.claims.get(slot)
        if claim is not None and game_round.beacon is not None:
            finished = view.claims.find(game_round).finished
            if finished is not None and finished.claim_root == claim.claim_root:
                yield BlobKey(BlobKind.DELTA, finished.delta_root)
    if view.account == game.terms.submitter:
        if spec.training.is_start_given:
            yield refer_start(spec).key
        yield from sorted(list_step_keys(spec.training), key=str)
        yield BlobKey(BlobKind.DATASET, spec.training.dataset_root)


# --- What is due --------------------------------------------------------------------------------------------
def list_losses(view: View, block: int) -> Iterator[Duty]:
    """Reports of losses that this node has still to write down."""
    state = get_state_at(view.game, block)
    for index in state.rounds:
        if _make_loss_report(view, state, index) is not None:
            yield ReportLoss(index)


def list_reports(party: Party, block: int) -> Iterator[Duty]:
    """All reports that it has still to write down."""
    yield from list_losses(party.view, block)
    yield from (ReportDistances(place) for place in list_unreported(party.task.audits.room, block))


def list_duties(party: Party, block: int) -> Iterator[Duty]:
    """What a solver offers by itself: reports, and copies in its bucket."""
    yield from list_reports(party, block)
    yield from list_copies(party, block)
