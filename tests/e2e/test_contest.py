"""Two false statements that no majority judges: a wrong outer root and a wrong pseudo-gradient. The contract
computes one leaf of each."""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from protocol.actions import claim
from protocol.actions.loop import Due
from protocol.actions.participant import Participant
from protocol.actions.party import Party
from protocol.actions.view import View
from protocol.adapters.blobs import refer_delta
from protocol.adapters.chain import open_chain
from protocol.compute.digest import build_delta_tree
from protocol.spec import calls
from protocol.spec.duties import get_auditor_actions, get_solver_actions
from protocol.spec.game_events import (
    ChildNamed,
    Contested,
    ContestEnded,
    NodesPosted,
    PseudoGradientConvicted,
    Slashed,
)
from protocol.spec.round import get_claim, get_included
from protocol.spec.statuses import ClaimStatus, Role
from tests.e2e.hostile_contests import mislead
from tests.e2e.reading import find, has_second_round, read_balances
from tests.e2e.report import find_task, read_view
from tests.e2e.world import TINY_PLAN, Build, open_world, run_world


def make_wrong_poster(party: Party) -> Participant:
    """A verifier, honest but for the outer roots that it posts."""
    mislead(party)
    return Participant(party, partial(get_auditor_actions, role=Role.VERIFIER))


class Unhurried(Participant):
    """Leaves the posting of the outer root to somebody else."""

    def decide(self, block: int) -> Due[Hashable]:
        due = super().decide(block)
        return replace(due, actions=[one for one in due.actions if not isinstance(one, calls.PostOuter)])


@dataclass
class Forger(Unhurried):
    """A solver that trains honestly and commits to a pseudo-gradient with one number off."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    forged: set[int] = field(default_factory=set)

    async def perform(self, action: Hashable) -> None:
        if isinstance(action, calls.Train | calls.CommitClaim):
            await self.forge(action.round)
        await super().perform(action)

    async def forge(self, index: int) -> None:
        """Write the false claim down, once, before any is sent."""
        async with self.lock:
            if index in self.forged:
                return
            party, count = self.party, self.party.spec.terms.parameter_count
            made = await claim.prepare_claim(
                party, index, claim.get_own_slot(party, index), self.compute.train
            )
            delta = bytearray(party.store.get(refer_delta(made.delta_root, count)))
            delta[-1] ^= 1
            root = build_delta_tree(bytes(delta)).root
            party.store.put_delta(root, bytes(delta))
            party.memory.write(replace(made, delta_root=root))
            self.forged.add(index)


def make_unhurried_verifier(party: Party) -> Participant:
    return Unhurried(party, partial(get_auditor_actions, role=Role.VERIFIER))


CAST: dict[str, Build] = {
    "solver": lambda party: Unhurried(party, get_solver_actions),
    "forger": lambda party: Forger(party, get_solver_actions),
    "verifier-0": make_unhurried_verifier,
    "verifier-1": make_unhurried_verifier,
    "wrong-poster": make_wrong_poster,
}


async def test_a_wrong_outer_root_and_a_wrong_pseudo_gradient_are_computed_on_chain(tmp_path: Path) -> None:
    def is_enough(view: View) -> bool:
        contests = view.contests.values()
        return has_second_round(view, lambda state: all(one.turn == 0 for one in contests))

    async with open_world(tmp_path, list(CAST)) as world:
        await run_world(world, replace(TINY_PLAN, max_whistleblowers=0, late_rate=0), CAST, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
        first, second = find_task(view).rounds
        accounts = {name: key.address.lower() for name, key in world.keys.items()}
        balances = read_balances(world, view)

        # The pseudo-gradient: convicted before the merge, so it is in no outer step.
        [proven] = find(view, PseudoGradientConvicted)
        assert first.solvers[proven.slot] == accounts["forger"]
        assert get_claim(first, proven.slot).status == ClaimStatus.CONVICTED
        assert get_included(first) == (first.solvers.index(accounts["solver"]),)
        assert balances["forger"].slashed == TINY_PLAN.amounts.solver_stake

        # The outer root: both sides play down to a leaf. The liar loses as poster, and once more as the rival
        # of the honest root that took the place of its own.
        ended = [event for event in find(view, ContestEnded) if event.reason.startswith(b"leaf")]
        liar = accounts["wrong-poster"]
        assert [event.loser for event in ended] == [liar, liar] and ended[1].rival == liar
        rivals = {event.rival for event in ended}
        assert rivals <= {event.rival for event in find(view, NodesPosted)}
        assert rivals <= {event.rival for event in find(view, ChildNamed)}
        slashed = {event.account: event.amount_wei for event in find(view, Slashed)}
        assert slashed == {
            accounts["forger"]: TINY_PLAN.amounts.solver_stake,
            liar: TINY_PLAN.amounts.merge_bond,
        }

        # The rival's root stands, the next round starts from it, and every other rival has its bond back.
        contests = find(view, Contested)
        assert first.outer is not None and first.outer.poster == ended[0].rival
        honest_roots = {one.weights_root for one in contests if one.rival != liar}
        assert honest_roots == {first.outer.weights_root} == {second.weights_root}
        assert {one.rival for one in contests} == {one.rival for one in find(view, ContestEnded)}
        assert not [name for name in ("solver", "verifier-0", "verifier-1") if balances[name].lost]
