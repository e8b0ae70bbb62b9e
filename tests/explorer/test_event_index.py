"""Events are kept as they were, cut back by a reorg, and belong to one deployment."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from tests.explorer.plays import find_first, make_batch, make_deployment, open_reader, read_all
from tests.rounds.chain import RoundChain
from tests.rounds.player import Player
from touchstone.explorer.event_index import BLOCKS_AT_ONCE, EventIndex
from touchstone.explorer.report_documents import LOSS, Reported
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.follower import REMEMBERED_HEADS
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput


def list_all(index: EventIndex) -> list[Event]:
    return [event for events in index.list_blocks() for event in events]


async def test_a_file_holds_every_event_as_it_was(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    """Structs, lists, texts and large numbers: what is read from the file is what the chain said."""
    async with open_reader(chain) as reader:
        events = await read_all(reader)
    assert len({event.block_number for event in events}) > BLOCKS_AT_ONCE
    index = EventIndex(tmp_path / "index.sqlite", make_deployment(chain))
    index.take(make_batch(events, events[-1].block_number))
    index.close()
    again = EventIndex(tmp_path / "index.sqlite", make_deployment(chain))
    assert list_all(again) == events and again.count_events() == len(events)
    assert [head.base_fee_wei for head in again.list_heads()] == [1 << 70]
    opened = find_first(events, lambda one: one.name in ("DisputeOpened", "QueryOpened", "Contested"))
    name = opened.arguments.get("dispute") or opened.arguments["id"]
    assert again.list_of_subject(name) == [one for one in events if name in one.arguments.values()]
    again.close()


async def test_a_reorg_takes_back_events_and_heads(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    async with open_reader(chain) as reader:
        events = await read_all(reader)
    middle = events[len(events) // 2].block_number
    index = EventIndex(tmp_path / "index.sqlite", make_deployment(chain))
    index.take(make_batch([one for one in events if one.block_number < middle], middle - 1))
    index.take(make_batch([one for one in events if one.block_number >= middle], events[-1].block_number))
    moved = [replace(one, block_hash=b"\7" * 32) for one in events if one.block_number == middle]
    index.take(make_batch(moved, middle, forget_from=middle))
    index.take(make_batch(moved, middle))
    assert index.count_events() == len(list_all(index)), "what comes twice counts once"
    assert list_all(index) == [one for one in events if one.block_number < middle] + moved
    assert [head.number for head in index.list_heads()] == [middle - 1, middle]
    index.close()


async def test_only_the_newest_heads_are_kept(chain: RoundChain, tmp_path: Path) -> None:
    index = EventIndex(tmp_path / "index.sqlite", make_deployment(chain))
    for number in range(REMEMBERED_HEADS + 5):
        index.take(make_batch([], number))
    heads = [head.number for head in index.list_heads()]
    assert heads == list(range(5, REMEMBERED_HEADS + 5))
    index.close()


@pytest.mark.parametrize("kind", ["another deployment", "no database"])
def test_a_file_that_is_no_index_of_this_deployment_is_refused(
    chain: RoundChain, tmp_path: Path, kind: str
) -> None:
    path, deployment = tmp_path / "index.sqlite", make_deployment(chain)
    if kind == "no database":
        path.write_bytes(b"no database at all, but long enough to be looked at" * 100)
    else:
        EventIndex(path, deployment).close()
        deployment = structs.replace(deployment, game="0x" + "77" * 20)
    with pytest.raises(InvalidInput, match="no index of this deployment"):
        EventIndex(path, deployment)


def test_reports_are_kept_over_restarts_and_a_second_one_of_a_claim_is_not(
    chain: RoundChain, tmp_path: Path
) -> None:
    """Nodes end, so they cannot be had again. Another claim in the same slot is another one's."""
    path, task = tmp_path / "index.sqlite", b"t" * 32
    first = Reported(0, LOSS, 0, b"c" * 32, "0xaa", {"mean": 4.1})
    audit, other = replace(first, draw=1, rank=2), replace(first, claim_root=b"d" * 32)
    index = EventIndex(path, make_deployment(chain))
    for one in (first, replace(first, said={"mean": 0.1}), audit, other):
        index.put_report(task, 7, one, bytes(64))
    index.close()
    index = EventIndex(path, make_deployment(chain))
    assert index.list_reports(task, 7) == [first, other, audit]
    assert not index.list_reports(task, 8) and not index.list_reports(b"u" * 32, 7)
    index.close()


def test_a_file_is_one_explorers(chain: RoundChain, tmp_path: Path) -> None:
    """Two would each store events that the other has not folded. Whoever ends leaves the file free."""
    path, deployment = tmp_path / "index.sqlite", make_deployment(chain)
    index = EventIndex(path, deployment)
    with pytest.raises(EnvironmentFault, match="another explorer"):
        EventIndex(path, deployment)
    index.close()
    EventIndex(path, deployment).close()
