"""Every attack of the zoo on an exact task: is each claim that differs in a bit rejected?

An auditor of an exact task compares two roots. So a claim is rejected exactly where its end has other bits,
and what is counted here is that no attack comes to the honest bits without the honest work.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.benchmarks.hunting.arena import Arena, Ground, make_starts
from protocol.actions.audit.audit_room import AuditTask, StateShelf
from protocol.actions.audit.replaying import judge_ends
from protocol.adapters.store import BlobStore
from protocol.compute.digest import zero_root
from protocol.compute.program.step import TrainingState
from protocol.spec.containers import Limits
from tests.attacks.menagerie import ATTACKS

ARENA = Arena("mouse", 5, 40, 4, numeric_format="exact15")
"""32 segments of 5 steps."""
NO_LIMITS = Limits(0, 0, 0, 0, 0, 0)


def judge_attacks(arena: Arena = ARENA) -> dict[str, Any]:
    """samples, attacks, rejected: claims with other bits than honest work. idle: claims with the same bits,
    which are honest ends, by attack."""
    samples = rejected = 0
    idle: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ground = Ground(arena, folder)
        make_starts(ground)
        shelf = StateShelf(BlobStore(folder / "blobs", is_durable=False), ground.parameter_count)
        for stage, attack, claimed, honest in _play(ground):
            own, end = shelf.keep(honest), shelf.keep(claimed)
            if own == end:
                idle[attack] = idle.get(attack, 0) + 1
                continue
            place = divmod(stage // arena.segment_steps, arena.inner_steps // arena.segment_steps)
            samples += 1
            rejected += judge_ends(_read_task(ground), shelf, place, own, end, is_exact=True) is not None
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
