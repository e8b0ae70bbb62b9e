"""Attacks an exact task: is each false claim rejected, each fault convicted, and at what cost?

An auditor of an exact task compares two roots. So it rejects a claim exactly if the end has other bits. This
counts attacks that reach the honest bits without the honest work; there must be none.
"""

import asyncio
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.exactness.walking import MODELS
from lab.benchmarks.hunting.arena import Arena, Ground, make_starts
from tests.attacks.attack_suite import ATTACKS
from tests.e2e.cheating import allow_cheating
from tests.e2e.faults import Ending, convict_all, list_faults
from tests.e2e.world import TINY_PLAN
from tests.task_plans import respecify_plan
from touchstone.node.kit.states import StateStore
from touchstone.node.serving.audit_room import AuditTask
from touchstone.node.submit import RoundPlan
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.digest import zero_root
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedEnd
from touchstone.protocol.spec.task_spec import Limits
from touchstone.verifier.judging import judge_ends

ARENA = Arena("mouse", 5, 40, 4, numeric_format="exact15")
"""32 segments of 5 steps."""
NO_LIMITS = Limits(0, 0, 0, 0, 0, 0)
AT_ONCE = 6
"""Solvers in one process, each with one fault."""
ROWS = 8
FETCHED = re.compile(r"fetched (\d+) of (\d+) bytes of the trace")


# Audits
def judge_attacks(arena: Arena = ARENA) -> dict[str, Any]:
    """Plays all attacks. `samples` counts claims with other bits than honest work, `rejected` those of them
    that are rejected. `idle` counts claims with the same bits, which are honest ends, by attack."""
    samples = rejected = 0
    idle: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ground = Ground(arena, folder)
        make_starts(ground)
        states = StateStore(BlobStore(folder / "blobs", is_durable=False), ground.parameter_count)
        for stage, attack, claimed, honest in _play(ground):
            own, end = states.keep(honest), states.keep(claimed)
            if own == end:
                idle[attack] = idle.get(attack, 0) + 1
                continue
            place = divmod(stage // arena.segment_steps, arena.inner_steps // arena.segment_steps)
            samples += 1
            about = _read_task(ground)
            ends = ClaimedEnd(end, own, states.open, about.get_rate_sum(*place))
            rejected += judge_ends(about, ends) is not None
    return {"samples": samples, "attacks": len(ATTACKS), "rejected": rejected, "idle": idle}


def _play(ground: Ground) -> Iterator[tuple[int, str, TrainingState, TrainingState]]:
    steps = ground.arena.segment_steps
    for stage in ground.arena.list_attacked():
        start = ground.load_start(stage)
        honest, first = ground.replay(start, stage), ground.get_inner_step(stage)
        for attack in ATTACKS:
            claimed, _ = attack.train(start, ground.spec, ground.get_batches(stage), first, steps)
            yield stage, attack.name, claimed, honest


def _read_task(ground: Ground) -> AuditTask:
    arena, count = ground.arena, ground.parameter_count
    rates = tuple(ground.count_rates(stage, arena.segment_steps) for stage in arena.list_stages())
    steps = (arena.inner_steps, arena.segment_steps)
    return AuditTask(
        bytes(32), ground.spec, ground.corpus, count, *steps, zero_root(count), False, NO_LIMITS, rates
    )


# Disputes
def build_plan(numeric_format: str, size: str | None) -> RoundPlan:
    """Returns a round with a model of this size; None stands for a tiny one."""
    if size is None:
        return respecify_plan(TINY_PLAN, numeric_format=numeric_format)
    model = MODELS[size]
    return respecify_plan(
        TINY_PLAN,
        numeric_format=numeric_format,
        model=model,
        sequences_per_step=ROWS,
        sequence_tokens=model.context_tokens,
    )


def convict_faults(numeric_format: str, size: str | None, faults: Sequence[str] = ()) -> dict[str, Any]:
    """Plays a dispute for each fault. Returns how many claimants were convicted and which were not, the
    largest share of a trace that was fetched, and the gas of all transactions of the most expensive
    dispute."""
    names, endings, shares = list(faults or list_faults(numeric_format)), list[Ending](), list[float]()
    for first in range(0, len(names), AT_ONCE):
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
            pytest.MonkeyPatch.context() as patch,
        ):
            allow_cheating(patch)
            plan, some = build_plan(numeric_format, size), names[first : first + AT_ONCE]
            endings += asyncio.run(convict_all(Path(name), some, base=plan))
            shares += _read_shares((Path(name) / "said.txt").read_text())
    return {
        "faults": len(names),
        "convicted": sum(one.is_right for one in endings),
        "left": [one.fault for one in endings if not one.is_right],
        "fetched_share": max(shares, default=0.0),
        "gas": max((one.gas for one in endings), default=0),
        "gas_by_fault": {one.fault: one.gas for one in endings},
    }


def _read_shares(said: str) -> Iterator[float]:
    return (int(found) / int(size) for found, size in FETCHED.findall(said))
