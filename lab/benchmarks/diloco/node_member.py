"""Trains as a node does, without a chain: claims, a store, a journal, pseudo-gradients over HTTPS.

    python -m lab.benchmarks.diloco.node_member PLAN NUMBER

Nodes read rounds, beacons and claims from the chain; here they are files in the plan's folder.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.benchmarks.diloco.plain_member import (
    GRACE_S,
    POLL_S,
    count_loopback_bytes,
    measure_peak_bytes,
    read_rows,
    write_whole,
)
from lab.benchmarks.diloco.verifiable import make_beacon
from tests.e2e.world import TINY_PLAN
from tests.kit.nodes import SIGNING, TASK, get_account, open_joined
from tests.node.merging.stage import SOLVERS, make_served, make_world
from tests.node.specs import SUBMITTER
from tests.task_plans import respecify_plan
from tests.training_setting import compute_heldout_loss
from touchstone.node.models.expected_merge import get_root
from touchstone.node.models.expected_merge import make_key as make_merge_key
from touchstone.node.records.claim_records import MergeKey, MergeMade
from touchstone.node.records.round_seats import get_shards
from touchstone.node.submit import build_task
from touchstone.node.training.claims import Origin
from touchstone.protocol.adapters.store.blobs import BlobKind, refer_state, refer_tensor
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.server import BlobServer
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.compute.batches import open_corpus
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.game.state import GameRound, Pool, SlotClaim
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.task_spec import ScheduleConfig, TaskSpec
from touchstone.scripts.roles.role_nodes import Member as NodeMember
from touchstone.step.plain_decoder import DecoderConfig


def build_spec(plan: Mapping[str, Any], data: bytes) -> TaskSpec:
    """Builds the run as a task."""
    model, steps = DecoderConfig(*plan["model"]), plan["inner_steps"] * plan["rounds"]
    round_plan = respecify_plan(
        TINY_PLAN,
        model=model,
        schedule=ScheduleConfig(plan["peak_rate"], plan["warmup_steps"], steps),
        rounds=plan["rounds"],
        inner_steps=plan["inner_steps"],
        segment_steps=plan["segment_steps"],
        outer_learning_rate=plan["outer_rate"],
        outer_momentum=plan["outer_momentum"],
        sequences_per_step=plan["rows"],
        sequence_tokens=plan["tokens"],
        heldout_tokens=plan["heldout_tokens"],
        initial_seed=plan["seed"],
        numeric_format=plan["format"],
        chunk_terms=plan["chunk_terms"],
    )
    return make_spec(*build_task(round_plan, data, SUBMITTER, bytes(32)))


@dataclass
class Chain:
    """What a member knows of rounds. Claims are files that all members read."""

    folder: Path
    members: int
    number: int
    first: GameRound
    seats: tuple[int, ...]

    def open(self, index: int, base_root: bytes, beacon: bytes) -> GameRound:
        """Returns a round that is open."""
        pool = Pool(self.seats, self.first.pool.verifiers, self.first.pool.whistleblowers)
        shown = replace(self.first, index=index, pool=pool, counted=self.members)
        return replace(shown, beacon=beacon, base_root=base_root)

    async def close(self, game_round: GameRound, claim_root: bytes, segments: int) -> GameRound:
        """Waits for the claims of all members, and returns the round with them, closed."""
        write_whole(self._name(game_round.index, self.number), claim_root.hex())
        claims: dict[int, SlotClaim] = {}
        for slot, seat in enumerate(self.seats):
            root = bytes.fromhex(await find_text(self._name(game_round.index, slot)))
            claims[slot] = SlotClaim(seat, get_account(SOLVERS[slot]), 0, root, segments)
        return replace(game_round, claims=claims, closed=game_round.opened)

    async def meet(self, index: int, count: Callable[[], None]) -> None:
        """Waits until all members have merged the round. The first member calls `count` then, and the others
        go on after it, so that bytes of one round never count in another."""
        own, names = self.number, [self.folder / f"merged-{index}-{n}" for n in range(self.members)]
        for name in names[1:] if own == 0 else []:
            await find_text(name)
        if own == 0:
            count()
        write_whole(names[own], "merged")
        await find_text(names[0])

    def _name(self, index: int, slot: int) -> Path:
        return self.folder / f"claim-{index}-{slot}"


async def find_text(path: Path) -> str:
    """Waits for a file that another member writes, and returns its text."""
    deadline = time.monotonic() + GRACE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not come within {GRACE_S:.0f} s: see the other members' output")
        await asyncio.sleep(POLL_S)
    return path.read_text()


@dataclass
class Ended:
    """Notes when the last segment was trained, from the lines that the node prints for its operator."""

    at: float = 0.0

    def hear(self, line: str) -> None:
        """Takes a line for the operator."""
        if ": trained " in line:
            self.at = time.perf_counter()


@dataclass
class Member:
    """A node and its measurements. `carried` is the state whose moments are carried over."""

    plan: Mapping[str, Any]
    node: NodeMember
    chain: Chain
    ended: Ended
    base_root: bytes
    carried: StateHeader | None = None
    inner_s: list[float] = field(default_factory=list)
    outer_s: list[float] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)

    async def play(self, index: int) -> None:
        """Plays a round: trains, claims, merges."""
        beacon, state = make_beacon(self.plan["seed"], index), self.node.game
        game_round = self.chain.open(index, self.base_root, beacon)
        self._show(state, game_round)
        shard = get_shards(game_round)[self.chain.number]
        origin = Origin(index, self.base_root, beacon, shard, self.carried)
        begun = time.perf_counter()
        finished = await self.node.rooms.training.finish_claim(origin, lambda: None)
        closed = await self.chain.close(game_round, finished.claim_root, finished.segments)
        self._show(state, closed)
        made = await self._merge(make_merge_key(closed, tuple(closed.claims)))
        done = time.perf_counter()
        self.inner_s.append(self.ended.at - begun)
        self.outer_s.append(done - self.ended.at)
        await self.chain.meet(index, lambda: self.moved.append(count_loopback_bytes()))
        self.base_root = get_root(made)
        boundaries = self.node.rooms.tools.claims.find(closed).boundaries
        self.carried = boundaries[max(boundaries)]
        self._prune(OuterHeader(made.weights_root, made.momentum_root))

    async def _merge(self, key: MergeKey) -> MergeMade:
        """Merges as a node's loop does. It tries again while another member does not know yet that the round
        is closed."""
        deadline = time.monotonic() + GRACE_S
        while True:
            try:
                made: MergeMade = await self.node.rooms.outer_steps.merge_claims(key)
                return made
            except EnvironmentFault as fault:
                if not fault.retryable or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(POLL_S)

    def _show(self, state: Any, game_round: GameRound) -> None:
        self.node.state.games[TASK] = replace(state, rounds={game_round.index: game_round})

    def _prune(self, outer: OuterHeader) -> None:
        """Prunes as a node does between rounds. Pseudo-gradients stay, because others may still fetch
        them."""
        count, store = self.node.task.spec.terms.parameter_count, self.node.store
        kept = {refer_tensor(root, count).key for root in (outer.weights_root, outer.momentum_root)}
        kept |= {ref.key for ref in refer_state(self.carried, count)} if self.carried else set()
        for key in store.list_keys(BlobKind.TENSOR):
            if key not in kept:
                store.delete(key)


@asynccontextmanager
async def open_member(plan: Mapping[str, Any], number: int) -> AsyncIterator[Member]:
    """Opens a node that serves and asks inside the block, and knows where all others serve."""
    folder, data, seed = Path(plan["folder"]), Path(plan["data"]).read_bytes(), SOLVERS[number]
    spec, home = build_spec(plan, data), folder / f"home{number}"
    base_root = compute_outer_root(OuterHeader(spec.terms.initial_weights_root, spec.terms.zero_root))
    world = make_world(root=base_root, segment_count=spec.terms.segment_count, rounds=plan["rounds"])
    seats = {seat.account: seat.number for seat in world.state.seats.values()}
    own = tuple(seats[get_account(one)] for one in SOLVERS[: plan["members"]])
    chain, ended = Chain(folder, plan["members"], number, world.state.rounds[0], own), Ended()
    corpus = open_corpus(data, spec.training)
    joined = open_joined(
        home, world.state, seed=seed, spec=spec, corpus=corpus, patience=None, notify=ended.hear
    )
    async with AsyncExitStack() as stack:
        node = stack.enter_context(joined)
        await stack.enter_async_context(node.client)
        node.state.head_block = world.block - 1
        await _serve(node, plan, number, stack)
        yield Member(plan, node, chain, ended, base_root)


async def _serve(node: NodeMember, plan: Mapping[str, Any], number: int, stack: AsyncExitStack) -> None:
    identity, folder = load_or_create_identity(node.config.home), Path(plan["folder"])
    served = make_served(node)
    served.rooms = node.task.list_served(node.find_view)
    server = BlobServer(node.store, node.account, SIGNING, identity, served.make_policy())
    port = await server.start()
    stack.push_async_callback(server.stop)
    place = {"url": f"https://127.0.0.1:{port}", "fingerprint": identity.fingerprint.hex()}
    write_whole(folder / f"place-{number}.json", json.dumps(place))
    for other in range(plan["members"]):
        said, account = (
            json.loads(await find_text(folder / f"place-{other}.json")),
            get_account(SOLVERS[other]),
        )
        peer = Peer(account, said["url"], bytes.fromhex(said["fingerprint"]))
        node.state.network.peers[account] = peer


async def run(plan: Mapping[str, Any], number: int) -> None:
    """Plays all rounds, and leaves the results in the folder."""
    async with open_member(plan, number) as member:
        for index in range(plan["rounds"]):
            await member.play(index)
        header = await member.node.rooms.model.load_outer(member.base_root)
        weights, data = (
            await member.node.rooms.model.load_weights(header),
            Path(plan["data"]).read_bytes(),
        )
        batch = Batch(*read_rows(data, plan["heldout"], plan["tokens"]))
        found = {"inner_s": member.inner_s, "outer_s": member.outer_s, "bytes": member.moved}
        peak_bytes = measure_peak_bytes()
        heldout = compute_heldout_loss(weights, batch, DecoderConfig(*plan["model"]))
        text = json.dumps({**found, "heldout": heldout, "peak_bytes": peak_bytes})
        write_whole(member.chain.folder / f"member-{number}.json", text)
        for other in range(plan["members"]):
            await find_text(member.chain.folder / f"member-{other}.json")


def main() -> None:
    """Runs one member."""
    pin_kernels(1)
    asyncio.run(run(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])))


if __name__ == "__main__":
    main()
