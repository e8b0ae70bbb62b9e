"""A party without a chain and without peers: real store, journal, view and compute; what it would send is
written down, and what it fetches comes from a store that the test fills."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from eth_account import Account

from node.submit import build_spec
from protocol.actions.party import JOURNAL_FILE, STORE_FOLDER, Party, PartyConfig, Status
from protocol.actions.step_desk import StepDesk
from protocol.actions.view import View
from protocol.adapters.blobs import BlobRef, split_roots
from protocol.adapters.chain import ContractRefused
from protocol.adapters.chain import Event as ChainEvent
from protocol.adapters.chain.contract import Receipt
from protocol.adapters.chain.deployment import CONTRACT_NAMES
from protocol.adapters.journal import Journal
from protocol.adapters.keys import AccountKey
from protocol.adapters.records import RECORDS
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.answers import NodeStatus
from protocol.adapters.wire.session import Peer
from protocol.compute.data import open_corpus
from protocol.compute.program import build_program, describe_program
from protocol.spec import events
from protocol.spec.codec import encode_training
from protocol.spec.containers import TaskSpec
from protocol.spec.draw import compute_beacon, compute_draw_seed
from protocol.spec.errors import EnvironmentFault
from protocol.spec.events import Event
from protocol.spec.statuses import Role
from protocol.spec.tolerance import Judgement
from tests.e2e.world import TINY_PLAN, make_dataset
from tests.protocol.actions.facts import TASK, announce, deposit, enrol, make_batch
from tests.protocol.compute.python_referee import judge_shown
from tests.protocol.spec.simulator import make_account, make_word

SOLVER, SUBMITTER = make_account("solver"), make_account("submitter")
VERIFIERS = tuple(make_account(f"verifier {index}") for index in range(3))
REGISTRY, REFEREE, DISPUTE_GAME = ("0x" + 40 * digit for digit in "567")
CHAIN_HEAD = 100
LOOK_S = 0.01


@dataclass
class Contract:
    """Stands for a proxy: notes each call, and answers with what the test set for the method, or for
    `name.method` (an exception is raised, a function asked)."""

    name: str
    sent: list[tuple[str, tuple[Any, ...]]]
    answers: dict[str, Any]

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any) -> Any:
            self.sent.append((method, arguments))
            answer = self.answers.get(f"{self.name}.{method}", self.answers.get(method))
            answer = answer.pop(0) if isinstance(answer, list) else answer
            answer = answer(*arguments) if callable(answer) else answer
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


class LoneChain:
    """A chain that only writes down: `sent` has every call, `answers` is what each method returns (a list:
    one after the other). It stands still at block `head`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.deployment = SimpleNamespace(registry=REGISTRY, referee=REFEREE, dispute_game=DISPUTE_GAME)
        self.sent: list[tuple[str, tuple[Any, ...]]] = []
        self.answers: dict[str, Any] = {"referee": REFEREE}
        self.head = CHAIN_HEAD
        for name in ("token", *CONTRACT_NAMES):
            setattr(self, name, Contract(name, self.sent, self.answers))

    async def wait_for_block(self, number: int) -> None:
        self.sent.append(("wait_for_block", (number,)))
        while self.head < number:
            await asyncio.sleep(LOOK_S)

    def list_sent(self, method: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of one method."""
        return [arguments for name, arguments in self.sent if name == method]


@dataclass
class LoneClient:
    """Fetches from `remote`; `asked` has who was asked first for what."""

    store: BlobStore
    remote: BlobStore
    asked: list[tuple[str, BlobRef]] = field(default_factory=list)
    status: NodeStatus = NodeStatus("0x" + "00" * 20, 0, None)
    """What every peer says of itself."""
    desk: StepDesk | None = None
    """Where step states are asked for."""

    async def get_status(self, peer: Peer) -> NodeStatus:
        return self.status

    async def fetch_steps(
        self, peer: Peer, task: bytes, index: int, segment: int, count: int
    ) -> tuple[bytes, ...]:
        if self.desk is None or (roots := self.desk.find("", task, index, segment)) is None:
            raise EnvironmentFault(what="no steps", expected="roots", actual="none", remedy="Wait.")
        return tuple(split_roots(roots))

    async def fetch_from_any(self, peers: Sequence[Peer], ref: BlobRef) -> None:
        if self.store.has(ref):
            return
        self.asked.append((peers[0].account if peers else "", ref))
        if not self.remote.has(ref):
            raise EnvironmentFault(what="no such blob", expected=str(ref), actual="none", remedy="Wait.")
        self.store.put(ref, self.remote.get(ref))


@dataclass
class Lone:
    """The party and its surroundings."""

    party: Party
    chain: LoneChain
    client: LoneClient
    lines: list[str]

    def take(self, *found: Event) -> None:
        """More events of the chain."""
        self.party.view.take(make_batch(max(event.block_number for event in found), *found))


@cache
def get_spec() -> TaskSpec:
    """The tiny task."""
    return build_spec(TINY_PLAN, make_dataset(), SUBMITTER, bytes(32))


def list_beginning() -> list[Event]:
    """A task, announced and staked parties, a first round with one solver, its beacon."""
    spec = get_spec()
    created = events.TaskCreated(
        block_number=1,
        task=TASK,
        submitter=SUBMITTER,
        terms=spec.terms,
        training=encode_training(spec.training),
    )
    started = events.RoundStarted(
        block_number=2, task=TASK, round=0, start_block=2,
        weights_root=spec.terms.initial_weights_root, momentum_root=spec.terms.zero_root,
    )  # fmt: skip
    accounts = (SOLVER, *VERIFIERS)
    found: list[Event] = [created, *(announce(one, port=9) for one in (SUBMITTER, *accounts))]
    found += [*(deposit(one) for one in accounts), started, enrol(SOLVER)]
    found += [enrol(one, Role.VERIFIER, index=index) for index, one in enumerate(VERIFIERS)]
    beacon = compute_beacon(bytes(32), 0, make_word("block"))
    return [*found, events.BeaconSealed(block_number=4, task=TASK, round=0, beacon=beacon)]


def deal_anew(lone: Lone, block: str, *more: Event) -> None:
    """A reorg: the beacon comes from another block, and `more` happens after it."""
    beacon = compute_beacon(bytes(32), 0, make_word(block))
    sealed = events.BeaconSealed(block_number=4, task=TASK, round=0, beacon=beacon)
    lone.party.view.take(make_batch(4, sealed, *more, forget_from=4))


def seal_draw(block: int = 6) -> events.DrawSealed:
    """Segments and auditors are drawn."""
    seed = compute_draw_seed(bytes(32), 0, make_word("draw block"))
    return events.DrawSealed(block_number=block, task=TASK, round=0, draw_seed=seed)


def make_lone(folder: Path, account: str = SOLVER, remote: BlobStore | None = None) -> Lone:
    """A party that has joined the task; a second one of the same folder is the first one restarted."""
    folder.mkdir(mode=0o700, exist_ok=True)
    chain, lines = LoneChain(account), list[str]()
    store = BlobStore(folder / STORE_FOLDER, is_durable=False)
    client = LoneClient(store, remote or store)
    view = View(account, 31337, REGISTRY, store.get_roots)
    found = list_beginning()
    view.take(make_batch(4, *found))
    party = Party(
        config=PartyConfig(folder, folder, "", AccountKey(Account.create()), say=lines.append),
        chain=cast(Any, chain),
        store=store,
        journal=Journal(folder / JOURNAL_FILE, RECORDS),
        client=cast(Any, client),
        view=view,
        status=Status(account),
        batches=cast(Any, None),
    )
    spec = get_spec()
    chain.answers["referee.judge"] = partial(
        judge_shown, build_program(describe_program(spec.training)).program
    )
    party.join(TASK, spec, open_corpus(make_dataset(), spec.training))
    return Lone(party, chain, client, lines)


def restart(lone: Lone) -> Lone:
    """What comes up after a kill: the folder is all that is left."""
    lone.party.journal.close()
    return make_lone(lone.party.config.home, lone.party.account, lone.client.remote)


def judge_as(worst: Judgement) -> Receipt:
    """The receipt of a comparison with this result."""
    judged = ChainEvent("AuditBook", "AuditJudged", {"worst": worst}, 9, 0, bytes(32), bytes(32))
    return Receipt(bytes(32), 9, 0, 0, (judged,))


def refuse(name: str) -> ContractRefused:
    """A contract's refusal."""
    return ContractRefused(name=name, values={}, what=name, expected="", actual="", remedy="")
