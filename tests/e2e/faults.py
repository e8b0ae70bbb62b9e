"""Every kind of fault, each in the claim of a solver of its own, in one round on a real chain; and one
challenger who takes them all to the end.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from protocol.actions.challenge import accuse, name_solver_claim
from protocol.actions.participant import ComputeOwnRoots, Participant
from protocol.actions.party import Party
from protocol.actions.view import View
from protocol.adapters.chain import Chain, open_chain
from protocol.spec.drawn import get_drawn
from protocol.spec.duties import get_auditor_actions, get_solver_actions
from protocol.spec.events import Event, StartOpened
from protocol.spec.game_events import DisputeConvicted, DisputeOpened, Slashed
from protocol.spec.program import INPUTS, Operation
from protocol.spec.program import Role as Buffers
from protocol.spec.statuses import AuditRef, Role
from tests.e2e.cheats import Cheat
from tests.e2e.planted import make_planting_compute, twist_input
from tests.e2e.reading import find
from tests.e2e.report import read_view
from tests.e2e.roles import make_verifier
from tests.e2e.world import LONG_WINDOWS, ONE_ROUND_PLAN, Build, open_world, run_world

TWISTED = (Buffers.TOKENS, Buffers.LABELS, Buffers.SCALARS)
FAULTS: Mapping[str, bytes] = {
    **{operation.name: b"operation" for operation in Operation},
    **{role.name: b"data" for role in TWISTED},
}
"""By what is planted: why its claimant falls."""


class Prosecutor(Participant):
    """A verifier that disputes every claim as soon as a start of it is open, in the first segment that is,
    and names the first step of it: some errors show in the loss alone, and no state tells of them."""

    async def perform(self, action: Hashable) -> None:
        if isinstance(action, ComputeOwnRoots):
            state = self.party.view.disputes[self.party.task].disputes[action.dispute]
            self.own_roots[action.dispute] = tuple(map(bytes, map(reversed, state.roots)))
            return
        await super().perform(action)

    def react(self, event: Event) -> None:
        super().react(event)
        if isinstance(event, StartOpened) and event.task == self.party.task:
            drawn = get_drawn(self.party.round(event.round), event.slot, event.draw)
            known = {made.slot for made in self.party.memory.accusations}
            if drawn is not None and event.slot not in known:
                audit = AuditRef(event.task, event.round, event.slot, 0, 0)
                accuse(self.party, name_solver_claim(audit, drawn.segment))


def make_prosecutor(party: Party) -> Participant:
    """See Prosecutor."""
    return Prosecutor(party, partial(get_auditor_actions, role=Role.VERIFIER))


def make_faulty(party: Party, fault: str) -> Participant:
    """A solver with this fault in every step."""
    twisted = {role.name: INPUTS.index(role) for role in TWISTED}
    if fault in twisted:
        compute = make_planting_compute(twist=twist_input(twisted[fault]))
    else:
        compute = make_planting_compute(Operation[fault])
    return Cheat(party, get_solver_actions, compute)


@dataclass(frozen=True)
class Ending:
    """Why the claimant with this fault was convicted, or nothing; whether it was slashed; gas and number of
    all transactions of its dispute; what the challenger fetched of its trace, megabytes."""

    fault: str
    reason: bytes
    is_slashed: bool
    gas: int = 0
    transactions: int = 0
    fetched_mb: float = 0.0


async def convict_all(folder: Path, faults: Sequence[str]) -> list[Ending]:
    """Play one round with a solver for each fault, until all are convicted or the world's deadline."""
    auditors: dict[str, Build] = {
        "prosecutor": make_prosecutor,
        "verifier-1": make_verifier,
        "verifier-2": make_verifier,
    }
    cast: dict[str, Build] = {fault: partial(make_faulty, fault=fault) for fault in faults}
    cast |= auditors
    plan = replace(ONE_ROUND_PLAN, max_solvers=len(faults), windows=LONG_WINDOWS)

    def is_enough(view: View) -> bool:
        return len(find(view, DisputeConvicted)) >= len(faults)

    async with open_world(folder, list(cast)) as world:
        await run_world(world, plan, cast, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            costs = await read_costs(chain)
        disputes = {event.claimant: event.dispute for event in find(view, DisputeOpened)}
        reasons = {event.claimant: event.reason.rstrip(b"\0") for event in find(view, DisputeConvicted)}
        slashed = {event.account for event in find(view, Slashed)}
        endings = []
        for fault in faults:
            account = world.keys[fault].address.lower()
            dispute = disputes.get(account, b"")
            gas, fetched = costs.get(dispute, ()), read_fetched_mb(world.lines, dispute)
            endings.append(
                Ending(fault, reasons.get(account, b""), account in slashed, sum(gas), len(gas), fetched)
            )
        return endings


async def read_costs(chain: Chain) -> dict[bytes, tuple[int, ...]]:
    """Gas of each transaction of each dispute, the seal included, from the chain's receipts."""
    found: dict[bytes, dict[bytes, int]] = {}
    head = await chain.head()
    for event in await chain.read_events(chain.deployment.deploy_block, head.number):
        # The seal of an opening becomes the dispute's name.
        name = event.arguments.get("dispute", event.arguments.get("seal_hash"))
        if event.contract == "DisputeGame" and isinstance(name, bytes):
            receipt = await chain.connection.receipt(event.transaction_hash)
            assert receipt is not None
            found.setdefault(name, {})[event.transaction_hash] = int(receipt["gasUsed"])
    return {name: tuple(gas.values()) for name, gas in found.items()}


def read_fetched_mb(lines: Sequence[str], dispute: bytes) -> float:
    """What a challenger says that it fetched."""
    pattern = re.compile(rf"dispute {dispute.hex()[:8]}: fetched ([0-9.]+) MB")
    return max((float(match[1]) for line in lines if (match := pattern.search(line))), default=0.0)
