"""What comes over a node is seen, told in one line, counted and written down; so is its end."""

import asyncio
import logging
import resource
import shutil
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from touchstone.node.health import checks, endpoint_watch
from touchstone.node.health.checks import Past, Watch, take_over
from touchstone.node.health.endpoint_watch import RIGHT_LOOKS
from touchstone.node.health.work_words import WorkWords
from touchstone.node.kit.gas_factor import PROBE_GAS
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.endpoint_health import RpcHealth
from touchstone.protocol.adapters.chain.gate import Gate
from touchstone.protocol.adapters.machine import service_manager
from touchstone.protocol.adapters.reports.node_state import (
    STATE_FILE,
    End,
    HealthIssue,
    read_node_state,
)
from touchstone.protocol.spec.errors import Declined, EnvironmentFault

ACCOUNT, NO_PAST = "0x" + "ab" * 20, Past()
CHAIN_ID, DEPLOY_BLOCK = 31337, 4


class Connection:
    """A chain's node that a test spoils."""

    place = "http://127.0.0.1:1"
    rpc_urls = ("http://127.0.0.1:1",)

    def __init__(self) -> None:
        self.health = RpcHealth()
        self.id, self.bare, self.hash = CHAIN_ID, set[str](), b"h" * 32
        self.is_hanging = self.is_unprovable = False
        self.health.head = Head(9, b"", b"", int(time.time()), 0)

    async def chain_id(self) -> int:
        if self.is_hanging:
            await asyncio.Event().wait()
        self.health.note_answer()
        return self.id

    async def head(self) -> Head:
        assert self.health.head is not None
        return self.health.head

    async def priority_fee(self) -> int:
        return 2

    async def balance_of(self, account: str) -> int:
        assert account == ACCOUNT
        return 100

    async def blocks_everywhere(self, number: int) -> list[Head | None]:
        return [await self.block(number)]

    async def require_provable(self) -> None:
        if self.is_unprovable:
            raise EnvironmentFault(what="x", expected="", actual="another hash", remedy="", retryable=False)

    async def estimate_gas(self, sender: str, to: str, data: bytes, where: str) -> int:
        return 2 * PROBE_GAS

    async def code_at(self, address: str) -> bytes:
        return b"" if address in self.bare else b"code"

    async def block_by_hash(self, block_hash: bytes) -> Head | None:
        return Head(9, self.hash, b"", 0, 0) if block_hash == self.hash else None

    async def close(self) -> None:
        self.is_closed = True

    async def block(self, number: int) -> Head | None:
        return Head(number, self.hash, b"", 0, 0) if self.hash else None


def make_watch(home: Path, preset: str = "local", past: Past = NO_PAST) -> Any:
    """The watch of a node whose chain a test spoils."""
    deployment = SimpleNamespace(
        chain_id=CHAIN_ID,
        deploy_block=DEPLOY_BLOCK,
        token="0xt",
        contracts=lambda: {"Vault": "0xp", "Tasks": "0xk"},
    )
    connection = Connection()
    chain = SimpleNamespace(
        address=ACCOUNT,
        connection=connection,
        deployment=deployment,
        bounds=SimpleNamespace(name=preset),
        gate=Gate(cast(Any, connection)),
        sender=SimpleNamespace(is_capped=False),
        require_provable=connection.require_provable,
        game=SimpleNamespace(address="0xk", encode=lambda *_: b""),
    )
    return Watch(cast(Any, chain), cast(Any, SimpleNamespace(head_block=9)), home, lambda: None, past=past)


def list_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def list_written(home: Path) -> list[HealthIssue]:
    state = read_node_state(home)
    assert state is not None
    return [one.kind for one in state.health_issues]


async def check_episode(
    watch: Watch,
    home: Path,
    caplog: pytest.LogCaptureFixture,
    kind: HealthIssue,
    spoil: Any,
    mend: Any,
    right_looks: int = 1,
) -> str:
    """A health issue comes, stays and goes: one line each time, in the file meanwhile; its line. right_looks:
    so many end it."""
    await watch.check()
    assert watch.health_issues == {} and list_lines(caplog) == []
    spoil()
    await watch.check()
    await watch.check()
    assert list_written(home) == [kind] == list(watch.health_issues)
    assert len(list_lines(caplog)) == 1 == watch.counts[kind]
    mend()
    for _ in range(right_looks - 1):
        await watch.check()
        assert list(watch.health_issues) == [kind]
    await watch.check()
    assert list_written(home) == [] == list(watch.health_issues)
    said, over = list_lines(caplog)
    assert ", after " in over
    return said


async def test_a_clock_that_is_behind_the_chain_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = make_watch(tmp_path, "12s")
    health, now_s = watch.chain.connection.health, int(time.time())
    said = await check_episode(
        watch, tmp_path, caplog, HealthIssue.CLOCK_WRONG,
        lambda: setattr(health, "head", Head(9, b"", b"", now_s + 60, 0)),
        lambda: setattr(health, "head", Head(10, b"", b"", now_s, 0)),
    )  # fmt: skip
    assert "in the future" in said


async def test_that_nothing_is_signed_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that shows another block than the folded one, whatever else is right about it."""
    watch = make_watch(tmp_path)
    connection, gate = watch.chain.connection, watch.chain.gate
    gate.folded = Head(9, b"f" * 32, b"", 0, 0)
    monkeypatch.setattr(checks, "PROBE_LOOKS", 1)
    connection.hash = b"f" * 32
    said = await check_episode(
        watch, tmp_path, caplog, HealthIssue.NOTHING_SIGNED,
        lambda: setattr(gate, "folded", Head(9, b"e" * 32, b"", 0, 0)),
        lambda: setattr(gate, "folded", Head(9, b"f" * 32, b"", 0, 0)),
    )  # fmt: skip
    assert "block 9" in said


async def test_headers_that_cannot_be_proven_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "COIN_LOOKS", 1)
    watch = make_watch(tmp_path)
    connection = watch.chain.connection
    said = await check_episode(
        watch, tmp_path, caplog, HealthIssue.HEAD_UNPROVABLE,
        lambda: setattr(connection, "is_unprovable", True),
        lambda: setattr(connection, "is_unprovable", False),
    )  # fmt: skip
    assert "another hash" in said


async def test_gas_that_is_dearer_than_the_operator_allows_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = make_watch(tmp_path)
    watch.max_fee_wei = 15 * 10**8
    watch.chain.connection.health.head = Head(9, b"", b"", int(time.time()), 21 * 10**8)
    said = await check_episode(
        watch, tmp_path, caplog, HealthIssue.FEE_CAPPED,
        lambda: setattr(watch.chain.sender, "is_capped", True),
        lambda: setattr(watch.chain.sender, "is_capped", False),
    )  # fmt: skip
    assert "max_fee_gwei: one gas costs 2.1 gwei and a tip now, 1.5 gwei are allowed" in said


async def test_an_rpc_that_never_answers_is_silent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "PROBE_S", 0.05)
    watch = make_watch(tmp_path)
    connection = watch.chain.connection

    def spoil() -> None:
        connection.is_hanging = True
        connection.health.answered_s -= checks.SILENT_S + 1

    said = await check_episode(
        watch,
        tmp_path,
        caplog,
        HealthIssue.RPC_SILENT,
        spoil,
        lambda: setattr(connection, "is_hanging", False),
    )
    assert "silent" in said


async def test_a_chain_that_answers_and_cannot_be_read_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two endpoints that show different logs, or logs that this version cannot read."""
    watch = make_watch(tmp_path)
    health = watch.chain.connection.health

    def spoil() -> None:
        health.note_reading("http://a and http://b: different ones")
        health.unread_s -= checks.UNREAD_S + 1

    said = await check_episode(watch, tmp_path, caplog, HealthIssue.RPC_SILENT, spoil, health.note_reading)
    assert "http://a and http://b: different ones" in said


@pytest.mark.parametrize(("preset", "limit_s"), [("12s", 60), ("2s", 30)])
async def test_a_head_that_grows_old_lags(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, preset: str, limit_s: int
) -> None:
    watch = make_watch(tmp_path, preset)
    health, now_s = watch.chain.connection.health, int(time.time())
    health.head = Head(9, b"", b"", now_s - limit_s + 20, 0)
    said = await check_episode(
        watch,
        tmp_path,
        caplog,
        HealthIssue.RPC_LAGGING,
        lambda: setattr(health, "head", Head(9, b"", b"", now_s - limit_s - 5, 0)),
        lambda: setattr(health, "head", Head(10, b"", b"", now_s, 0)),
    )
    assert "block 9" in said


async def test_the_clock_of_a_test_network_skips(tmp_path: Path) -> None:
    watch = make_watch(tmp_path, "local")
    watch.chain.connection.health.head = Head(9, b"", b"", 5, 0)
    await watch.check()
    assert watch.health_issues == {}


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [("id", 5, "chain id 5"), ("hash", b"g" * 32, "block 4"), ("hash", b"", "block 4")],
)
async def test_another_chain_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, value: Any, word: str
) -> None:
    watch = make_watch(tmp_path)
    connection = watch.chain.connection
    usual = getattr(connection, name)
    said = await check_episode(
        watch,
        tmp_path,
        caplog,
        HealthIssue.CHAIN_CHANGED,
        lambda: setattr(connection, name, value),
        lambda: setattr(connection, name, usual),
        RIGHT_LOOKS,
    )
    assert word in said and said.startswith("the endpoint rpc_url http://127.0.0.1:1 shows another chain")


# Several endpoints
def add_endpoint(watch: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Connection, Connection]:
    """The two endpoints by themselves. Together they are the node's connection, in which the first one stands
    in for the second."""
    watch.chain.connection.rpc_urls = ("http://127.0.0.1:1", "http://127.0.0.1:2/v3/secret")
    own = {url: Connection() for url in watch.chain.connection.rpc_urls}
    monkeypatch.setattr(endpoint_watch, "Connection", lambda url, timeout_s: own[url])
    first, second = own.values()
    return first, second


NAME = "the endpoint rpc_urls[0] http://127.0.0.1:2/..."


async def test_one_endpoint_of_several_that_does_not_answer_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one answers for it, so nothing else tells that the node stands on its last one."""
    monkeypatch.setattr(checks, "PROBE_S", 0.05)
    watch = make_watch(tmp_path)
    _, second = add_endpoint(watch, monkeypatch)
    said = await check_episode(
        watch, tmp_path, caplog, HealthIssue.ENDPOINT_SILENT,
        lambda: setattr(second, "is_hanging", True),
        lambda: setattr(second, "is_hanging", False),
        RIGHT_LOOKS,
    )  # fmt: skip
    assert said == f"{NAME} does not answer"
    assert list_lines(caplog)[1].startswith(f"{NAME} answers again, after ")


@pytest.mark.parametrize(("name", "value"), [("id", 5), ("bare", {"0xp", "0xk", "0xt"}), ("hash", b"g" * 32)])
async def test_one_alien_endpoint_of_several_is_one_health_issue_by_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    """Asked together it was told anew with each endpoint that answered first, 38 times in three minutes."""
    watch = make_watch(tmp_path)
    first, second = add_endpoint(watch, monkeypatch)
    usual = getattr(second, name)
    said = await check_episode(
        watch, tmp_path, caplog, HealthIssue.CHAIN_CHANGED,
        lambda: setattr(second, name, value),
        lambda: setattr(second, name, usual),
        RIGHT_LOOKS,
    )  # fmt: skip
    assert said.startswith(f"{NAME} shows another chain: ") and "secret" not in said
    assert first.id == CHAIN_ID


async def test_of_endpoints_that_disagree_from_the_start_the_one_with_the_folded_block_is_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = make_watch(tmp_path)
    first, second = add_endpoint(watch, monkeypatch)
    first.hash = b"g" * 32
    await watch.check()
    assert watch.health_issues == {}, "nothing is read yet"
    watch.chain.gate.folded = Head(9, second.hash, b"", 0, 0)
    await watch.check()
    assert list(watch.health_issues) == [HealthIssue.CHAIN_CHANGED]
    (said,) = list_lines(caplog)
    assert said.startswith("the endpoint rpc_url http://127.0.0.1:1 shows another chain: block 4")


async def test_an_answer_that_is_none_hides_no_other_health_issue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up while something else than the chain's node answers for it."""

    async def answer_nonsense() -> int:
        raise ValueError("what is this?")

    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=9_000_000))
    watch = make_watch(tmp_path)
    watch.chain.connection.chain_id = answer_nonsense
    await watch.check()
    assert list(watch.health_issues) == [HealthIssue.DISK_FULL] == list_written(tmp_path)
    assert "the health checks cannot ask the chain's node" in caplog.text


@pytest.mark.parametrize("address", ["0xp", "0xk", "0xt"])
async def test_a_contract_that_has_gone_is_noticed_within_a_look_at_each(
    tmp_path: Path, address: str
) -> None:
    watch = make_watch(tmp_path)
    await watch.check()
    watch.chain.connection.bare = {address}
    for _ in range(3):
        await watch.check()
    assert list(watch.health_issues) == [HealthIssue.CHAIN_CHANGED], "it does not come and go with the turns"
    await watch.check()
    assert watch.counts[HealthIssue.CHAIN_CHANGED] == 1


@pytest.mark.parametrize(
    ("free", "kind"), [(900_000_000, HealthIssue.DISK_LOW), (9_000_000, HealthIssue.DISK_FULL)]
)
async def test_a_disk_that_fills_up(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    kind: HealthIssue,
) -> None:
    room = SimpleNamespace(free=10**12)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: room)
    said = await check_episode(
        make_watch(tmp_path),
        tmp_path,
        caplog,
        kind,
        lambda: setattr(room, "free", free),
        lambda: setattr(room, "free", 10**12),
    )
    assert f"{free / 1e6:,.0f} MB free" in said


async def test_a_large_task_needs_more_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5 * 10**9))
    watch = make_watch(tmp_path)
    terms = SimpleNamespace(parameter_count=10**6, segment_count=8)
    spec, game = SimpleNamespace(terms=terms), SimpleNamespace(seats={})
    watch.find_view = lambda: SimpleNamespace(account=ACCOUNT, spec=spec, game=game)
    monkeypatch.setattr(checks, "describe_view", lambda view: WorkWords())
    await watch.check()
    assert watch.health_issues == {}
    terms.parameter_count = 10**9
    await watch.check()
    assert list(watch.health_issues) == [HealthIssue.DISK_LOW]


async def test_a_disk_that_takes_no_byte_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The system refuses to write, whatever room there is, as with a quota."""
    watch, usual = make_watch(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    await watch.check()
    watch.write()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, usual[1]))
    try:
        watch.write()
        await watch.check()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert list(watch.health_issues) == [HealthIssue.DISK_FULL]
    await watch.check()
    await watch.check()
    assert watch.health_issues == {} and list_written(tmp_path) == []
    said, over = list_lines(caplog)
    assert "refuses the files of this node: File too large" in said and "has room again" in over


async def test_a_home_that_is_out_of_reach_is_noticed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    watch = make_watch(home)
    await watch.check()
    home.rename(tmp_path / "away")
    await watch.check()
    assert "cannot be reached" in watch.health_issues[HealthIssue.DISK_FULL].said
    (tmp_path / "away").rename(home)
    await watch.check()
    await watch.check()
    assert watch.health_issues == {} and list_written(home) == []


# Restarts
async def run_once(home: Path, error: BaseException | None = None) -> Watch:
    watch: Watch = make_watch(home, past=take_over(home))
    try:
        async with watch.running():
            if error is not None:
                raise error
    except (asyncio.CancelledError, EnvironmentFault, Declined):
        pass
    return watch


def read_end(home: Path) -> End:
    state = read_node_state(home)
    assert state is not None
    return state.end


async def test_a_first_start_is_no_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = await run_once(tmp_path)
    assert watch.past == Past() and list_lines(caplog) == []
    assert (tmp_path / STATE_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("error", "end", "word"),
    [
        (None, End.STOPPED, "was stopped"),
        (asyncio.CancelledError(), End.STOPPED, "was stopped"),
        (EnvironmentFault(what="", expected="", actual="", remedy=""), End.FAILED, "ended with an error"),
    ],
)
async def test_a_restart_is_told_with_how_the_run_before_ended(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    error: BaseException | None,
    end: End,
    word: str,
) -> None:
    """One that was stopped in good order is nothing to be warned of."""
    await run_once(tmp_path, error)
    assert read_end(tmp_path) is end
    caplog.set_level(logging.INFO)
    watch = await run_once(tmp_path)
    assert watch.past == Past(1, 0, end)
    (record,) = [one for one in caplog.records if "was restarted" in one.getMessage()]
    assert word in record.getMessage()
    assert record.levelno == (logging.INFO if end is End.STOPPED else logging.WARNING)


async def test_a_question_that_was_answered_with_no_is_neither_a_crash_nor_a_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`task create` asks before it posts. A no was told as an error, and counted as a restart by alerts."""
    no = Declined(what="nothing was done", expected="", actual="", remedy="")
    await run_once(tmp_path, no)
    assert read_end(tmp_path) is End.DECLINED
    assert (await run_once(tmp_path, no)).past == Past()
    watch = await run_once(tmp_path)
    assert watch.past == Past() and list_lines(caplog) == []
    await run_once(tmp_path, no)
    assert (await run_once(tmp_path)).past == Past(1, 0, End.STOPPED)


async def test_a_run_that_said_no_end_was_killed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_watch(tmp_path).write()
    watch = make_watch(tmp_path, past=take_over(tmp_path))
    assert watch.past == Past(1, 1, End.KILLED)
    watch.write()
    (line,) = list_lines(caplog)
    assert "was killed" in line
    state = read_node_state(tmp_path)
    assert state is not None and (state.restarts, state.kills, state.earlier_end) == (1, 1, End.KILLED)


async def test_a_look_that_was_under_way_does_not_take_back_the_end(tmp_path: Path) -> None:
    """It writes in a thread of its own, and may come after the end."""
    watch = await run_once(tmp_path)
    await watch.check()
    watch.write()
    assert read_end(tmp_path) is End.STOPPED


async def test_a_bug_in_a_look_does_not_end_the_watch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "LOOK_S", 0.01)
    watch = make_watch(tmp_path)
    health = watch.chain.connection.health
    watch.chain.bounds = None
    async with asyncio.timeout(60), watch.running():
        while "the health checks failed" not in caplog.text:
            await asyncio.sleep(0.01)
        watch.chain.bounds = SimpleNamespace(name="12s")
        health.head = Head(9, b"", b"", 5, 0)
        while not watch.health_issues:
            await asyncio.sleep(0.01)
    assert list(watch.health_issues) == [HealthIssue.RPC_LAGGING]


@pytest.mark.parametrize(("preset", "asked"), [("local", 13), ("12s", 3), ("2s", 3)])
async def test_a_provider_is_asked_less_often_than_a_test_network(
    tmp_path: Path, preset: str, asked: int
) -> None:
    watch = make_watch(tmp_path, preset)
    questions, usual = list[int](), watch.chain.connection.chain_id

    async def count() -> int:
        questions.append(1)
        return int(await usual())

    watch.chain.connection.chain_id = count
    for _ in range(13):
        await watch.check()
    assert len(questions) == asked


async def test_the_watch_knows_how_much_gas_the_coin_pays_for(tmp_path: Path) -> None:
    watch = make_watch(tmp_path)
    assert (watch.gas_left, watch.gas_factor) == (None, None)
    watch.chain.connection.health.head = Head(9, b"", b"", int(time.time()), 8)
    await watch.check()
    assert watch.gas_left == 10
    assert watch.gas_factor == 2.0


async def test_a_node_that_is_busy_with_itself_does_not_blame_the_chain(tmp_path: Path) -> None:
    """Before its seat a node opens its task and trains a step: nothing else asks the chain meanwhile."""
    watch = make_watch(tmp_path, "12s")
    connection = watch.chain.connection

    async def answer() -> Head:
        connection.health.note_answer()
        head = connection.health.head = Head(9, b"", b"", int(time.time()), 0)
        return head

    connection.head = answer
    for _ in range(13):
        connection.health.answered_s -= 3
        connection.health.head = Head(9, b"", b"", int(time.time()) - 70, 0)
        await watch.check()
        connection.health.answered_s -= 0.5
    assert not watch.counts[HealthIssue.RPC_SILENT]


async def test_a_slow_provider_tells_of_the_coin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers each question in time, and all of them one after the other would take too long."""
    monkeypatch.setattr(checks, "PROBE_S", 0.5)
    watch = make_watch(tmp_path)
    connection = watch.chain.connection
    for name in ("chain_id", "balance_of"):
        usual = getattr(connection, name)

        async def wait(*given: str, usual: Any = usual) -> Any:
            await asyncio.sleep(0.3)
            return await usual(*given)

        setattr(connection, name, wait)
    await watch.check()
    assert watch.gas_left == 50


async def test_health_is_false_while_the_node_has_an_issue_and_if_the_checks_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = make_watch(tmp_path)
    await watch.check()
    assert watch.find_issues() == {}
    watch.chain.sender.is_capped = True
    await watch.check()
    assert list(watch.find_issues()) == ["fee_capped"]
    watch.chain.sender.is_capped = False
    await watch.check()
    assert watch.find_issues() == {}
    monkeypatch.setattr(checks, "STALE_S", -1.0)
    assert "have not run for" in watch.find_issues()["health_checks"]


async def test_systemd_hears_that_the_node_is_up_alive_and_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an issue too: a restart mends none, and costs a round."""
    monkeypatch.setattr(checks, "LOOK_S", 0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30.0)
        monkeypatch.setenv(service_manager.VARIABLE, str(tmp_path / "notify"))
        watch, heard = make_watch(tmp_path), list[bytes]()
        watch.chain.sender.is_capped = True
        async with watch.running():
            for _ in range(2):
                heard.append(await asyncio.to_thread(manager.recv, 4096))
        assert heard[0].startswith(b"READY=1\nWATCHDOG=1\nSTATUS=a transaction waits")
        assert heard[1].startswith(b"WATCHDOG=1\n")
        while not heard[-1].startswith(b"STOPPING=1"):
            heard.append(await asyncio.to_thread(manager.recv, 4096))
