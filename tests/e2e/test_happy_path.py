"""Three rounds of honest parties: all claims accepted, roots right, everybody paid, the task closed."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from protocol.actions.merge.training import get_basis
from protocol.actions.runtime.config import STORE_FOLDER
from protocol.actions.runtime.party import Party
from protocol.adapters.blobs import BlobKind
from protocol.adapters.chain.chain_client import open_game_chain
from protocol.adapters.store import BlobStore
from protocol.spec.game.state import RoundPhase
from tests.e2e.own_roots import compute_roots
from tests.e2e.roles import make_cast
from tests.e2e.world import AMOUNTS, GRANT_WEI, TINY_PLAN, World, open_world, run_world

SOLVERS, VERIFIERS, WATCHERS = 3, 3, 3
CLAIMS = SOLVERS * TINY_PLAN.rounds


def _is_half_trained(party: Party) -> bool:
    """Whether the claim of round 1 has some of its boundaries: it is trained while round 0 is audited."""
    works = party.task.claims.works.items()
    return any(index == 1 and len(work.boundaries) in (2, 3) for (index, _), work in works)


@dataclass
class AheadWatch:
    """Kills nobody; sees what a solver has trained of rounds that are not open. early: by round and basis."""

    early: set[tuple[int, bytes]] = field(default_factory=set)

    def look(self, party: Party) -> bool:
        works = party.task.claims.works.items()
        found = {place for place, work in works if len(work.boundaries) > 1}
        self.early |= {place for place in found if place[0] not in party.game.rounds}
        return False


def _has_sealed(party: Party) -> bool:
    """Whether a result is sealed in round 1 and its vote not written."""
    book = party.task.audits.room.book
    sealed = {place for place in book.seals if place.round == 1}
    return bool(sealed - {*book.votes})


async def test_honest_parties_train_three_rounds_and_are_paid(tmp_path: Path) -> None:
    """A solver and a verifier are killed in the middle of their work and lose nothing by it. A round has
    begun to be trained on its later base root before it opens."""
    watch = AheadWatch()
    cast = make_cast(SOLVERS, VERIFIERS, WATCHERS)
    cast["solver 0"] = replace(cast["solver 0"], is_killed=_is_half_trained)
    cast["solver 1"] = replace(cast["solver 1"], is_killed=watch.look)
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
        await _check_money(world)


def _check_disks(world: World) -> None:
    """Three rounds were trained; no solver has kept all of them."""
    boundaries = TINY_PLAN.rounds * TINY_PLAN.inner_steps // TINY_PLAN.segment_steps
    for number in range(SOLVERS):
        store = BlobStore(world.folder / f"solver {number}" / STORE_FOLDER)
        count = len(store.list_keys(BlobKind.TENSOR))
        print(f"solver {number}: {count} tensors of {3 * boundaries} and more")
        assert count < 3 * boundaries


# --- Money --------------------------------------------------------------------------------------------------
async def _check_money(world: World) -> None:
    """Everybody withdraws: each solver the pay of its claims, auditors together that of every draw. Nothing
    is lost, nothing burned."""
    gains = {name: await _withdraw(world, name) - GRANT_WEI for name in world.keys}
    by_role = {
        role: [wei for name, wei in gains.items() if name.startswith(role)]
        for role in ("solver", "verifier", "watcher")
    }
    assert by_role["solver"] == [TINY_PLAN.rounds * AMOUNTS.solver_pay] * SOLVERS
    assert sum(by_role["verifier"]) == CLAIMS * TINY_PLAN.draws * AMOUNTS.audit_pay
    assert sum(by_role["watcher"]) == CLAIMS * AMOUNTS.late_pay
    assert min(map(min, by_role.values())) > 0
    assert sum(gains.values()) == 0


async def _withdraw(world: World, name: str) -> int:
    """The tokens of a party after it has withdrawn its credit, in wei."""
    async with open_game_chain(world.rpc_url, world.deployment, world.keys[name]) as chain:
        await chain.connection.request("evm_setAutomine", True)
        await chain.purse.withdraw()
        return int(await chain.token.balance_of(chain.address))
