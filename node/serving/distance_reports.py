"""Reports the distances that this node's own audits have measured."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.view import View
from touchstone.node.records.audit_records import DistancesReported, SealMade, VoteMade
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.protocol.adapters.reports.round_reports import DistancesSaid, format_distances
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedEnd, Tolerance, are_equal
from touchstone.protocol.compute.tolerance.tolerance_choice import get_tolerance
from touchstone.protocol.spec.game.drawn_audits import (
    COMPARED_ENDS,
    AuditPlace,
    find_stated,
    get_place,
    list_heard,
)
from touchstone.protocol.spec.game.public_boundaries import is_segment_public
from touchstone.protocol.spec.signed_reports import Comparison, DistanceReport, to_millionths
from touchstone.protocol.spec.state_headers import StateHeader


def list_distances(room: AuditRoom, index: int) -> Iterator[DistancesSaid]:
    """Yields this node's reports of its audits of round `index`, for segments that any account may read."""
    game = room.get_game()
    if index not in game.rounds:
        return
    for made in room.book.list_seals(index):
        place = get_place(made.sealed)
        said, where = room.book.reports.get(place), (place.slot, made.sealed.segment, room.block)
        is_known = said is not None and find_stated(game, place) is not None
        if said is not None and is_known and is_segment_public(game, game.rounds[index], *where):
            yield format_distances(said.report, said.signature)


@dataclass(frozen=True)
class ReportDistances:
    """Measure the distance of an audit's two ends, and write it down, signed."""

    place: AuditPlace

    async def perform(self, room: AuditRoom) -> None:
        """Measures the distance. Raises InvalidInput or EnvironmentFault if a state cannot be read."""
        await report_distances(room, self.place)


async def report_distances(room: AuditRoom, place: AuditPlace) -> None:
    """Measures the distances of an audit, and writes them down, signed."""
    made, vote = room.book.seals[place], room.book.votes[place]
    report = await asyncio.to_thread(measure_audit, room, made, vote)
    room.book.write(DistancesReported(room.about.task, report, await room.sign(report)))


def measure_audit(room: AuditRoom, made: SealMade, vote: VoteMade) -> DistanceReport:
    """Returns the report of an audit that compared both ends."""
    assert vote.ends is not None, "it compared both ends"
    said, tolerance, claimed = made.sealed, room.about.tolerance, vote.ends.end.header
    comparison = _name_comparison(tolerance, claimed, made.own_end)
    apart = {"weights": 0, "first_moment": 0, "second_moment": 0}
    if comparison is Comparison.MEASURED:
        rate_sum = room.about.get_rate_sum(said.round, said.segment)
        ends = ClaimedEnd(claimed, made.own_end, room.states.open, rate_sum)
        shares = [_count_limits(*pair) for pair in tolerance.measure(ends)]
        apart = dict(zip(("first_moment", "second_moment", "weights"), shares, strict=True))
    place = (said.domain, said.round, said.base_root, said.seed, said.slot, said.claim_root, said.draw)
    far = (apart["weights"], apart["first_moment"], apart["second_moment"])
    return DistanceReport(*place, said.rank, said.segment, vote.vote.word, comparison, *far)


def _name_comparison(tolerance: Tolerance, claimed: StateHeader, own: StateHeader) -> Comparison:
    if are_equal(claimed, own):
        return Comparison.EQUAL
    return Comparison.MEASURED if tolerance.is_measured(claimed, own) else Comparison.OTHER


def _count_limits(distance: float, limit: float) -> int:
    if not limit:
        return to_millionths(float("inf") if distance else 0.0)
    return to_millionths(distance / limit)


def list_unreported(view: View, block: int) -> Iterator[AuditPlace]:
    """Lists this node's audits that compared both ends, have no report yet, and whose ends are on disk."""
    game, book = view.game, view.audits.book
    tolerance = get_tolerance(view.spec)
    for index in list_heard(game, block - 3 * game.terms.windows.audit_max):
        for made in book.list_seals(index):
            place, vote = get_place(made.sealed), book.votes.get(get_place(made.sealed))
            is_due = vote is not None and vote.vote.word in COMPARED_ENDS and place not in book.reports
            if vote is None or vote.ends is None or not is_due or find_stated(game, place) is None:
                continue
            ends = (vote.ends.end.header, made.own_end)
            if not tolerance.is_measured(*ends) or all(map(view.stored.has, ends)):
                yield place


def list_duties(view: View, block: int) -> Iterator[ReportDistances]:
    """Lists the distance reports that this node still has to write down."""
    yield from (ReportDistances(place) for place in list_unreported(view, block))
