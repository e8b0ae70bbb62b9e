"""A node ends with status 3, and no service starts it again, only where nothing is left for it to do; and no
stake is locked again that its operator has taken out."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.e2e.world import AMOUNTS
from tests.node.health.test_checks import ACCOUNT
from tests.scripts.money import Operators
from tests.scripts.sitting import NOW, SEAT, MadeSession, run_nothing
from touchstone.node.kit.chain_state import Seated
from touchstone.protocol.adapters.chain import chain_client
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import GameChain, is_old
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.reports.node_state import STATE_FILE, End, NodeState
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.scripts.account import requirements, task_names
from touchstone.scripts.command_line.command_errors import ExitCode, NotNeeded
from touchstone.scripts.home.home_files import LEFT_FILE
from touchstone.scripts.home.home_folder import list_left, note_left
from touchstone.scripts.money import staking
from touchstone.scripts.seats import seat_session

TASK = b"t" * 32
STATEMENT = StatementRef(round=0, slot=0)
Change = Callable[[Any], Any]


def leave_verifier(operators: Operators, *, is_paid_out: bool = True) -> str:
    """A task whose only seat, alice's, was given up by her; she has the stake back."""
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    operators.run("alice", "leave", task[:8], "--yes")
    if is_paid_out:
        operators.run("alice", "withdraw", "--wait")
    return task


# Who asks
def fold_seats(*names: str) -> Seated:
    """What happens to seat 7 of a task, in turn: who joins it, or an event."""
    seated = Seated()
    for one in names:
        name = one if one.startswith("Seat") else "SeatJoined"
        event: Any = SimpleNamespace(name=name, arguments={"task": TASK, "seat": 7, "account": one})
        seated.take(event)
    return seated


def test_a_service_locks_no_stake_again_after_a_conviction() -> None:
    """Whatever computed falsely once may do so again. Who was only paid out may come back."""
    for name in ("SeatFreed", "SeatConvicted"):
        seated = fold_seats(ACCOUNT, name)
        assert seated.is_convicted(ACCOUNT, TASK) is (name == "SeatConvicted")
        assert not seated.is_convicted("another", TASK) and not seated.is_convicted(ACCOUNT, b"o" * 32)
    requirements.refuse_unasked(TASK, has_left=False, is_convicted=False)
    with pytest.raises(NotNeeded, match="was convicted in the task"):
        requirements.refuse_unasked(TASK, has_left=False, is_convicted=True)


def test_a_conviction_counts_though_another_account_has_the_number_of_the_seat() -> None:
    """The lowest free number is dealt out next: whoever joined had the stake locked again, by a service that
    was started anew after that."""
    assert fold_seats(ACCOUNT, "SeatConvicted", "SeatFreed", "another").is_convicted(ACCOUNT, TASK)


def test_an_old_conviction_does_not_count_after_a_seat_that_was_agreed_on_since() -> None:
    """The operator typed the command without --yes, and its service, which asks nothing, was started again
    later."""
    seats = (ACCOUNT, "SeatConvicted", "SeatFreed", ACCOUNT)
    assert not fold_seats(*seats, "SeatFreed").is_convicted(ACCOUNT, TASK)
    assert fold_seats(*seats, "SeatConvicted", "SeatFreed").is_convicted(ACCOUNT, TASK)


# What hides a seat
def test_a_seat_that_a_lagging_nodes_events_hide_is_not_given_up(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves, and has its duties still: a service that ended with status 3 would not come back for them.
    The provider's logs come from a machine that is some blocks behind."""
    task = leave_verifier(operators, is_paid_out=False)

    async def read_late(chain: GameChain, account: str = "") -> Any:
        state = await task_names.read_state(chain, account)
        found = await chain.read_events(chain.deployment.deploy_block, state.head_block)
        posted = next(one for one in found if one.arguments.get("task") == bytes.fromhex(task))
        known = tuple(one for one in found if one.block_number <= posted.block_number)
        late = type(state)(account.lower(), chain.bounds, chain.signing)
        late.take(LogBatch(await chain.head(), known))
        return late

    monkeypatch.setattr(seat_session, "read_state", read_late)
    lines = operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.REFUSED)
    assert "cannot tell yet whether this account has a seat" in lines[0] and "no event" in lines[2]


def test_a_bond_that_a_lagging_nodes_events_hide_is_not_given_up(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed as soon as it had opened a dispute. What the node takes of its credit for that shows: it
    keeps some for dearer bonds."""
    task = leave_verifier(operators)
    late = operators.act("alice", lambda chain: task_names.read_state(chain, chain.address))

    async def read_late(chain: GameChain, account: str = "") -> Any:
        return late

    monkeypatch.setattr(seat_session, "read_state", read_late)
    operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.NOT_NEEDED)
    operators.act("alice", lambda chain: chain.deposit_missing(7))
    lines = operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.REFUSED)
    assert "cannot tell yet" in lines[0] and "by the events that were read" in lines[2]


def test_an_old_head_hides_what_came_after_it(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    task = leave_verifier(operators)
    monkeypatch.setattr(requirements, "is_old", lambda *_: True)
    lines = operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.REFUSED)
    assert "cannot tell yet" in lines[0] and "its newest block" in lines[2]


def test_a_head_is_old_by_the_blocks_of_its_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a test network skips."""
    monkeypatch.setattr(chain_client, "time", SimpleNamespace(time=lambda: 1_060.5))
    head = Head(7, bytes(32), bytes(32), 1_000, 1)
    assert is_old(head, "12s") and not is_old(replace(head, timestamp_s=1_001), "12s")
    assert is_old(replace(head, timestamp_s=1_030), "2s") and not is_old(head, "local")


def test_a_join_that_waits_for_its_block_is_waited_for(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reorg took back the blocks with `join` and `leave`; both are to be mined again."""
    task, count = leave_verifier(operators), Connection.transaction_count

    async def count_one_more(self: Connection, address: str, block: str) -> int:
        return await count(self, address, block) + (block == "pending")

    monkeypatch.setattr(Connection, "transaction_count", count_one_more)
    monkeypatch.setattr(Operators, "count_sent", lambda *_: 0)
    lines = operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.REFUSED)
    assert "cannot tell yet" in lines[0] and lines[2].endswith("wait for their block: 1")


def test_a_node_is_needed_as_long_as_the_chain_may_take_back_how_its_seat_ended(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was convicted for silence, and in the block that came instead its answer stood. A service that was
    started in between did not start again, and was silent indeed. The same goes for a bond's game."""
    read_bounds = chain_client.read_bounds

    async def read_own(tasks: Any) -> Any:
        return replace(await read_bounds(tasks), name="own")

    def mine() -> None:
        operators.act("alice", lambda chain: chain.connection.request("anvil_mine", hex(REORG_BLOCKS)))

    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    mine()
    operators.run("alice", "leave", task[:8], "--yes")
    operators.run("alice", "withdraw", "--wait")
    monkeypatch.setattr(chain_client, "read_bounds", read_own)
    lines = operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.REFUSED)
    assert "cannot tell yet" in lines[0] and f"{REORG_BLOCKS} blocks ago" in lines[2]
    mine()
    operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.NOT_NEEDED)


def test_a_task_whose_id_starts_alike_keeps_no_node_from_its_seat(operators: Operators) -> None:
    """The service names its task by the digits that `touchstone status` shows. Whoever posts another task
    that starts with them ended the node at its next start, for as long as nobody looked."""
    task, account = operators.post_task("submitter"), operators.account_of("alice")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    state = operators.act("alice", lambda chain: task_names.read_state(chain, chain.address))
    alike = bytes.fromhex(task)[:6] + bytes(26)
    state.games[alike] = replace(state.games[bytes.fromhex(task)], seats={})
    assert state.account == account
    assert task_names.find_own_game(state, f"0x{task[:12]}")[0].hex() == task
    assert task_names.find_own_game(state, alike.hex())[0] == alike, "a whole id means that task alone"
    state.games[bytes.fromhex(task)] = state.games[alike]
    with pytest.raises(InvalidInput, match="several tasks start like that"):
        task_names.find_own_game(state, f"0x{task[:12]}")


# What was left stays left
def test_a_note_that_cannot_be_read_locks_no_stake(operators: Operators) -> None:
    """It counted as empty: the stake was locked again."""
    task = leave_verifier(operators)
    path = operators.home_of("alice") / LEFT_FILE
    path.unlink()
    path.mkdir()
    lines = operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.REFUSED)
    assert "the disk refuses a file or folder" in lines[0] and LEFT_FILE in lines[0]


def test_a_damaged_note_of_what_was_left_is_none(tmp_path: Path) -> None:
    (tmp_path / "left-for-good").write_bytes(b"\xff\xfe\x00")
    assert list_left(tmp_path) == set()
    note_left(tmp_path, TASK)
    assert list_left(tmp_path) == {TASK.hex()}


def test_one_damaged_line_takes_no_other_task_back(tmp_path: Path) -> None:
    note_left(tmp_path, TASK)
    path = tmp_path / LEFT_FILE
    path.write_bytes(b"\xff\xfe\n" + path.read_bytes())
    assert list_left(tmp_path) == {TASK.hex()}
    note_left(tmp_path, b"o" * 32)
    assert list_left(tmp_path) == {TASK.hex(), (b"o" * 32).hex()}


def test_tasks_that_are_left_at_once_are_all_left(tmp_path: Path) -> None:
    """Each command read the file, added its task and wrote it anew: the last one took the others back."""
    tasks = [bytes([number]) * 32 for number in range(16)]
    with ThreadPoolExecutor(len(tasks)) as threads:
        list(threads.map(partial(note_left, tmp_path), tasks))
    assert list_left(tmp_path) == {task.hex() for task in tasks}


def test_what_the_disk_did_not_take_is_written_down_when_it_is_typed_again(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second `leave` said that the seat leaves already, and wrote nothing."""

    def refuse(home: Path, task: bytes) -> None:
        raise OSError(28, "No space left on device", str(home))

    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    with monkeypatch.context() as full:
        full.setattr(staking, "note_left", refuse)
        said = operators.run("alice", "leave", task[:8], "--yes")
    assert "type this command again" in said and "--yes" in said
    assert list_left(operators.home_of("alice")) == set()
    assert "is leaving already" in operators.fail("alice", "leave", task[:8], "--yes")[0]
    assert list_left(operators.home_of("alice")) == {task}
    operators.run("alice", "withdraw", "--wait")
    operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.NOT_NEEDED)


def test_a_node_that_waits_for_its_seat_can_be_left_for_good(operators: Operators) -> None:
    """`leave` said that there is no open seat, and the stake was locked again in the evening."""
    task, home = operators.post_task("submitter"), operators.home_of("alice")
    assert "no open seat" in operators.fail("alice", "leave", task[:8], "--yes")[0]
    assert list_left(home) == set(), "no node of this home has ever run"
    (home / STATE_FILE).write_bytes(encode_message(NodeState(ACCOUNT, 1, 1, End.STOPPED, 0, 0, None, 1, ())))
    assert "no open seat" in operators.fail("alice", "leave", task[:8], "--yes")[0]
    assert list_left(home) == {task}


async def test_who_asks_for_a_seat_anew_has_not_left_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart of the node alone asks for none: what was typed before counts."""
    made_up = MadeSession(tmp_path, seat=SEAT)
    note_left(tmp_path, TASK)
    note_left(tmp_path, b"o" * 32)
    await made_up.sit(monkeypatch, run_nothing).agree()
    assert list_left(tmp_path) == {TASK.hex(), (b"o" * 32).hex()}
    made_up.seat = None
    with pytest.raises(NotNeeded, match="left the task for good"):
        await made_up.sit(monkeypatch, run_nothing).agree()
    sitting = made_up.sit(monkeypatch, run_nothing, is_agreed=False)
    await sitting.agree()
    assert sitting.request is not None and sitting.request.require_wanted is not None
    assert TASK.hex() in list_left(tmp_path), "the machine is checked first"
    sitting.request.require_wanted(NOW)
    assert list_left(tmp_path) == {(b"o" * 32).hex()}


async def test_a_service_that_looks_at_the_machine_takes_no_leave_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its killed run had sent a `join`. That was mined while this one looked, and its operator typed `leave`
    at once."""
    made_up = MadeSession(tmp_path)
    sitting = made_up.sit(monkeypatch, run_nothing)

    async def find_room(*_: object) -> Any:
        note_left(tmp_path, TASK)
        return SimpleNamespace(who="a solver", memory_bytes=1, disk_bytes=1)

    monkeypatch.setattr(seat_session, "find_room", find_room)
    await sitting.agree()
    assert list_left(tmp_path) == {TASK.hex()}


def test_a_leave_that_the_chain_refuses_leaves_a_node_with_its_seat(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note stays, and keeps no node from the seat that is still there."""
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)

    async def refuse(call: Awaitable[object]) -> None:
        asyncio.ensure_future(call).cancel()
        raise ContractRefused(what="no", expected="", actual="", remedy="", name="No", values={})

    with monkeypatch.context() as refusing:
        refusing.setattr(staking, "send", refuse)
        operators.fail("alice", "leave", task[:8], "--yes")
    assert list_left(operators.home_of("alice")) == {task}
    monkeypatch.setattr(seat_session, "RUN_ROLE", f"{__name__}:play_on")
    assert "going on as verifier" in operators.run("alice", "verify", task[:8], "--yes")


async def play_on(role: SeatRole, *_: object) -> bool:
    assert role is SeatRole.VERIFIER
    return False
