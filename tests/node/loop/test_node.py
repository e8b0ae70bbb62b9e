"""An open node: what may be looked at, what it shows once it has joined, and how its audits wait."""

from pathlib import Path

import pytest

from tests.kit.nodes import TASK, get_account, open_joined
from tests.node.merging.stage import make_world
from touchstone.node.kit.config import Notify
from touchstone.node.loop import node as node_module
from touchstone.node.loop.served_data import BODY_BYTES
from touchstone.node.training.idle_mode import IdleMode
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.timing import REORG_BLOCKS


def test_nothing_may_be_looked_at_before_a_task_is_joined_and_while_the_chain_lacks_it(
    tmp_path: Path,
) -> None:
    with open_joined(tmp_path, make_world().state) as node:
        submitter, joined, node.joined = node.game.terms.submitter, node.task, None
        assert node.find_view() is None and not node.is_member(submitter)
        node.joined = joined
        view = node.find_view()
        assert view is not None and (view.account, view.game) == (get_account(1), node.game)
        assert node.is_member(submitter) and not node.is_member("0x" + "99" * 20)
        served = joined.list_served(node.find_view)
        del node.state.games[TASK]
        assert node.find_view() is None, "the block in which it was posted is taken back"
        with pytest.raises(GateShut):
            joined.audits.room.find_peer(submitter)
        assert not node.is_member(submitter)
        assert not served.may_read(submitter, BlobKind.TENSOR, bytes(32))


def test_every_message_that_is_taken_is_answered_once_a_task_is_joined(tmp_path: Path) -> None:
    """Its length is known before, its answer is the rooms'."""
    with open_joined(tmp_path, make_world().state) as node:
        served = node.task.list_served(node.find_view)
        assert served.answers.keys() == BODY_BYTES.keys()
        assert not served.may_read("0xa", BlobKind.TENSOR, bytes(32))


async def test_replays_pause_where_their_node_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = list[object]()

    async def pause(room: IdleMode) -> None:
        paused.append(room)

    monkeypatch.setattr(IdleMode, "pause", pause)
    with open_joined(tmp_path, make_world().state) as node:
        await node.task.audits.room.pause()
        assert paused == [node.rooms.idle_mode]


@pytest.mark.parametrize("role", SeatRole)
def test_a_journal_that_is_younger_than_its_seat_says_what_it_does_not_audit(
    tmp_path: Path, role: SeatRole
) -> None:
    """Only to who audits, and only the first time: draws of later rounds are audited, before and after a
    restart."""
    state, lines = make_world().state, list[str]()
    account = next(seat.account for seat in state.seats.values() if seat.role == role)
    for is_new in (True, False):
        with open_joined(tmp_path, state, account=account, head_block=9, notify=lines.append) as node:
            assert node.task.audits.room.book.begun == 9
        is_told = any("begins at block" in line for line in lines)
        assert is_told == (is_new and role != SeatRole.SOLVER)
        lines.clear()


async def test_a_journal_that_is_new_to_a_task_begins_with_a_block_of_now(tmp_path: Path) -> None:
    """A provider that is behind, and a journal that was lost: its seals are of later blocks."""
    waited = list[int]()
    with open_joined(tmp_path, make_world().state, head_block=100) as node:

        async def catch_up(notify: Notify) -> None:
            waited.append(node.state.head_block)

        vars(node.following)["catch_up"] = catch_up
        node.state.games.clear()
        for head, count in ((100, 0), (100 - REORG_BLOCKS, 0), (100 - REORG_BLOCKS - 1, 1)):
            node.state.head_block = head
            with pytest.raises(InvalidInput, match="unknown task"):
                await node.join(TASK)
            assert len(waited) == count, "it began in a block that was never there"
        with pytest.raises(InvalidInput, match="unknown task"):
            await node.join(b"another task".ljust(32))
        assert len(waited) == 2


def test_a_task_whose_journal_fails_opens_no_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would end them."""
    opened = list[object]()

    def refuse(journal: Journal, record: object) -> None:
        raise EnvironmentFault(what="the journal cannot be written", expected="", actual="", remedy="")

    monkeypatch.setattr(node_module, "open_seated_pool", lambda *asked: opened.append(asked))
    monkeypatch.setattr(Journal, "append", refuse)
    joining = open_joined(tmp_path, make_world().state)
    with pytest.raises(EnvironmentFault, match="cannot be written"), joining:
        raise AssertionError("it has joined")
    assert not opened
