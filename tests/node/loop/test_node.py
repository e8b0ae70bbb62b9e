"""An open node: what may be looked at, what it shows once it has joined, and how its audits wait."""

from pathlib import Path
from typing import Any

import pytest

from tests.kit.party import Party
from tests.node.merging.stage import TASK, get_account, open_stage
from touchstone.node.kit.following import Following
from touchstone.node.loop.joined import Joined
from touchstone.node.loop.node import Node
from touchstone.node.loop.served_data import BODY_BYTES
from touchstone.node.training.idle_mode import IdleMode
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.spec.game.inner_dispute import InnerBook


def make_node(party: Party, role: type[Node] = Node) -> Node:
    batches: Any = None
    following = Following(party.chain, party.state, party.status, batches)
    return role(party.config, following, party.store, party.journal, party.client)


def join(node: Node, party: Party) -> Joined:
    node.joined = node.open_task(TASK, party.task.spec, party.task.corpus, party.peers)
    return node.joined


async def test_nothing_may_be_looked_at_before_a_task_is_joined_and_while_the_chain_lacks_it(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path, 1) as stage:
        party = stage.parties[1]
        node, submitter = make_node(party), party.game.terms.submitter
        assert node.find_view() is None and not node.is_member(submitter)
        joined = join(node, party)
        view = node.find_view()
        assert view is not None and (view.account, view.game) == (get_account(1), party.game)
        assert node.is_member(submitter) and not node.is_member("0x" + "99" * 20)
        served = joined.list_served(node.find_view)
        posted = party.state.games.pop(TASK)
        assert node.find_view() is None, "the block in which it was posted is taken back"
        assert not node.is_member(submitter)
        assert not served.may_read(submitter, BlobKind.TENSOR, bytes(32))
        party.state.games[TASK] = posted
        joined.close()


async def test_every_message_that_is_taken_is_answered_once_a_task_is_joined(tmp_path: Path) -> None:
    """Its length is known before, its answer is the rooms'."""
    async with open_stage(tmp_path, 1) as stage:
        node = make_node(stage.parties[1])
        node.state.inner[TASK] = InnerBook(10)
        joined = join(node, stage.parties[1])
        served = joined.list_served(node.find_view)
        assert served.answers.keys() == BODY_BYTES.keys()
        assert not served.may_read("0xa", BlobKind.TENSOR, bytes(32))
        joined.close()


async def test_replays_pause_where_their_node_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = list[object]()

    async def pause(room: IdleMode) -> None:
        paused.append(room)

    monkeypatch.setattr(IdleMode, "pause", pause)
    async with open_stage(tmp_path, 1) as stage:
        joined = join(make_node(stage.parties[1]), stage.parties[1])
        await joined.audits.room.pause()
        joined.close()
        assert paused == [joined.rooms.idle_mode]


async def test_a_journal_that_is_younger_than_its_seat_says_what_it_does_not_audit(tmp_path: Path) -> None:
    """Only the first time: draws of later rounds are audited, before and after a restart."""
    async with open_stage(tmp_path, 1) as stage:
        party = stage.parties[1]
        lines: Any = party.config.notify
        for is_told in (True, False):
            joined = join(make_node(party), party)
            assert joined.audits.room.book.begun == party.state.head_block > 0
            assert is_told == any("begins in block" in line for line in lines.__self__)
            lines.__self__.clear()
            joined.close()
