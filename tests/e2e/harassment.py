"""Somebody who disputes honest claims to cost their owners sleep, and worlds in which it does."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from protocol.actions.challenge import accuse, name_solver_claim
from protocol.actions.loop import Due
from protocol.actions.participant import ComputeOwnRoots, Participant, Prosecute
from protocol.actions.party import Party
from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.compute.program import build_program, describe_program
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import MAX_DEMANDS_EACH, DemandLeaf, Move, NameStep, check_move
from protocol.spec.duties import get_auditor_actions
from protocol.spec.events import Committed, Event
from protocol.spec.game_events import DisputeClosed, DisputeOpened, LeafAnswered, Slashed
from protocol.spec.program import Program, leaf_bytes
from protocol.spec.program import Role as BufferRole
from protocol.spec.statuses import AuditRef, Role
from tests.e2e.reading import find, is_settled, list_rounds, read_balances, require_solvent
from tests.e2e.report import read_view
from tests.e2e.roles import make_solver, make_verifier
from tests.e2e.world import LONG_WINDOWS, ONE_ROUND_PLAN, Build, open_world, run_world


@dataclass
class Harasser(Participant):
    """A verifier that accuses every claim at once, names any step, and demands as many leaves as it may.
    segments: those that it disputes."""

    segments: tuple[int, ...] = (1,)

    def react(self, event: Event) -> None:
        """Accuse each claim, whatever it says."""
        if isinstance(event, Committed):
            audit = AuditRef(event.task, event.round, event.slot, 0, 0)
            for segment in self.segments:
                accuse(self.party, name_solver_claim(audit, segment))

    def decide(self, block: int) -> Due[Hashable]:
        """The duties of a verifier, and all that may cost others sleep."""
        due, disputes = super().decide(block), self.party.view.disputes[self.party.task].disputes
        kept = [
            one
            for one in due.actions
            if not isinstance(one, ComputeOwnRoots | NameStep | Prosecute | DemandLeaf)
        ]
        moves = [move for state in disputes.values() for move in self.list_torments(state, block)]
        return replace(due, actions=[*kept, *moves])

    def list_torments(self, state: DisputeState, block: int) -> Iterator[Move]:
        """What the contract allows in one dispute."""
        made = {(demand.node, demand.place, demand.leaf_index) for demand in state.demands}
        places = list_places(build_program(describe_program(self.party.spec.training)).program)
        wanted = [NameStep(state.dispute, 0)]
        demands = [DemandLeaf(state.dispute, *place) for place in places if place not in made]
        for move in (*wanted, *demands[: MAX_DEMANDS_EACH - len(made)]):
            if check_move(state, move, self.party.account, block) is None:
                yield move


def list_places(program: Program) -> list[tuple[int, int, int]]:
    """(node, place, leaf) all over a program: the last leaf of the buffer there, states and data included."""
    found = []
    for number in range(0, len(program.nodes), max(1, len(program.nodes) // 20)):
        node = program.nodes[number]
        for place, access in enumerate((node.output, *node.operands)):
            buffer = program.buffers[access.buffer]
            if buffer.role is not BufferRole.CONSTANT:
                found.append((number, place, (4 * buffer.size - 1) // leaf_bytes(program, access.buffer)))
    return found


def make_harasser(party: Party, segments: tuple[int, ...] = (1,)) -> Participant:
    """See Harasser."""
    return Harasser(party, partial(get_auditor_actions, role=Role.VERIFIER), segments=segments)


async def harass_all(folder: Path, solvers: int) -> dict[str, int]:
    """One round of honest solvers, every segment of whom is disputed: how many disputes there were, how many
    of them were closed, and how many parties were slashed."""
    names = [f"solver-{number}" for number in range(solvers)]
    auditors: dict[str, Build] = {"verifier-0": make_verifier, "verifier-1": make_verifier}
    segments = tuple(range(ONE_ROUND_PLAN.inner_steps // ONE_ROUND_PLAN.segment_steps))
    harasser: dict[str, Build] = {"harasser": partial(make_harasser, segments=segments)}
    cast = {**dict.fromkeys(names, make_solver), **auditors, **harasser}
    plan = replace(ONE_ROUND_PLAN, max_solvers=solvers, windows=LONG_WINDOWS)

    def is_enough(view: View) -> bool:
        return any(map(is_settled, list_rounds(view)))

    async with open_world(folder, list(cast)) as world:
        await run_world(world, plan, cast, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            await require_solvent(chain, world, view)
        balances = read_balances(world, view)
        return {
            "disputes": len(find(view, DisputeOpened)),
            "closed": len(find(view, DisputeClosed)),
            "demands": len(find(view, LeafAnswered)),
            "slashed": len(find(view, Slashed)),
            "unpaid": sum(balances[name].earned["solver"] != plan.amounts.solver_pay for name in names),
        }
