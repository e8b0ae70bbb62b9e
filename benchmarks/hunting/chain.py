"""Attacks as solvers of real rounds: Anvil, the contracts, HTTP between the parties, three honest verifiers.

Several cheats train at once beside an honest solver. Whoever is drawn replays, compares, disputes; a round is
over when every cheat is convicted or everything is settled.
"""

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.hunting.arena import BATCHES, MODELS
from node.submit import TaskPlan
from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.compute.calibrate import Proposal
from protocol.compute.determinism import pin_kernels
from protocol.spec.containers import Limits, ScheduleConfig
from protocol.spec.float32 import nearest
from protocol.spec.game_events import DisputeConvicted, Slashed
from protocol.spec.params import LATE_RATE_ONE
from protocol.spec.round import RoundState, get_claim
from protocol.spec.statuses import ClaimStatus
from tests.attacks.defence import make_accomplice, make_attacker
from tests.attacks.frame import Attack
from tests.attacks.menagerie import ATTACKS
from tests.e2e.reading import find, is_settled, list_rounds, read_balances, require_solvent
from tests.e2e.report import read_view
from tests.e2e.roles import make_solver, make_verifier, make_watcher
from tests.e2e.world import LONG_WINDOWS, ONE_ROUND_PLAN, Build, World, open_world, run_world

MODEL = "mouse"
CHEATS_AT_ONCE = 9
VERIFIERS = 3
DEADLINE_S = 900.0
QUICK_NAMES = ("tiny updates", "one label flipped, last step", "v x 1.001")
COLLUDING_NAME = "old work again"
CAUGHT = (ClaimStatus.VOID, ClaimStatus.CONVICTED)


@dataclass(frozen=True)
class Outcome:
    """How an attack ended. status: of its claim; reason: of its conviction; slashed, earned: in wei, all that
    the account lost and got; is_idle: it changed no bit of any segment, and so was no cheat here."""

    number: str
    name: str
    status: str
    reason: str
    slashed: int
    earned: int
    is_idle: bool = False

    @property
    def is_caught(self) -> bool:
        """Whether its work was neither merged nor paid."""
        return self.status in {status.name for status in CAUGHT}

    @property
    def is_convicted(self) -> bool:
        """Whether the referee took its stake."""
        return self.status == ClaimStatus.CONVICTED.name


@dataclass(frozen=True)
class RoundPlayed:
    """One round: how each attack ended, and what honest parties lost (wei) or did not get."""

    outcomes: tuple[Outcome, ...]
    honest_lost: int
    honest_status: str
    accomplice_lost: int = 0


def build_round_plan(limits: Proposal, solvers: int) -> TaskPlan:
    """One round of four segments on the smallest model under its calibrated limits; the learning rate rises
    all the time, so that no attack on the schedule is idle."""
    rows, tokens = BATCHES[MODEL]
    return replace(
        ONE_ROUND_PLAN,
        model=MODELS[MODEL][0],
        schedule=ScheduleConfig(nearest(2e-3), warmup_steps=8, total_steps=8),
        sequences_per_step=rows,
        sequence_tokens=tokens,
        accept=limits.accept,
        reject=limits.reject,
        max_solvers=solvers,
        windows=LONG_WINDOWS,
    )


async def play_round(folder: Path, limits: Proposal, attacks: Sequence[Attack]) -> RoundPlayed:
    """Each attack as a solver, one honest solver beside them."""
    changed: set[str] = set()
    attackers: dict[str, Build] = {
        f"cheat-{n}": partial(make_attacker, attack=attack, changed=changed)
        for n, attack in enumerate(attacks)
    }
    cast: dict[str, Build] = {**attackers, "solver": make_solver, **_list_verifiers(VERIFIERS)}
    return await _play(folder, build_round_plan(limits, len(attacks) + 1), cast, attacks, changed)


async def play_collusion(folder: Path, limits: Proposal, attack: Attack) -> RoundPlayed:
    """One attack, and half of the verifiers on its side; every accepted claim is audited again, late."""
    accomplices: dict[str, Build] = {
        f"accomplice-{n}": partial(make_accomplice, attack=attack) for n in range(VERIFIERS)
    }
    changed: set[str] = set()
    cast: dict[str, Build] = {
        "cheat-0": partial(make_attacker, attack=attack, changed=changed),
        "solver": make_solver,
        **accomplices,
        **_list_verifiers(VERIFIERS),
        "watcher": make_watcher,
    }
    plan = replace(build_round_plan(limits, 2), max_whistleblowers=1, late_rate=LATE_RATE_ONE)
    return await _play(folder, plan, cast, [attack], changed)


def _list_verifiers(count: int) -> dict[str, Build]:
    return {f"verifier-{n}": make_verifier for n in range(count)}


async def _play(
    folder: Path,
    plan: TaskPlan,
    cast: dict[str, Build],
    attacks: Sequence[Attack],
    changed: set[str],
) -> RoundPlayed:
    async with open_world(folder, list(cast)) as world:
        accounts = {name: key.address.lower() for name, key in world.keys.items()}
        cheats = {accounts[f"cheat-{n}"] for n in range(len(attacks))}

        def is_enough(view: View) -> bool:
            fallen = {event.claimant for event in find(view, DisputeConvicted)}
            rounds = list_rounds(view)
            judged = [state for state in rounds if _is_judged(state, accounts["solver"])]
            return bool(judged) and cheats <= fallen or any(map(is_settled, rounds))

        # What is not over by then is read as it stands: nobody is caught who was not.
        with contextlib.suppress(TimeoutError):
            await run_world(world, plan, cast, is_enough, deadline_s=DEADLINE_S)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            await require_solvent(chain, world, view)
    return _read_round(world, view, attacks, changed)


def _is_judged(state: RoundState, account: str) -> bool:
    if account not in state.solvers:
        return False
    return get_claim(state, state.solvers.index(account)).status in (*CAUGHT, ClaimStatus.ACCEPTED)


def _read_round(world: World, view: View, attacks: Sequence[Attack], changed: set[str]) -> RoundPlayed:
    balances, [state] = read_balances(world, view), list_rounds(view)
    reasons = {event.claimant: event.reason.rstrip(b"\0").decode() for event in find(view, DisputeConvicted)}
    slashed = {event.account: event.amount_wei for event in find(view, Slashed)}

    def get_status(name: str) -> str:
        slot = state.solvers.index(world.keys[name].address.lower())
        return get_claim(state, slot).status.name

    outcomes = []
    for number, attack in enumerate(attacks):
        name = f"cheat-{number}"
        account = world.keys[name].address.lower()
        earned = sum(balances[name].earned.values())
        outcomes.append(
            Outcome(
                attack.number,
                attack.name,
                get_status(name),
                reasons.get(account, ""),
                slashed.get(account, 0),
                earned,
                attack.name not in changed,
            )
        )
    honest = [name for name in balances if not name.startswith(("cheat", "accomplice"))]
    accomplices = [name for name in balances if name.startswith("accomplice")]
    return RoundPlayed(
        tuple(outcomes),
        sum(sum(balances[name].lost.values()) for name in honest),
        get_status("solver"),
        sum(sum(balances[name].lost.values()) for name in accomplices),
    )


def deal(attacks: Sequence[Attack], at_once: int = CHEATS_AT_ONCE) -> Iterator[Sequence[Attack]]:
    """The attacks of each round."""
    for start in range(0, len(attacks), at_once):
        yield attacks[start : start + at_once]


# --- A process of its own -----------------------------------------------------------------------------------
def play_all(limits: Proposal, quick: bool) -> dict[str, Any]:
    """All attacks, or three of them; then one with half of the verifiers on its side."""
    chosen = [attack for attack in ATTACKS if not quick or attack.name in QUICK_NAMES]
    started, played = time.monotonic(), []
    for attacks in deal(chosen):
        played.append(_play_once(partial(play_round, limits=limits, attacks=attacks)))
        print(f"round {len(played)} over Anvil: {time.monotonic() - started:.0f} s", flush=True)
    colluding = next(attack for attack in ATTACKS if attack.name == COLLUDING_NAME)
    together = None if quick else _play_once(partial(play_collusion, limits=limits, attack=colluding))
    return {
        "attacks": [asdict(outcome) for one in played for outcome in one.outcomes],
        "caught": sum(outcome.is_caught for one in played for outcome in one.outcomes),
        "convicted": sum(outcome.is_convicted for one in played for outcome in one.outcomes),
        "idle": sum(outcome.is_idle for one in played for outcome in one.outcomes),
        "rounds": len(played),
        "honest_lost": sum(one.honest_lost for one in played),
        "honest_statuses": [one.honest_status for one in played],
        "collusion": None if together is None else asdict(together),
        "seconds": time.monotonic() - started,
    }


def _play_once(play: Any) -> RoundPlayed:
    with tempfile.TemporaryDirectory() as folder:
        result: RoundPlayed = asyncio.run(play(Path(folder)))
        return result


def write_limits(path: Path, limits: Proposal) -> None:
    """For a process that plays."""
    path.write_text(json.dumps(asdict(limits)))


def read_limits(path: Path) -> Proposal:
    """What `write_limits` wrote."""
    values = json.loads(path.read_text())
    return Proposal(Limits(**values["accept"]), Limits(**values["reject"]))


def main() -> None:
    """Plays under the limits in a file; writes what happened to another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("limits", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    pin_kernels(1)
    options.result.write_text(json.dumps(play_all(read_limits(options.limits), options.quick)))


if __name__ == "__main__":
    main()
