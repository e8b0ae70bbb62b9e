"""`touchstone doctor` asks peers whether they reach the endpoint, and tells who saw what."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.e2e.world import AMOUNTS, make_dataset
from tests.node.specs import get_spec
from tests.protocol.adapters import parties
from tests.protocol.adapters.parties import make_key
from tests.scripts.money import WEALTH_WEI, Operators
from tests.scripts.network import ROOT, edit_config
from tests.scripts.schemas import read_one
from touchstone.node.joining import reachability
from touchstone.node.joining.reachability import (
    MOST_ASKED,
    NOT_NOW,
    SeenBy,
    ask_peer,
    ask_peers,
    describe_seen,
    list_askable,
)
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.chain_state import Network as Peers
from touchstone.node.kit.config import NodeConfig
from touchstone.node.kit.stored_step import keep_step
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.node.serving.reachability_probe import ReachabilityProbe
from touchstone.protocol.adapters.messages import Message
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.reach_messages import REACH, Reach, ReachSaid
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.doctor import chain_checks, home_checks, peer_checks
from touchstone.scripts.doctor.patient import NotTested, Patient
from touchstone.scripts.doctor.peer_checks import judge_reach
from touchstone.scripts.home.home_config import read_config
from touchstone.scripts.home.home_folder import unlock_key
from touchstone.scripts.network.devnet import claim_port

URL = "https://node.example:8443"


# Real nodes
@asynccontextmanager
async def run_node(operators: Operators, name: str, **changes: Any) -> AsyncIterator[Node]:
    """A node of the home that follows no task, once it has read the chain up to its own announcement."""
    home, network = operators.home_of(name), operators.network
    key = await asyncio.to_thread(unlock_key, home)
    config = NodeConfig(home, network.deployment, network.rpc_url, key, notify=lambda line: None, **changes)
    async with open_node(config, Node) as node:
        await node.following.take_next()
        yield node


async def announce(operators: Operators, name: str, public_url: str, listen_port: int) -> None:
    """What the home's node announces when it starts: it was started once, and is down now."""
    home = operators.home_of(name)
    for key, value in (("public_url", public_url), ("listen_port", str(listen_port))):
        edit_config(home, key, value)
    path = home / "config.toml"
    path.write_text(path.read_text().replace(f'"{listen_port}"', str(listen_port)))
    async with run_node(operators, name, public_url=public_url, listen_port=listen_port):
        pass


async def examine(operators: Operators, name: str, task: str, *, is_locked: bool = False) -> str:
    """What the check says, after those that it needs. is_locked: no password is at hand."""
    patient = Patient(operators.home_of(name), task[:8])
    needed = [
        home_checks.check_configuration,
        home_checks.check_key,
        chain_checks.check_chain,
        chain_checks.check_task,
    ]
    async with patient.opened:
        for check in needed:
            if not is_locked or check is not home_checks.check_key:
                await check(patient)
        return await peer_checks.check_peers(patient)


def prepare(operators: Operators, *names: str) -> str:
    """A task in which `bob` has a seat; homes of all."""
    for name in names:
        operators.home_of(name)
    task = operators.post_task("submitter")
    operators.join("bob", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    return task


def test_a_member_that_reaches_the_endpoint_is_named(operators: Operators) -> None:
    """By the node that asks from its own port, and while that node runs, at a port of its choice."""
    task = prepare(operators, "alice", "carol")

    async def play() -> list[str]:
        said = []
        await announce(operators, "alice", "", claim_port(0))
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(run_node(operators, "carol"))
            await stack.enter_async_context(run_node(operators, "bob"))
            for name in ("alice", "carol"):
                said.append(await examine(operators, name, task))
        return said

    for said in asyncio.run(play()):
        bob = operators.account_of("bob")
        assert f"{bob[:10]} at https://127.0.0.1:" in said
        assert f"(verifier 0 of 0x{task[:12]}): reaches this node at 127.0.0.1" in said


def test_an_endpoint_that_no_peer_reaches_is_a_fault(operators: Operators) -> None:
    """A port that nobody listens on, and one where another node answers: the own machine may see the same,
    but who asks here is a peer."""
    task = prepare(operators, "alice", "carol")

    async def play() -> list[EnvironmentFault]:
        faults = []
        bob_port = claim_port(0)
        await announce(operators, "alice", f"https://127.0.0.1:{claim_port(0)}", claim_port(0))
        await announce(operators, "carol", f"https://127.0.0.1:{bob_port}", claim_port(0))
        async with run_node(operators, "bob", listen_port=bob_port):
            for name in ("alice", "carol"):
                with pytest.raises(EnvironmentFault) as fault:
                    await examine(operators, name, task)
                faults.append(fault.value)
        return faults

    refused, other = asyncio.run(play())
    for fault in (refused, other):
        assert fault.what == "no peer that was asked reaches this node"
        assert "router" in fault.remedy and "firewall" in fault.remedy and "public_url" in fault.remedy
        assert f"(verifier 0 of 0x{task[:12]})" in str(fault.actual)
    assert "the connection is refused at 127.0.0.1" in str(refused.actual)
    assert "another certificate" in str(other.actual)


def test_a_peer_that_is_down_and_one_that_is_old_are_not_tested(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is a fault of this home."""
    task = prepare(operators, "alice")
    monkeypatch.setattr(
        ReachabilityProbe, "make_handlers", lambda self: {}
    )  # A node of a version without the question.
    monkeypatch.setattr(reachability, "MOST_ASKED", 1)

    async def play() -> list[str]:
        said = []
        await announce(operators, "alice", "", claim_port(0))
        async with run_node(operators, "bob"):
            with pytest.raises(NotTested) as reason:
                await examine(operators, "alice", task)
            said.append(str(reason.value))
        with pytest.raises(NotTested) as reason:
            await examine(operators, "alice", task)
        return [*said, str(reason.value)]

    old, down = asyncio.run(play())
    assert "not tested: status 404: what: such messages are not answered here" in old
    assert "not tested: Connect call failed" in down


def test_the_command_tells_a_fault_to_programs(operators: Operators) -> None:
    task = prepare(operators, "alice")
    words = [
        sys.executable,
        "-m",
        "touchstone.scripts.touchstone",
        "doctor",
        task[:8],
        "--home",
        str(operators.home_of("alice")),
    ]

    async def play() -> tuple[int | None, str]:
        await announce(operators, "alice", f"https://127.0.0.1:{claim_port(0)}", claim_port(0))
        async with run_node(operators, "bob"):
            doctor = await asyncio.create_subprocess_exec(
                *words, "--json", cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            out, _ = await doctor.communicate()
        return doctor.returncode, out.decode()

    status, out = asyncio.run(play())
    checks = {one["check"]: one for one in read_one("doctor", out)["checks"]}
    assert status == 1 and checks["peers"]["result"] == "fault"
    error = checks["peers"]["error"]
    assert error["what"] == "no peer that was asked reaches this node" and "router" in error["remedy"]


def test_a_node_that_no_peer_reaches_takes_no_seat(operators: Operators) -> None:
    """Its endpoint leads nowhere, as behind a router that forwards nothing. A member of the task says so."""
    task, home = prepare(operators, "alice"), operators.home_of("alice")
    store, training = BlobStore(home / "blobs", is_durable=False), get_spec().training
    store.put_dataset(make_dataset())
    keep_step(store, training, get_step(training))

    async def join(bob: Node, public_url: str) -> None:
        async with run_node(operators, "alice", public_url=public_url) as node:
            await bob.following.take_next()
            await node.join(bytes.fromhex(task))
            await node.rooms.seat_taking.take_seat(SeatRequest(SeatRole.VERIFIER))

    async def play() -> None:
        async with run_node(operators, "bob") as bob:
            with pytest.raises(EnvironmentFault, match="no peer that was asked reaches this node"):
                await join(bob, f"https://127.0.0.1:{claim_port(0)}")
            assert await asyncio.to_thread(operators.read_wallet, "alice") == WEALTH_WEI
            await join(bob, "")

    asyncio.run(play())
    assert operators.read_wallet("alice") == WEALTH_WEI - AMOUNTS.auditor_stake


def test_what_was_not_announced_yet_is_not_asked_about(operators: Operators) -> None:
    """Peers read the endpoint from the chain."""
    task = prepare(operators, "alice")

    def why(*, is_locked: bool = False) -> str:
        with pytest.raises(NotTested) as reason:
            asyncio.run(examine(operators, "alice", task, is_locked=is_locked))
        return str(reason.value)

    assert "no endpoint of this account is announced" in why()
    asyncio.run(announce(operators, "alice", "", claim_port(0)))
    assert "the key is locked" in why(is_locked=True)
    edit_config(operators.home_of("alice"), "public_url", URL)
    assert f"this home has {URL}" in why()
    edit_config(operators.home_of("alice"), "public_url", "")
    path = operators.home_of("alice") / "config.toml"
    lines = path.read_text().splitlines()
    path.write_text("\n".join("listen_port = 0" if "listen_port" in line else line for line in lines))
    assert "a free port at each start" in why()


# What is made of answers
def see(*answers: Reach | None) -> list[SeenBy]:
    return [
        SeenBy(f"peer {number}", answer, "not tested: down" if answer is None else answer.value)
        for number, answer in enumerate(answers)
    ]


def test_all_that_answer_reach_it() -> None:
    said = judge_reach(URL, see(Reach.REACHED, None))
    assert said == f"{URL}: peer 0: reached; peer 1: not tested: down"


@pytest.mark.parametrize("seen", [one for one in Reach if one not in (Reach.REACHED, Reach.NOT_LOOKED)])
def test_none_that_answers_reaches_it(seen: Reach) -> None:
    with pytest.raises(EnvironmentFault) as fault:
        judge_reach(URL, see(None, seen))
    assert fault.value.what == "no peer that was asked reaches this node"
    assert fault.value.where == URL and fault.value.actual == f"peer 1: {seen}; peer 0: not tested: down"


def test_peers_that_disagree_are_told_as_such() -> None:
    with pytest.raises(EnvironmentFault) as fault:
        judge_reach(URL, see(Reach.REACHED, Reach.SILENT))
    assert "disagree" in fault.value.what and fault.value.actual == "peer 0: reached; peer 1: silent"


def test_without_an_answer_there_is_no_verdict() -> None:
    with pytest.raises(NotTested, match="no peer that was asked could tell: peer 0: not tested: down"):
        judge_reach(URL, see(None))


OWN = Peer("0xown", URL, bytes(32))


@pytest.mark.parametrize(
    ("said", "reach", "words"),
    [
        (ReachSaid(URL, bytes(32), Reach.SILENT, "10.0.0.1"), Reach.SILENT, "no answer at 10.0.0.1"),
        (ReachSaid(URL, bytes(32), Reach.NO_ADDRESS), Reach.NO_ADDRESS, "finds no public address"),
        (ReachSaid(URL, bytes(32), Reach.NOT_LOOKED), None, "not tested: this peer cannot connect there"),
        (ReachSaid(URL + "1", bytes(32), Reach.REFUSED), None, "another endpoint of this node"),
        (ReachSaid(URL, bytes(31) + b"x", Reach.OTHER), None, "another endpoint of this node"),
        (ReachSaid(URL + "1", bytes(32), Reach.REACHED), None, "another endpoint of this node"),
    ],
)
async def test_an_answer_about_another_announcement_or_without_a_look_counts_for_nothing(
    said: ReachSaid, reach: Reach | None, words: str
) -> None:
    async def ask(*_: Any) -> ReachSaid:
        return said

    client: Any = SimpleNamespace(ask=ask)
    found = await ask_peer(client, Peer("0xpeer", "https://p.example", bytes(32)), "peer", OWN)
    assert found.reach is reach and words in str(found)


# Who is asked
TASK = b"t" * 32


def make_patient(urls: dict[str, str], members: set[str], staked: set[str]) -> tuple[Patient, Peer]:
    """A home whose account is 0xown, on a chain with these endpoints and seats."""
    network = Peers()
    for account, url in {"0xown": URL, **urls}.items():
        network.announce(account, url, bytes(32))
    state: Any = SimpleNamespace(
        network=network,
        is_member=lambda account, task: task == TASK and account in members,
        is_staked=lambda account: account in staked | members,
    )
    return Patient(Path(), state=state, task=TASK), network.find("0xown")


def test_members_are_asked_first_and_the_own_host_last() -> None:
    """A peer behind the same router does not see what is in front of it."""
    groups = [["m0", "m1"], ["s0", "s1"], ["x0", "x1"]]
    urls = {name: f"https://{name}.example" for group in reversed(groups) for name in group}
    members, staked = {"m0", "m1", "near"}, {"s0", "s1"}
    orders = set()
    for _ in range(40):
        patient, own = make_patient({**urls, "near": "https://node.example:9000"}, members, staked)
        order = [peer.account for peer in list_askable(patient.get_state(), own, TASK)]
        assert [set(order[at : at + 2]) for at in (0, 2, 4)] == [set(group) for group in groups]
        assert order[6:] == ["near"]
        orders.add(tuple(order))
    assert len(orders) > 1  # By chance: who announces first is not always asked first.


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([Reach.REACHED] * 9, 3),
        ([None, Reach.REACHED, None, Reach.REACHED, Reach.REACHED, Reach.REACHED], 5),
        ([None] * 20, MOST_ASKED),
        ([Reach.REACHED], 1),
    ],
)
async def test_others_are_asked_where_some_are_down(
    answers: list[Reach | None], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three answers are enough, nine questions are the most."""
    peers = [Peer(f"0x{n}", f"https://n{n}.example", bytes(32)) for n in range(len(answers))]
    left, client = [*answers], SimpleNamespace()

    async def answer(client: Any, peer: Peer, who: str, about: Peer) -> SeenBy:
        return SeenBy(who, left.pop(0), "")

    monkeypatch.setattr(reachability, "ask_peer", answer)
    seen = await ask_peers(client, peers, OWN, lambda peer: peer.account)  # type: ignore[arg-type]
    assert len(seen) == asked


async def test_peers_without_a_turn_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers can use up the looks of honest peers for a while; then a liar would be the only one that
    answers."""
    peers = [Peer(f"0x{n}", f"https://n{n}.example", bytes(32)) for n in range(3)]
    asked = list[str]()

    async def answer(client: Any, peer: Peer, who: str, about: Peer) -> SeenBy:
        asked.append(who)
        if who == "0x2":
            return SeenBy(who, Reach.REFUSED, "")
        is_turn = asked.count(who) == 2 + int(who, 16)
        return SeenBy(who, Reach.REACHED if is_turn else None, "", is_there=not is_turn, is_busy=not is_turn)

    monkeypatch.setattr(reachability, "ask_peer", answer)
    monkeypatch.setattr(reachability, "AGAIN_S", 0.0)
    seen = await ask_peers(SimpleNamespace(), peers, OWN, lambda peer: peer.account)  # type: ignore[arg-type]
    assert [one.reach for one in seen] == [Reach.REACHED, None, Reach.REFUSED]
    assert asked == ["0x0", "0x1", "0x2", "0x0", "0x1"]


async def test_a_peer_that_says_not_now_is_there(tmp_path: Path) -> None:
    async def refuse(account: str, body: bytes) -> Message:
        raise EnvironmentFault(what="not now", expected="a turn", actual="none", remedy="Wait.")

    peer = parties.Party(tmp_path / "peer", 1, handlers={REACH: RequestHandler(1000, refuse)})
    own = parties.Party(tmp_path / "own", 2)
    async with peer.serve() as place, own.make_client() as client:
        seen = await ask_peer(client, place, "peer", OWN)
    assert seen.is_there and seen.is_busy and seen.words == f"not tested: {NOT_NOW}"
    async with own.make_client() as client:
        assert not (await ask_peer(client, place, "peer", OWN)).is_there, "it is down"


def test_peers_that_cannot_tell_for_one_reason_are_told_in_one_line() -> None:
    """Nine homes on one machine: a peer looks at an address four times a minute, whoever asks."""
    busy = [SeenBy(f"peer {number}", None, f"not tested: {NOT_NOW}") for number in range(5)]
    reached = SeenBy("bob", Reach.REACHED, "reaches this node at 127.0.0.1")
    down = SeenBy("carol", None, "not tested: down")
    assert describe_seen([*busy[:2], reached, *busy[2:], down]) == (
        "bob: reaches this node at 127.0.0.1; "
        f"peer 0, peer 1 and 3 others: not tested: {NOT_NOW}; carol: not tested: down"
    )
    assert describe_seen(busy[:2]) == f"peer 0, peer 1: not tested: {NOT_NOW}"
    assert "status 409" not in NOT_NOW and len(NOT_NOW) < 100


async def test_without_any_other_endpoint_nobody_can_be_asked(home: Path) -> None:
    patient, _ = make_patient({}, set(), set())
    patient.home, patient.config = home, read_config(home)
    own = Peer("0xown", "https://127.0.0.1:8443", load_or_create_identity(home).fingerprint)
    with pytest.raises(NotTested, match="nobody could be asked"):
        await peer_checks._ask_peers(patient, make_key(1), own, 8443)
