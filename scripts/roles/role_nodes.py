"""Defines each role as a list of rooms; the room whose duties cost most when late comes first."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from touchstone.node.defending import defence
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.config import NodeConfig
from touchstone.node.kit.duty import Room
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.node.merging import merge_signing, posting
from touchstone.node.models import outer_step
from touchstone.node.serving import bucket_copies, distance_reports, heldout_reports, loss_reports
from touchstone.node.training import claims, idle_mode, speculation
from touchstone.node.upkeep import halting, last_model, pruning, upkeep_duties
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.verifier import audit_duties
from touchstone.whistleblower import challenging, contesting
from touchstone.whistleblower.challenge_rooms import ChallengeRooms


class Member(Node):
    """A node with a seat or a bond, and the duties that every role has."""

    def list_urgent(self) -> tuple[Room[Any], ...]:
        """Lists the duties that come before all others, because silence in a dispute costs the stake."""
        rooms, challenges = self.rooms, self.list_challenges()
        return (
            Room(defence.list_duties, rooms.defence),
            Room(challenging.next_actions, challenges.challenging),
            Room(upkeep_duties.list_duties, rooms.upkeep),
            Room(partial(idle_mode.list_duties, self.config.use), rooms.idle_mode),
        )

    def list_challenges(self) -> ChallengeRooms:
        """Lists the rooms that challenge others."""
        return ChallengeRooms(self.rooms, self.task.audits.room)

    def list_audits(self) -> tuple[Room[Any], ...]:
        """Lists the rooms of its audits."""
        room = self.task.audits.room
        return (Room(audit_duties.list_duties, room),)

    def list_reports(self) -> tuple[Room[Any], ...]:
        """Lists the rooms that report losses and distances."""
        room = self.task.audits.room
        return (
            Room(loss_reports.list_duties, self.rooms.loss_reports),
            Room(distance_reports.list_duties, room),
        )


class Solver(Member):
    """Trains its shard of each round, claims the result, serves and defends it, merges and posts."""

    def list_rooms(self) -> Sequence[Room[Any]]:
        """Lists the rooms of a solver."""
        rooms = self.rooms
        return (
            *self.list_urgent(),
            Room(claims.list_duties, rooms.training),
            Room(outer_step.list_duties, rooms.outer_steps),
            Room(merge_signing.list_duties, rooms.merge_signing),
            Room(posting.list_duties, rooms.posting),
            Room(speculation.list_duties, rooms.speculation),
            Room(contesting.list_duties, self.list_challenges().contesting),
            *self.list_audits(),
            Room(pruning.list_duties, rooms.pruning),
            *self.list_reports(),
            Room(heldout_reports.list_duties, rooms.heldout_reports),
            Room(partial(bucket_copies.list_duties, self.bucket), rooms.bucket_copies),
        )


class Verifier(Member):
    """Replays the segments that are drawn for it, blind, and votes."""

    def list_rooms(self) -> Sequence[Room[Any]]:
        """Lists the rooms of a verifier."""
        return (
            *self.list_urgent(),
            *self.list_audits(),
            Room(posting.list_duties, self.rooms.posting),
            Room(contesting.list_own_moves, self.list_challenges().contesting),
            *self.list_reports(),
            Room(pruning.list_duties, self.rooms.pruning),
        )


class Whistleblower(Member):
    """Audits late, checks posted roots and others' votes, and disputes false statements."""

    def list_rooms(self) -> Sequence[Room[Any]]:
        """Lists the rooms of a whistleblower."""
        return (
            *self.list_urgent(),
            *self.list_audits(),
            Room(posting.list_duties, self.rooms.posting),
            Room(contesting.list_duties, self.list_challenges().contesting),
            *self.list_reports(),
            Room(pruning.list_duties, self.rooms.pruning),
        )


ROLES: dict[SeatRole, type[Member]] = {
    SeatRole.SOLVER: Solver,
    SeatRole.VERIFIER: Verifier,
    SeatRole.WHISTLEBLOWER: Whistleblower,
}


async def run_role(
    role: SeatRole, config: NodeConfig, task: bytes, request: SeatRequest | None = None
) -> bool:
    """Works on `task` until it is closed (True) or the seat has left (False). Raises as `Node.work_on`
    does."""
    is_held = request is not None and request.is_held
    async with open_node(config, ROLES[role], is_held=is_held) as node:
        return await node.work_on(task, request or SeatRequest(role))


class Submitter(Node):
    """Serves its task to the end, sends upkeep that no other node sends, measures each model, halts
    if none gets better and its operator asked for that, and keeps the last model."""

    def list_rooms(self) -> Sequence[Room[Any]]:
        """Lists the rooms of a submitter."""
        rooms = self.rooms
        return (
            Room(upkeep_duties.list_duties, rooms.upkeep),
            Room(last_model.list_duties, rooms.last_model),
            Room(heldout_reports.list_duties, rooms.heldout_reports),
            Room(partial(halting.list_duties, self.config.halt_after_rounds), rooms.halting),
            Room(pruning.list_duties, rooms.pruning),
            Room(partial(bucket_copies.list_duties, self.bucket), rooms.bucket_copies),
        )
