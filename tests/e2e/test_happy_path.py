"""Three rounds of honest parties: all claims accepted, roots right, everybody paid, the task closed."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast as read_as

from tests.e2e.own_roots import compute_roots
from tests.e2e.roles import make_cast
from tests.e2e.world import AMOUNTS, GRANT_WEI, TINY_PLAN, World, open_world, run_world
from touchstone.node.health.checks import Watch
from touchstone.node.health.metrics import Measures
from touchstone.node.kit.config import STORE_FOLDER
from touchstone.node.loop.node import Node
from touchstone.node.training.claims import get_basis
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.reports.metrics_server import Samples
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire.server import BlobServer
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.params import TOKEN_WEI

SOLVERS, VERIFIERS, WATCHERS = 3, 3, 3
CLAIMS = SOLVERS * TINY_PLAN.rounds
LOOKS = 10
"""Metrics are read at every tenth look."""


def _is_half_trained(node: Node) -> bool:
    """Whether the claim of round 1 has some of its boundaries: it is trained while round 0 is audited."""
    works = node.rooms.tools.claims.works.items()
    return any(index == 1 and len(work.boundaries) in (2, 3) for (index, _), work in works)


@dataclass
class AheadWatch:
    """Kills nobody; sees what a solver has trained of rounds that are not open. early: by round and basis."""

    early: set[tuple[int, bytes]] = field(default_factory=set)

    def get_view(self, node: Node) -> bool:
        works = node.rooms.tools.claims.works.items()
        found = {place for place, work in works if len(work.boundaries) > 1}
        self.early |= {place for place in found if place[0] not in node.game.rounds}
        return False


def _has_sealed(node: Node) -> bool:
    """Whether a result is sealed in round 1 and its vote not written."""
    book = node.task.audits.room.book
    sealed = {place for place in book.seals if place.round == 1}
    return bool(sealed - {*book.votes})


@dataclass
class Gauge:
    """Kills nobody; reads a party's metrics again and again. deadlines: the fewest blocks that were left, by
    duty; last: each metric as it was read last; a seat's
    until it was paid out."""

    deadlines: dict[str, float] = field(default_factory=dict)
    last: dict[str, Samples] = field(default_factory=dict)
    looks: int = 0

    def get_view(self, node: Node) -> bool:
        self.looks += 1
        if self.looks % LOOKS == 0:
            server = read_as(BlobServer, SimpleNamespace(served_bytes=0))
            watch = Watch(node.chain, node.state, node.config.home, node.find_view)
            values = Measures(
                node.chain, node.state, node.client, node.meter, node.find_view, watch, server
            ).read()
            self.last |= values
            for (duty,), left in values["touchstone_deadline_blocks"].items():
                self.deadlines[duty] = min(left, self.deadlines.get(duty, left))
        return False

    def get(self, name: str, *labels: str) -> float:
        return self.last[name][labels]


async def test_honest_parties_train_three_rounds_and_are_paid(tmp_path: Path) -> None:
    """A solver and a verifier are killed in the middle of their work and lose nothing by it. A round has
    begun to be trained on its later base root before it opens."""
    watch, solver, verifier = AheadWatch(), Gauge(), Gauge()
    cast = make_cast(SOLVERS, VERIFIERS, WATCHERS)
    cast["solver 0"] = replace(cast["solver 0"], is_killed=_is_half_trained)
    cast["solver 1"] = replace(cast["solver 1"], is_killed=watch.get_view)
    cast["solver 2"] = replace(cast["solver 2"], is_killed=solver.get_view)
    cast["verifier 1"] = replace(cast["verifier 1"], is_killed=verifier.get_view)
    cast["verifier 0"] = replace(cast["verifier 0"], is_killed=_has_sealed)
    async with open_world(tmp_path, tuple(cast)) as world:
        game, task = await run_world(world, TINY_PLAN, cast)
        assert game.is_closed
        rounds = list(game.rounds.values())
        assert [(r.phase, r.merged) for r in rounds] == [(RoundPhase.POSTED, (0, 1, 2))] * TINY_PLAN.rounds
        assert [r.root for r in rounds] == compute_roots(task, rounds)
        assert "solver 0: killed" in world.lines
        assert (2, get_basis(rounds[2])) in watch.early
        _check_disks(world)
        _check_metrics(solver, verifier)
        await _check_money(world)


def _check_disks(world: World) -> None:
    """Three rounds were trained; no solver has kept all of them."""
    boundaries = TINY_PLAN.rounds * TINY_PLAN.inner_steps // TINY_PLAN.segment_steps
    for number in range(SOLVERS):
        store = BlobStore(world.folder / f"solver {number}" / STORE_FOLDER)
        count = len(store.list_keys(BlobKind.TENSOR))
        print(f"solver {number}: {count} tensors of {3 * boundaries} and more")
        assert count < 3 * boundaries


def _check_metrics(solver: Gauge, verifier: Gauge) -> None:
    """What had to be brought to the chain was listed, and brought before its last block."""
    assert "commit" in solver.deadlines and "vote" in verifier.deadlines
    assert min(*solver.deadlines.values(), *verifier.deadlines.values()) > 0
    rows, tokens = TINY_PLAN.sequences_per_step, TINY_PLAN.sequence_tokens
    steps = TINY_PLAN.rounds * TINY_PLAN.inner_steps
    assert solver.get("touchstone_tokens_trained_total") >= steps * rows * tokens
    assert solver.get("touchstone_rounds_trained_total") >= TINY_PLAN.rounds
    assert 0 < solver.get("touchstone_loss") < 10
    assert solver.get("touchstone_seat_stake_tokens") == AMOUNTS.solver_stake / TOKEN_WEI
    assert verifier.get("touchstone_votes", "ACCEPT") > 0
    assert verifier.get("touchstone_fetched_bytes_total") > 0
    assert verifier.get("touchstone_seat_status", "verifier", "active") == 1


# Money
async def _check_money(world: World) -> None:
    """Everybody withdraws: each solver the pay of its claims, auditors together that of every draw. Nothing
    is lost, nothing burned."""
    gains = {name: await withdraw(world, name) - GRANT_WEI for name in world.keys}
    by_role = {
        role: [wei for name, wei in gains.items() if name.startswith(role)]
        for role in ("solver", "verifier", "watcher")
    }
    assert by_role["solver"] == [TINY_PLAN.rounds * AMOUNTS.solver_pay] * SOLVERS
    assert sum(by_role["verifier"]) == CLAIMS * TINY_PLAN.draws * AMOUNTS.audit_pay
    assert sum(by_role["watcher"]) == CLAIMS * AMOUNTS.late_pay
    assert min(map(min, by_role.values())) > 0
    assert sum(gains.values()) == 0


async def withdraw(world: World, name: str) -> int:
    """The tokens of a party after it has withdrawn its credit, in wei."""
    async with open_game_chain(world.rpc_url, world.deployment, world.keys[name]) as chain:
        await chain.connection.request("evm_setAutomine", True)
        await chain.vault.withdraw()
        return int(await chain.token.balance_of(chain.address))
