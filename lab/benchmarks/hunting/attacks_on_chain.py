"""Plays attacks as solvers of real rounds: Anvil, the contracts, HTTPS, three honest verifiers.

Several cheats train at once beside an honest solver. The drawn auditors replay, compare, vote and dispute. A
play is over when every cheat is convicted or the task is closed.
"""

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from lab.benchmarks.hunting.arena import BATCHES, MODELS
from tests.attacks.attack_suite import ATTACKS
from tests.attacks.defence import make_accomplice, make_attacker
from tests.attacks.frame import Attack
from tests.e2e.cheating import allow_cheating
from tests.e2e.reading import CONVICTED, list_closed, read_happened, read_statuses
from tests.e2e.roles import SOLVER, VERIFIER, WATCHER
from tests.e2e.world import TINY_PLAN, Part, open_world, run_world
from tests.task_plans import respecify_plan
from touchstone.node.loop.node import Node
from touchstone.node.submit import RoundPlan
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.game.enums import ClaimStatus
from touchstone.protocol.spec.game.terms import GameWindows
from touchstone.protocol.spec.params import LATE_RATE_ONE
from touchstone.protocol.spec.task_spec import Limits, ScheduleConfig

MODEL = "mouse"
CHEATS_AT_ONCE = 9
VERIFIERS = 3
DEADLINE_S = 900.0
QUICK_NAMES = ("tiny updates", "one label flipped, last step", "v x 1.001")
COLLUDING_NAME = "old work again"
HONEST = "solver"
WINDOWS = GameWindows(
    delay=1, draw_grid=2, train_min=600, train_max=900, audit_max=400, post=40, respond=200, dispute=3_000,
    query=8_400,
)  # fmt: skip
"""Windows. Idle blocks cost no time; a block in which a party works takes two seconds."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an attack. `status` is its claim's, or CONVICTED; `by` is the call that convicted the
    cheat; `slashed` is the lost stake in wei. `is_idle` says that the attack changed no bit of any segment,
    and so was no cheat."""

    number: str
    name: str
    status: str
    by: str
    slashed: int
    is_idle: bool = False

    @property
    def is_caught(self) -> bool:
        """Whether its work was neither merged nor paid."""
        return self.status in (CONVICTED, ClaimStatus.VOID.name)

    @property
    def is_convicted(self) -> bool:
        """Whether it lost its seat."""
        return self.status == CONVICTED


@dataclass(frozen=True)
class Played:
    """The outcome of a play: how each attack ended, the status of the honest claim, and what honest parties
    and accomplices lost, in wei."""

    outcomes: tuple[Outcome, ...]
    honest_status: str
    honest_lost: int
    accomplice_lost: int = 0


class Play(Protocol):
    """A play that needs a folder."""

    def __call__(self, folder: Path) -> Coroutine[Any, Any, Played]:
        """Runs the play in a folder."""


def build_round_plan(limits: Limits, solvers: int) -> RoundPlan:
    """Returns one round of four segments on the smallest model under its calibrated limits. The learning rate
    rises all the time, so that every attack on the schedule changes something."""
    rows, tokens = BATCHES[MODEL]
    return respecify_plan(
        TINY_PLAN,
        model=MODELS[MODEL][0],
        schedule=ScheduleConfig(nearest(2e-3), warmup_steps=8, total_steps=8),
        sequences_per_step=rows,
        sequence_tokens=tokens,
        limits=limits,
        rounds=1,
        solver_seats=solvers,
        least_solvers=solvers,
        late_chance=0,
        least_whistleblowers=0,
        windows=WINDOWS,
    )


async def play_round(folder: Path, limits: Limits, attacks: Sequence[Attack]) -> Played:
    """Plays each attack as a solver, with one honest solver beside them."""
    changed: set[str] = set()
    cast = {f"cheat-{n}": make_attacker(attack, changed) for n, attack in enumerate(attacks)}
    cast |= {HONEST: SOLVER} | {f"verifier-{n}": VERIFIER for n in range(VERIFIERS)}
    return await _play(folder, build_round_plan(limits, len(attacks) + 1), cast, attacks, changed)


async def play_collusion(folder: Path, limits: Limits, attack: Attack) -> Played:
    """Plays one attack with half of the verifiers on its side. Every accepted claim is audited again, late.
    The task is played to its end, because accomplices are convicted after the cheat."""
    changed: set[str] = set()
    cast = {"cheat-0": make_attacker(attack, changed), HONEST: SOLVER}
    known = dict[str, str]()
    accomplice = make_accomplice(attack, lambda: known["cheat-0"])
    cast |= {f"accomplice-{n}": accomplice for n in range(VERIFIERS)}
    cast |= {f"verifier-{n}": VERIFIER for n in range(VERIFIERS)}
    cast |= {f"watcher-{n}": WATCHER for n in range(VERIFIERS)}
    plan = replace(
        build_round_plan(limits, 2),
        late_chance=LATE_RATE_ONE,
        least_whistleblowers=VERIFIERS,
        least_verifiers=2 * VERIFIERS,
    )
    return await _play(folder, plan, cast, [attack], changed, known)


async def _play(
    folder: Path,
    plan: RoundPlan,
    cast: Mapping[str, Part],
    attacks: Sequence[Attack],
    changed: set[str],
    known: dict[str, str] | None = None,
) -> Played:
    """Plays a round. `known` gets all accounts by name, so that the conviction of accomplices can be
    awaited."""
    cheats = {f"cheat-{n}" for n in range(len(attacks))}
    last: dict[str, Any] = {}

    def is_enough(submitter: Node) -> bool:
        game = submitter.state.games.get(world.task)
        if game is None or 0 not in game.rounds:
            return False
        if game.rounds[0].claims:
            last["statuses"] = read_statuses(world, game, 0, submitter.state.head_block)
        closed = list_closed(world, game)
        is_over = cheats <= closed and last["statuses"][HONEST] != ClaimStatus.UNDECIDED.name
        return is_over and known is None

    async with open_world(folder, tuple(cast)) as world:
        accounts = {name: key.address.lower() for name, key in world.keys.items()}
        (known if known is not None else {}).update(accounts)
        # What is not over by then is read as it stands: nobody is caught who was not.
        with contextlib.suppress(TimeoutError):
            await run_world(world, plan, cast, is_enough, deadline_s=DEADLINE_S)
        happened = await read_happened(world)
        (folder / "said.txt").write_text("\n".join(world.lines))
    slashed, statuses = happened.read_slashed(), last["statuses"]
    by = {one.accused: one.by for one in happened.disputes if one.outcome.name == CONVICTED}
    outcomes = []
    for number, attack in enumerate(attacks):
        name = f"cheat-{number}"
        told = (by.get(accounts[name], ""), slashed.get(accounts[name], 0), attack.name not in changed)
        outcomes.append(Outcome(attack.number, attack.name, statuses[name], *told))
    accomplices = [accounts[name] for name in cast if name.startswith("accomplice")]
    honest = [accounts[name] for name in cast if not name.startswith(("accomplice", "cheat"))]
    lost = happened.compute_lost(honest), happened.compute_lost(accomplices)
    return Played(tuple(outcomes), statuses[HONEST], *lost)


def deal(attacks: Sequence[Attack], at_once: int = CHEATS_AT_ONCE) -> Iterator[Sequence[Attack]]:
    """Yields the attacks of each play."""
    for start in range(0, len(attacks), at_once):
        yield attacks[start : start + at_once]


# A process of its own
def play_all(limits: Limits, quick: bool) -> dict[str, Any]:
    """Plays all attacks, or three of them, then one with half of the verifiers on its side."""
    chosen = [attack for attack in ATTACKS if not quick or attack.name in QUICK_NAMES]
    started, played = time.monotonic(), []
    for attacks in deal(chosen):
        played.append(play_once(partial(play_round, limits=limits, attacks=attacks)))
        print(f"play {len(played)} over Anvil: {time.monotonic() - started:.0f} s", flush=True)
    colluding = next(attack for attack in ATTACKS if attack.name == COLLUDING_NAME)
    together = play_once(partial(play_collusion, limits=limits, attack=colluding))
    outcomes = [outcome for one in played for outcome in one.outcomes]
    return {
        "attacks": [asdict(outcome) for outcome in outcomes],
        "caught": sum(outcome.is_caught for outcome in outcomes),
        "convicted": sum(outcome.is_convicted for outcome in outcomes),
        "idle": sum(outcome.is_idle for outcome in outcomes),
        "rounds": len(played),
        "honest_lost": sum(one.honest_lost for one in played),
        "honest_statuses": [one.honest_status for one in played],
        "collusion": asdict(together),
        "seconds": time.monotonic() - started,
    }


def play_once(play: Play) -> Played:
    """Runs one play in its own folder, with cheating allowed."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        allow_cheating(monkeypatch)
        return asyncio.run(play(folder=Path(folder)))


def write_limits(path: Path, limits: Limits) -> None:
    """Writes limits for another process."""
    path.write_text(json.dumps(asdict(limits)))


def read_limits(path: Path) -> Limits:
    """Reads what `write_limits` wrote."""
    return Limits(**json.loads(path.read_text()))


def main() -> None:
    """Plays under the limits in one file, and writes the outcomes to another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("limits", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    pin_kernels(1)
    options.result.write_text(json.dumps(play_all(read_limits(options.limits), options.quick)))


if __name__ == "__main__":
    main()
