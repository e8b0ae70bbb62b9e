"""Solvers with buckets: a round is merged from them, and from the nodes themselves where the buckets fail."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.roles import make_cast
from tests.e2e.world import TINY_PLAN, World, open_world, run_world
from tests.protocol.adapters.storages import BUCKET, make_settings, run_moto, use_credentials
from touchstone.node.kit.config import NodeConfig
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage
from touchstone.protocol.adapters.wire.storage_reader import StorageReader
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import RoundPhase

SCHEDULE = replace(TINY_PLAN.schedule, total_steps=TINY_PLAN.inner_steps)
PLAN = replace(TINY_PLAN, rounds=1, schedule=SCHEDULE, late_chance=0, least_whistleblowers=0)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectStorage]:
    use_credentials(monkeypatch, tmp_path)
    with run_moto() as url:
        yield make_settings(url)


def watch(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many downloads from buckets came, and failed."""
    seen, copy = Counter[str](), StorageReader.copy

    async def count(self: StorageReader, *arguments: Any) -> None:
        try:
            await copy(self, *arguments)
            seen["came"] += 1
        except EnvironmentFault:
            seen["failed"] += 1
            raise

    monkeypatch.setattr(StorageReader, "copy", count)
    return seen


@pytest.mark.parametrize("is_emptied", [False, True])
async def test_a_round_is_merged_from_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: ObjectStorage, is_emptied: bool
) -> None:
    parts = make_cast(solvers=3, verifiers=3, watchers=0)
    client = Bucket.open(storage, "0x").client
    client.create_bucket(Bucket=BUCKET)
    put, configure, uploaded = Bucket.put, World.configure, list[str]()

    async def put_and_empty(self: Bucket, *arguments: Any) -> None:
        """Where the bucket is emptied, whatever was uploaded is gone at once, and the node does not know."""
        await put(self, *arguments)
        name = self._name(arguments[0])
        uploaded.append(name)
        if is_emptied:
            client.delete_object(Bucket=BUCKET, Key=name)

    def add_bucket(self: World, name: str) -> NodeConfig:
        bucket = BUCKET if name.startswith("solver") else ""
        mine = make_settings(storage.endpoint_url, bucket=bucket)
        return replace(configure(self, name), object_storage=mine)

    monkeypatch.setattr(Bucket, "put", put_and_empty)
    monkeypatch.setattr(World, "configure", add_bucket)
    seen = watch(monkeypatch)
    async with open_world(tmp_path, tuple(parts)) as world:
        game, _ = await run_world(world, PLAN, parts)
    (game_round,) = game.rounds.values()
    assert game_round.phase == RoundPhase.POSTED and len(game_round.merged) == 3
    assert len({name for name in uploaded if "/delta/" in name}) == 3 == len(set(uploaded))
    assert seen["failed" if is_emptied else "came"] and not seen["came" if is_emptied else "failed"]
