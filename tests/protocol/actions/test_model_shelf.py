"""Who gets a global model over HTTPS, from a server that decides by the events of the chain."""

from pathlib import Path

import pytest

from protocol.actions.shelf import Shelf
from protocol.adapters.blobs import BlobRef
from protocol.spec import events
from protocol.spec.errors import EnvironmentFault
from tests.protocol.actions.facts import ALICE, TASK, create_task, start_round
from tests.protocol.adapters.parties import CHUNK_ELEMENTS, Party, make_tensor


async def try_fetch(asker: Party, server: Party, ref: BlobRef) -> bool:
    """Whether `server` serves this to `asker`."""
    async with server.serve() as peer, asker.make_client() as client:
        try:
            await client.fetch(peer, ref)
        except EnvironmentFault as fault:
            assert "settled" in fault.remedy and "stake" in fault.remedy
            return False
        finally:
            asker.store.delete(ref.key)
    return True


@pytest.mark.parametrize("elements", [1000, CHUNK_ELEMENTS + 9])
async def test_a_stranger_is_served_a_model_once_it_is_settled(tmp_path: Path, elements: int) -> None:
    stranger, auditor = Party(tmp_path / "stranger", 2), Party(tmp_path / "auditor", 3)
    shelf = Shelf(ALICE, lambda account: account == auditor.account)
    node = Party(tmp_path / "node", 1, may_read=shelf.may_read)
    (data, weights), (hidden, state) = make_tensor(elements), make_tensor(elements, seed=1)
    node.store.put(weights, data)
    node.store.put(state, hidden)
    posted = events.OuterPosted(
        block_number=20, task=TASK, round=0, poster=ALICE, weights_root=weights.key.root,
        momentum_root=bytes(32), included=1,
    )  # fmt: skip
    for event in (create_task(), start_round(), posted):
        shelf.take(event)
    shelf.join(TASK)
    assert not await try_fetch(stranger, node, weights) and await try_fetch(auditor, node, weights)
    shelf.take(events.MergeSettled(block_number=30, task=TASK, round=0, poster=ALICE))
    assert await try_fetch(stranger, node, weights)
    assert not await try_fetch(stranger, node, state), "and nothing else"
