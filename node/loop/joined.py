"""Holds a joined task: its rooms, and its audits."""

from dataclasses import dataclass

from touchstone.node.defending import step_requests
from touchstone.node.kit.view import FindView
from touchstone.node.loop.rooms import Rooms
from touchstone.node.loop.served_data import ServedRooms
from touchstone.node.merging import merge_requests
from touchstone.node.serving.audit_serving import Audits
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.spec.task_spec import TaskSpec


@dataclass(frozen=True)
class Joined:
    """The task that a node has joined. `domain` separates its hashes and statements from others. `audits` are
    those that this node makes, and those of its own claims."""

    task: bytes
    domain: bytes
    spec: TaskSpec
    rooms: Rooms
    audits: Audits

    def list_served(self, find_view: FindView) -> ServedRooms:
        """Returns the blobs and answers that the rooms offer to peers."""

        def may_read(account: str, kind: BlobKind, root: bytes) -> bool:
            view, asked = find_view(), (account, kind, root)
            if view is None:
                return False
            return (
                merge_requests.may_read(view, *asked)
                or step_requests.may_read(view, *asked)
                or self.audits.may_read(*asked)
            )

        answers = {
            **self.rooms.merge_requests.list_answers(),
            **self.audits.list_answers(),
            step_requests.STEPS: self.rooms.step_answers.answer_steps,
        }
        return ServedRooms(answers, may_read, self.audits.room, find_view)

    def close(self) -> None:
        """Ends the threads and processes of the rooms."""
        tools = self.rooms.tools
        self.audits.close()
        tools.cases.close()
        tools.recompute_queue.close()
        if tools.team is not None:
            tools.team.close()
