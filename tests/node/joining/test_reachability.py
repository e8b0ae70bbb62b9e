"""No stake is locked where peers answer and none of them reaches the node; any other answer lets it go on."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import SIGNING, FakeChain, change_tools, get_account, get_lines, get_sent
from tests.node.merging.stage import open_stage
from touchstone.node.joining.machine_check import MachineCheck
from touchstone.node.joining.reachability import SeenBy, is_unreached
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.wire.json_answers import NodeStatus
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.reach_messages import MAX_REACH_BYTES, REACH, Reach, ReachSaid
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.server import BlobServer, ReadPolicy
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import SeatRole

JOINER = 77


@asynccontextmanager
async def serve_reach(folder: Path, seed: int, own: Peer, said: Reach | None) -> AsyncIterator[Peer]:
    """A peer that says this of the endpoint `own`; None: it has read another announcement."""

    async def answer(account: str, body: bytes) -> ReachSaid:
        fingerprint = bytes(32) if said is None else own.fingerprint
        return ReachSaid(own.url, fingerprint, said or Reach.REACHED)

    account, identity = get_account(seed), load_or_create_identity(folder / f"tls{seed}")
    handlers = {REACH: RequestHandler(MAX_REACH_BYTES, answer)}
    policy = ReadPolicy(
        lambda account: True,
        lambda *_: False,
        lambda: NodeStatus(account, 0, None),
        find_handler=handlers.get,
    )
    server = BlobServer(BlobStore(folder / f"blobs{seed}"), account, SIGNING, identity, policy)
    port = await server.start()
    try:
        yield Peer(account, f"https://127.0.0.1:{port}", identity.fingerprint)
    finally:
        await server.stop()


async def join(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *answers: Reach | None, **changes: Any
) -> tuple[list[str], list[str]]:
    """What a node sends and tells that takes a seat where peers say this of its endpoint."""

    async def check_nothing(check: MachineCheck) -> None:
        pass

    monkeypatch.setattr(MachineCheck, "check_machine", check_nothing)
    async with open_stage(folder, JOINER) as stage, AsyncExitStack() as stack:
        node = stage.nodes[JOINER]
        change_tools(node, **changes)
        peers, own = node.state.network.peers, node.state.network.peers[node.account]
        for number, reach in enumerate(answers):
            peer = await stack.enter_async_context(serve_reach(folder, 80 + number, own, reach))
            peers[peer.account] = peer
        await node.rooms.seat_taking.take_seat(SeatRequest(SeatRole.WHISTLEBLOWER))
        return [name for name, _ in get_sent(node)], get_lines(node)


@pytest.mark.parametrize(
    "answers", [(Reach.SILENT,), (None, None, Reach.REFUSED, Reach.OTHER), (Reach.NO_ADDRESS, Reach.SILENT)]
)
async def test_a_seat_that_nobody_reaches_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: tuple[Reach | None, ...]
) -> None:
    """One round of it cost a solver 70 tokens, and three truthful auditors as much."""
    sent = list[str]()
    monkeypatch.setattr(FakeChain, "__getattr__", lambda chain, name: sent.append(name))
    with pytest.raises(EnvironmentFault, match="no peer that was asked reaches this node") as fault:
        await join(tmp_path, monkeypatch, *answers)
    assert not sent and "router" in fault.value.remedy
    assert all(get_account(80 + number)[:10] in str(fault.value.actual) for number in range(len(answers)))


@pytest.mark.parametrize(
    ("answers", "word"),
    [
        ((Reach.REACHED, Reach.REACHED), "peers reach https://"),
        ((Reach.SILENT, Reach.REACHED, Reach.SILENT), "WARNING: not all peers reach"),
        ((None, Reach.NOT_LOOKED), "no peer could tell yet"),
        # Strangers may use up the looks of honest peers: who is left may lie.
        ((None, None, None, Reach.REFUSED), "WARNING: not all peers reach"),
        ((), "no other account has announced an endpoint"),
    ],
)
async def test_any_other_answer_lets_it_go_on_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: tuple[Reach | None, ...], word: str
) -> None:
    """The first ones in a task have nobody to ask; a liar alone keeps nobody out."""
    sent, said = await join(tmp_path, monkeypatch, *answers)
    assert sent == ["game.join"] and any(word in line for line in said)


def see(*answers: Reach | None, is_there: bool = True) -> list[SeenBy]:
    return [SeenBy("peer", one, "", is_there=one is None and is_there) for one in answers]


NO = Reach.REFUSED


@pytest.mark.parametrize(
    ("seen", "staked", "is_out"),
    [
        (see(NO), [0], True),
        (see(None, NO), [0, 0], False),
        (see(None, NO, is_there=False), [1, 0], True),  # Who is down says nothing.
        (see(None, NO, NO), [0, 0, 0], True),
        # Accounts without a stake cost nothing.
        (see(None, NO, NO, NO), [1, 0, 0, 0], False),
        (see(None, NO, NO, NO), [1, 1, 0, 0], False),
        (see(None, NO, NO), [1, 1, 1], True),
        (see(NO, NO, Reach.REACHED), [1, 1, 0], False),
        (see(None, None), [1, 1], False),
    ],
)
def test_few_words_keep_nobody_out_where_others_cannot_tell(
    seen: list[SeenBy], staked: list[int], is_out: bool
) -> None:
    """Strangers can use up the looks of honest peers: those that are left may lie."""
    assert is_unreached(seen, [bool(one) for one in staked]) is is_out


async def test_an_operator_who_knows_better_is_asked_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, _ = await join(tmp_path, monkeypatch, Reach.SILENT, is_reach_wanted=False)
    assert sent == ["game.join"]
