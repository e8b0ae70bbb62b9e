"""Logs of the contracts in Python: structs of the specification, texts, ranges that are too long."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.protocol.adapters.anvil import STAKE_WEI, TestChain, make_deployment, run_test_chain
from touchstone.protocol.adapters.chain import contract_events as events
from touchstone.protocol.adapters.chain.abi import load_own_abi
from touchstone.protocol.adapters.chain.abi_values import encode_values
from touchstone.protocol.adapters.chain.answers import Log
from touchstone.protocol.adapters.chain.connection import Connection, Decode
from touchstone.protocol.adapters.chain.contract_events import Event, EventReader
from touchstone.protocol.adapters.chain.deployment import find_receiver
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.state_headers import StateHeader

ADDRESSES = [f"0x{number:040x}" for number in range(1, 17)]
DEPLOYMENT = make_deployment(1, ADDRESSES)
HEADER = StateHeader(b"\1" * 32, b"\2" * 32, b"\3" * 32, 4, 5)


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


def make_log(contract: str, name: str, indexed: list[object], plain: list[object], block: int = 7) -> Log:
    entry = next(e for e in load_own_abi(contract) if e.kind == "event" and e.name == name)
    keys = [parameter for parameter in entry.inputs if parameter.is_indexed]
    others = [parameter for parameter in entry.inputs if not parameter.is_indexed]
    topics = [encode_values([key], [value]) for key, value in zip(keys, indexed, strict=True)]
    data = encode_values(others, plain)
    address = DEPLOYMENT.contracts()[find_receiver(contract)].lower()
    return Log(address, (entry.digest, *topics), data, block, b"b" * 32, 1, b"t" * 32)


@pytest.fixture
async def reader() -> AsyncIterator[EventReader]:
    connection = Connection("http://127.0.0.1:1")
    yield EventReader(connection, DEPLOYMENT)
    await connection.close()


def test_structs_are_those_of_the_specification_and_lists_are_tuples(reader: EventReader) -> None:
    task, name = b"\7" * 32, b"\6" * 32
    raw = [
        make_log("Steps", "TracePosted", [task, name], [b"t" * 32, HEADER, HEADER, 9]),
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
    foreign = replace(log, address="0x" + 40 * "9")
    unknown = replace(log, topics=(b"u" * 32,))
    assert reader.decode([foreign, unknown, replace(log, topics=())]) == []


async def test_long_ranges_are_read_in_spans(net: TestChain, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        await net.chain.vault.deposit(STAKE_WEI)
    head = (await net.chain.head()).number
    whole = await net.chain.read_events(0, head)
    assert len(whole) == 5
    monkeypatch.setattr(events, "LOG_SPAN_BLOCKS", 2)
    assert await net.chain.read_events(0, head) == whole
    assert await net.chain.read_events(head, head) == whole[-1:]


async def test_what_is_too_long_for_one_answer_is_read_in_parts() -> None:
    """Anybody can log so much in a day that no node of a chain answers for all of it at once."""
    asked: list[tuple[int, int]] = []

    class Chain:
        async def logs(
            self, addresses: list[str], start: int, end: int, decode: Decode[Event]
        ) -> list[Event]:
            if end - start >= 3:
                raise EnvironmentFault(what="too long", expected="", actual="", remedy="")
            asked.append((start, end))
            return decode(
                [
                    make_log("Vault", "Deposited", [ADDRESSES[0]], [1], block)
                    for block in range(start, end + 1)
                ]
            )

    reader = EventReader(cast(Connection, Chain()), DEPLOYMENT)
    found = await reader.read(5, 20)
    assert [event.block_number for event in found] == list(range(5, 21))
    assert all(end - start < 3 for start, end in asked)


async def test_a_block_that_cannot_be_read_is_told() -> None:
    class Chain:
        async def logs(
            self, addresses: list[str], start: int, end: int, decode: Decode[Event]
        ) -> list[Event]:
            raise EnvironmentFault(what="silent", expected="", actual="", remedy="")

    with pytest.raises(EnvironmentFault, match="silent"):
        await EventReader(cast(Connection, Chain()), DEPLOYMENT).read(5, 20)
