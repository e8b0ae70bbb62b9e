"""The ABI is the only list of calls: every call in the sources is in it, with as many arguments."""

import ast
import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from protocol.adapters.chain import contract
from protocol.adapters.chain.abi import encode_values, load_own_abi, to_snake_case
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.contract import ERC20_ABI, Contract, EventReader, Follower, LogBatch
from protocol.adapters.chain.deployment import GAME_CONTRACTS
from protocol.spec.containers import StateHeader
from protocol.spec.errors import EnvironmentFault, InvalidInput
from tests.protocol.adapters.anvil import STAKE_WEI, TestChain, make_deployment, run_test_chain

ROOT = Path(__file__).resolve().parents[4]
FOLDERS = ("benchmarks", "explorer", "node", "protocol", "scripts", "tests", "verifier", "whistleblower")
ABIS = {field: load_own_abi(name) for field, name in GAME_CONTRACTS.items()} | {"token": ERC20_ABI}
OWN = {"randomness": {"prove": 1}}
"""Methods that are no call of the contract, and their arguments."""


NAMING = ("encode", "estimate_gas")
"""Methods whose first argument names a function."""


def find_field(node: ast.expr) -> str:
    """The contract that an expression such as `party.chain.rounds` stands for; empty: none."""
    if not isinstance(node, ast.Attribute) or node.attr not in ABIS:
        return ""
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return node.attr if name == "chain" else ""


def list_aliases(tree: ast.AST) -> dict[str, str]:
    """Names that stand for a contract: `book = party.chain.votes`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            pairs: Iterable[tuple[ast.expr, ast.expr]] = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = zip(target.elts, value.elts, strict=False)
            found |= {t.id: find_field(v) for t, v in pairs if isinstance(t, ast.Name) and find_field(v)}
    return found


def list_calls(source: str) -> Iterator[tuple[str, str, int]]:
    """(contract's field, method, number of arguments) of each call in a source."""
    tree = ast.parse(source)
    aliases = list_aliases(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        field = find_field(owner) or (aliases.get(owner.id, "") if isinstance(owner, ast.Name) else "")
        if field and not any(isinstance(argument, ast.Starred) for argument in node.args):
            method, arguments = node.func.attr, node.args
            if method in NAMING and arguments and isinstance(arguments[0], ast.Constant):
                method, arguments = str(arguments[0].value), arguments[1:]
            yield field, method, len(arguments) + len(node.keywords)


def find_mistakes(source: str) -> list[str]:
    mistakes = []
    for field, method, count in list_calls(source):
        known = {to_snake_case(e.name): len(e.inputs) for e in ABIS[field] if e.kind == "function"}
        known |= OWN.get(field, {})
        if known.get(method) != count:
            mistakes.append(f"{field}.{method} with {count} arguments")
    return mistakes


def test_every_call_in_the_sources_is_in_the_abi() -> None:
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = {str(path): mistakes for path in sources if (mistakes := find_mistakes(path.read_text()))}
    assert not found
    assert sum(len(list(list_calls(path.read_text()))) for path in sources) > 50


def test_a_wrong_call_is_found() -> None:
    assert find_mistakes("await chain.purse.deposit(1)\nawait party.chain.purse.credit_of(a)") == []
    assert find_mistakes("await chain.purse.depozit(1)") == ["purse.depozit with 1 arguments"]
    assert find_mistakes("await self.party.chain.purse.deposit()") == ["purse.deposit with 0 arguments"]
    assert find_mistakes("a, b = 1, chain.votes\nb.judge(1)") == ["votes.judge with 1 arguments"]
    assert find_mistakes("chain.votes.encode('judge', 1)") == ["votes.judge with 1 arguments"]
    assert find_mistakes("await chain.purse.estimate_gas('deposit', 1)") == []


def make_contract() -> Contract:
    connection, zero = Connection("http://127.0.0.1:1"), "0x" + 40 * "0"
    deployment = make_deployment(1, [zero] * (1 + len(GAME_CONTRACTS)))
    return Contract("Purse", zero, connection, None, EventReader(connection, deployment))


async def test_a_function_that_is_not_in_the_abi_is_no_method() -> None:
    with pytest.raises(AttributeError, match="Purse has no function mint"):
        await make_contract().mint(1)


async def test_nothing_is_sent_without_an_account() -> None:
    with pytest.raises(InvalidInput, match="for reading only") as refusal:
        await make_contract().deposit(1)
    assert "Purse.deposit" in str(refusal.value.actual)


async def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match="does not fit"):
        await make_contract().credit_of(7)


ADDRESSES = [f"0x{number:040x}" for number in range(1, 14)]
DEPLOYMENT = make_deployment(1, ADDRESSES)
HEADER = StateHeader(b"\1" * 32, b"\2" * 32, b"\3" * 32, 4, 5)


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


def make_log(contract: str, name: str, indexed: list[object], plain: list[object]) -> dict[str, object]:
    entry = next(e for e in load_own_abi(contract) if e.kind == "event" and e.name == name)
    keys = [parameter for parameter in entry.inputs if parameter.is_indexed]
    others = [parameter for parameter in entry.inputs if not parameter.is_indexed]
    topics = [encode_values([key], [value]) for key, value in zip(keys, indexed, strict=True)]
    return {
        "address": DEPLOYMENT.contracts()[contract].upper().replace("0X", "0x"),
        "topics": [entry.digest, *topics],
        "data": encode_values(others, plain),
        "blockNumber": 7,
        "logIndex": 1,
        "blockHash": b"b" * 32,
        "transactionHash": b"t" * 32,
    }


def read_deposits(batch: LogBatch) -> list[int]:
    return [e.arguments["wei_"] // STAKE_WEI for e in batch.events if e.name == "Deposited"]


async def read_next(follower: Follower, net: TestChain) -> LogBatch:
    batch = await follower.read_up_to(await net.chain.head())
    assert batch is not None
    return batch


def make_follower(net: TestChain) -> Follower:
    return Follower(net.chain.connection, EventReader(net.chain.connection, net.chain.deployment), 0)


@pytest.fixture
async def reader() -> AsyncIterator[EventReader]:
    connection = Connection("http://127.0.0.1:1")
    yield EventReader(connection, DEPLOYMENT)
    await connection.close()


def test_structs_are_those_of_the_specification_and_lists_are_tuples(reader: EventReader) -> None:
    task, name = b"\7" * 32, b"\6" * 32
    raw = [
        make_log("Disputes", "TracePosted", [task, name], [b"t" * 32, HEADER, HEADER, 9]),
        make_log("Disputes", "StepRootsPosted", [task, name], [[b"1" * 32, b"2" * 32], 9]),
    ]
    posted, roots = reader.decode(raw)
    assert posted.arguments == {
        "task": task, "dispute": name, "trace_root": b"t" * 32, "start": HEADER, "end": HEADER,
        "clock_block": 9,
    }  # fmt: skip
    assert roots.arguments["roots"] == (b"1" * 32, b"2" * 32)


def test_texts_are_text(reader: EventReader) -> None:
    [announced] = reader.decode([make_log("Tasks", "Announced", [ADDRESSES[0]], ["https://node", b"c" * 32])])
    assert announced.arguments == {
        "account": ADDRESSES[0], "url": "https://node", "certificate_sha256": b"c" * 32
    }  # fmt: skip


def test_logs_of_other_contracts_and_unknown_events_are_left_out(reader: EventReader) -> None:
    log = make_log("Tasks", "Announced", [ADDRESSES[0]], ["https://node", b"c" * 32])
    foreign = {**log, "address": "0x" + 40 * "9"}
    unknown = {**log, "topics": [b"u" * 32]}
    assert reader.decode([foreign, unknown, {**log, "topics": []}]) == []


async def test_long_ranges_are_read_in_spans(net: TestChain, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        await net.chain.purse.deposit(STAKE_WEI)
    head = (await net.chain.head()).number
    whole = await net.chain.read_events(0, head)
    assert len(whole) == 5
    monkeypatch.setattr(contract, "LOG_SPAN_BLOCKS", 2)
    assert await net.chain.read_events(0, head) == whole
    assert await net.chain.read_events(head, head) == whole[-1:]


async def test_what_is_sent_is_logged_with_its_transaction(
    net: TestChain, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger=contract.__name__):
        receipt = await net.chain.purse.deposit(STAKE_WEI)
    (record,) = caplog.records
    assert record.getMessage() == f"Purse.deposit is mined in block {receipt.block_number}"
    assert vars(record)["transaction"] == receipt.transaction_hash.hex() and vars(record)["round"] is None


async def test_what_is_too_long_for_one_answer_is_read_in_parts() -> None:
    """Anybody can log so much in a day that no node of a chain answers for all of it at once."""
    asked: list[tuple[int, int]] = []

    class Chain:
        async def logs(self, addresses: list[str], start: int, end: int) -> list[dict[str, object]]:
            if end - start >= 3:
                raise EnvironmentFault(what="too long", expected="", actual="", remedy="")
            asked.append((start, end))
            return [
                {**make_log("Purse", "Deposited", [ADDRESSES[0]], [1]), "blockNumber": block}
                for block in range(start, end + 1)
            ]

    reader = EventReader(cast(Connection, Chain()), DEPLOYMENT)
    found = await reader.read(5, 20)
    assert [event.block_number for event in found] == list(range(5, 21))
    assert all(end - start < 3 for start, end in asked)


async def test_a_block_that_cannot_be_read_is_told() -> None:
    class Chain:
        async def logs(self, addresses: list[str], start: int, end: int) -> list[dict[str, object]]:
            raise EnvironmentFault(what="silent", expected="", actual="", remedy="")

    with pytest.raises(EnvironmentFault, match="silent"):
        await EventReader(cast(Connection, Chain()), DEPLOYMENT).read(5, 20)


async def test_a_follower_hands_out_every_event_once(net: TestChain) -> None:
    follower = make_follower(net)
    await net.chain.purse.deposit(STAKE_WEI)
    assert read_deposits(await read_next(follower, net)) == [1]
    # A gap: several blocks between two looks.
    await net.chain.purse.deposit(2 * STAKE_WEI)
    await net.anvil("anvil_mine", 5)
    await net.chain.purse.deposit(3 * STAKE_WEI)
    assert read_deposits(await read_next(follower, net)) == [2, 3]
    batch = await read_next(follower, net)
    assert batch.events == () and batch.forget_from is None


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_reorg_is_noticed_and_read_again_from_the_fork(net: TestChain, depth: int) -> None:
    follower = make_follower(net)
    await read_next(follower, net)
    for amount in (1, 2, 3):
        await net.chain.purse.deposit(amount * STAKE_WEI)
        assert read_deposits(await read_next(follower, net)) == [amount]
    head = (await net.chain.head()).number
    await net.anvil("anvil_reorg", depth, [])
    await net.chain.purse.deposit(9 * STAKE_WEI)
    batch = await read_next(follower, net)
    assert batch.forget_from == head - depth + 1
    assert read_deposits(batch) == [9]
    assert (await read_next(follower, net)).forget_from is None


async def test_a_reorg_deeper_than_the_memory_is_read_from_the_start(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "REMEMBERED_HEADS", 2)
    follower = make_follower(net)
    for amount in (1, 2, 3, 4):
        await net.chain.purse.deposit(amount * STAKE_WEI)
        await read_next(follower, net)
    await net.anvil("anvil_reorg", 3, [])
    batch = await read_next(follower, net)
    assert batch.forget_from == 0 and read_deposits(batch) == [1]


async def test_a_head_that_was_dropped_meanwhile_gives_no_batch(net: TestChain) -> None:
    follower = make_follower(net)
    await net.chain.purse.deposit(STAKE_WEI)
    head = await net.chain.head()
    assert await follower.read_up_to(replace(head, block_hash=bytes(32))) is None
    assert read_deposits(await read_next(follower, net)) == [1]


async def test_a_chain_that_hides_its_logs_for_a_while_is_asked_again(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells of a head, and a moment later it is silent, or the provider has had enough requests."""
    usual, failures = Connection.logs, 3

    async def fail_first(self: Connection, *place: Any) -> list[dict[str, Any]]:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise EnvironmentFault(what="silent", expected="", actual="", remedy="")
        return await usual(self, *place)

    monkeypatch.setattr(contract, "RETRY_S", 0.01)
    monkeypatch.setattr(Connection, "logs", fail_first)
    monkeypatch.setattr(contract, "LOG_SPAN_BLOCKS", 1)
    await net.chain.purse.deposit(STAKE_WEI)
    assert read_deposits(await anext(net.chain.follow())) == [1] and failures < 0
    failures = 10**9
    monkeypatch.setattr(contract, "PATIENCE_S", -1.0)
    with pytest.raises(EnvironmentFault, match="silent"):
        await anext(net.chain.follow())


async def test_following_goes_on_with_each_head(net: TestChain) -> None:
    batches = net.chain.follow()
    first = await anext(batches)
    assert first.events == () and first.head.number == (await net.chain.head()).number
    waiting = asyncio.ensure_future(anext(batches))
    await net.chain.purse.deposit(STAKE_WEI)
    assert read_deposits(await waiting) == [1]
