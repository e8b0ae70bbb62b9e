"""What a node opens when it starts: the journal of all its rooms, and no file that a killed one left."""

from dataclasses import is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

import pytest

from tests.protocol.adapters.parties import make_key
from touchstone.node.kit.config import JOURNAL_FILE, NodeConfig, make_scratch
from touchstone.node.loop import opening
from touchstone.node.loop.node import Node
from touchstone.node.records.record_kinds import RECORDS
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.spec.errors import EnvironmentFault

SAMPLES: dict[Any, Any] = {int: 7, str: "0xa", bool: True, bytes: b"r" * 32}


def make_sample(hint: Any, name: str = "") -> Any:
    """A value of a type, of a container field by field."""
    if name == "signature":
        return b"s" * 64
    if get_origin(hint) is UnionType:
        return make_sample(get_args(hint)[0])
    if get_origin(hint) is tuple:
        return tuple(make_sample(one) for one in get_args(hint) if one is not ...)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if is_dataclass(hint):
        kind = cast(type[Any], hint)
        return kind(*(make_sample(one, field) for field, one in get_type_hints(kind).items()))
    return SAMPLES[hint]


@pytest.mark.parametrize("kind", RECORDS)
def test_every_record_can_be_kept(tmp_path: Path, kind: type[Any]) -> None:
    record = make_sample(kind)
    with Journal(tmp_path / "journal", RECORDS) as journal:
        journal.append(record)
    with Journal(tmp_path / "journal", RECORDS) as journal:
        assert list(journal.replay()) == [record]
    with pytest.raises(AttributeError):
        record.task = b""


async def test_files_of_a_killed_node_go_whatever_its_configuration_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fewer processes than before nothing else would look for them. They are as large as states."""
    config = NodeConfig(tmp_path, tmp_path, "", make_key(1))
    scratch = make_scratch(replace(config, workers=2))
    for name in ("team-left", "replay-left", "tmpleft"):
        (scratch / name).write_bytes(b"x")

    def open_game_chain(*_: object, **__: object) -> Any:
        raise EnvironmentFault(what="no chain", expected="one", actual="none", remedy="Wait.")

    deployment = SimpleNamespace(chain_id=1, game="0x" + "11" * 20)
    monkeypatch.setattr(NodeConfig, "read_deployment", lambda _: deployment)
    monkeypatch.setattr(opening, "open_game_chain", open_game_chain)

    async def start() -> None:
        async with opening.open_node(config, Node):
            pass

    with Journal(tmp_path / JOURNAL_FILE, RECORDS), pytest.raises(EnvironmentFault, match="in use"):
        await start()
    assert len(list(scratch.iterdir())) == 3, "another process of this home runs"
    with pytest.raises(EnvironmentFault, match="no chain"):
        await start()
    assert not list(scratch.iterdir())
