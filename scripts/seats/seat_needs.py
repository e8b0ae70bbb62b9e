"""Computes the disk and memory that a seat needs.

It is known before anything is staked, and compared with the limits of the home and with the machine.
"""

import asyncio
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from touchstone.node.joining.task_reading import compute_task_bytes
from touchstone.node.joining.task_step import as_reader, fetch_program
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import JOURNAL_FILE, MEGABYTE, STORE_FOLDER, NodeConfig
from touchstone.node.kit.reader import open_reader
from touchstone.node.kit.retention_windows import list_foreign
from touchstone.node.kit.stored_step import list_constants, refer_named
from touchstone.node.records.record_kinds import RECORDS
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.machine.process_limits import measure_memory_bytes
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.compute.program.costs import ProgramCosts, measure_costs
from touchstone.protocol.compute.program.step_runners import STATES_BYTES
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.task_spec import TaskSpec, TrainingSpec
from touchstone.protocol.spec.training_codec import decode_training
from touchstone.scripts.home.home_config import HomeConfig
from touchstone.scripts.seats.least_needs import PROCESS_BYTES
from touchstone.scripts.tasks.task_sizes import (
    BYTES_PER_DELTA_ELEMENT,
    BYTES_PER_STATE_ELEMENT,
    BYTES_PER_TENSOR_ELEMENT,
    compute_disk_bytes,
    count_rounds,
)

STAYING_KINDS = (BlobKind.DATASET, BlobKind.STEP)
"""The kinds of blobs that pruning never deletes, even when their task is over."""


@dataclass(frozen=True)
class Need:
    """The most bytes that a seat needs while nobody disputes. `who` describes the seat."""

    who: str
    disk_bytes: int
    memory_bytes: int


def read_checked_spec(state: ChainState, task: bytes) -> TaskSpec:
    """Returns the spec of a task. Raises InvalidInput if its sizes break the rules, because a stranger's task
    must not take memory before it is judged."""
    spec = make_spec(state.task_terms[task], decode_training(state.texts[task]))
    refuse_broken(find_training_malformations(spec))
    return spec


def compute_need(
    role: SeatRole, terms: GameTerms, spec: TaskSpec, config: HomeConfig, costs: ProgramCosts
) -> Need:
    """Returns what a seat of this role needs, with the home's number of processes. If the home limits memory,
    the tensors of a step are on disk."""
    training, count = spec.training, spec.terms.parameter_count
    disk_bytes = compute_task_bytes(training, costs)
    if role is SeatRole.SOLVER:
        disk_bytes = compute_disk_bytes(terms, count, disk_bytes)
    else:
        disk_bytes += compute_audit_bytes(terms, count, role)
    replays = config.replay_processes if config.executor == "process" else 1
    beside = config.workers if role is SeatRole.SOLVER else replays
    processes = 1 + (beside if beside > 1 else 0)
    step_bytes = STATES_BYTES * count + (costs.step_bytes if config.device == "cpu" else 0)
    in_files = processes * step_bytes if config.memory_mb else 0
    memory_bytes = processes * (PROCESS_BYTES + step_bytes) - in_files
    return Need(f"a {role.name.lower()} of this task", disk_bytes + in_files, memory_bytes)


def compute_audit_bytes(terms: GameTerms, count: int, role: SeatRole) -> int:
    """Returns the most bytes that an auditor keeps of its audits, if as few audit as the task allows. It
    keeps the start and both ends of an audit while that can be queried, the start while it can be disputed,
    final weights and pseudo-gradient while votes count. A whistleblower also keeps the inputs of posted
    roots, and two models."""
    windows, delta, is_late = terms.windows, BYTES_PER_DELTA_ELEMENT, role is SeatRole.WHISTLEBLOWER
    draws, seats = (1, terms.least_whistleblowers) if is_late else (terms.draws, terms.least_verifiers)
    audits = ceil(draws * terms.solver_seats / max(1, seats)) if terms.late_chance or not is_late else 0
    voted, contested = count_rounds(terms, 2 * windows.audit_max), count_rounds(terms, windows.dispute)
    asked = count_rounds(terms, 2 * windows.audit_max + windows.query)
    kept = voted * (BYTES_PER_TENSOR_ELEMENT + delta)
    kept += (3 * asked + max(0, contested - asked)) * BYTES_PER_STATE_ELEMENT
    roots = contested * (2 * BYTES_PER_TENSOR_ELEMENT + terms.solver_seats * delta)
    return ceil(count * (audits * kept + is_late * (roots + 4 * BYTES_PER_TENSOR_ELEMENT)))


def require_memory(config: HomeConfig, need: Need) -> None:
    """Raises InvalidInput if the home allows less memory than a seat needs, EnvironmentFault if this machine
    has less than the node may use."""
    allowed_bytes, has_bytes = config.memory_mb * MEGABYTE, measure_memory_bytes()
    if allowed_bytes and allowed_bytes < need.memory_bytes:
        raise _memory_not_allowed(need, config)
    if max(allowed_bytes, need.memory_bytes) > has_bytes:
        raise _memory_not_there(need, has_bytes, allowed_bytes)


def _memory_not_allowed(need: Need, config: HomeConfig) -> InvalidInput:
    return InvalidInput(
        what=f"{need.who} takes more memory than this home allows",
        expected=f"memory_mb = {ceil(need.memory_bytes / MEGABYTE)} or more; 0: no limit",
        actual=f"memory_mb = {config.memory_mb}",
        remedy="Raise memory_mb in config.toml, or set fewer replay_processes or workers there.",
    )


def _memory_not_there(need: Need, has_bytes: int, allowed_bytes: int) -> EnvironmentFault:
    return EnvironmentFault(
        what=f"{need.who} takes more memory than this machine has",
        expected=f"{max(allowed_bytes, need.memory_bytes) / 1e6:,.0f} MB",
        actual=f"{has_bytes / 1e6:,.0f} MB",
        remedy="Set memory_mb in config.toml to less than that: large tensors lie in files then.",
        retryable=False,
    )


def measure_kept_bytes(home: Path) -> int:
    """Returns how many bytes a home already has on disk. A node may write and delete meanwhile."""
    kept_bytes = 0
    for folder, _, names in os.walk(home):
        for name in names:
            with suppress(FileNotFoundError):
                kept_bytes += os.lstat(os.path.join(folder, name)).st_size
    return kept_bytes


def list_own(training: TrainingSpec, program: Program) -> frozenset[BlobKey]:
    """Returns the blobs of a task that pruning never deletes: its dataset and its step."""
    step = (refer_named(training.program), refer_named(training.layout), *list_constants(program).values())
    return frozenset({BlobKey(BlobKind.DATASET, training.dataset_root), *(ref.key for ref in step)})


def measure_foreign_bytes(home: Path, task: bytes, own: Collection[BlobKey]) -> int:
    """Returns how many of those bytes pruning never deletes while the node works on `task`: what its other
    tasks name, and other datasets and steps. `own` is from `list_own`. Raises EnvironmentFault if another
    process has the journal open, or it is damaged."""
    if not (home / STORE_FOLDER).is_dir() or not (home / JOURNAL_FILE).exists():
        return 0
    with Journal(home / JOURNAL_FILE, RECORDS) as journal:
        foreign = set(list_foreign(journal, task))
    store = BlobStore(home / STORE_FOLDER, is_durable=False)
    foreign |= {key for kind in STAYING_KINDS for key in store.list_keys(kind)} - {*own}
    return sum(store.get_size_bytes(key) or 0 for key in foreign)


def require_disk(home: Path, config: HomeConfig, who: str, needed_bytes: int, foreign_bytes: int = 0) -> int:
    """Returns how many bytes are free. `foreign_bytes` are those of the home that must stay besides the
    seat's. Raises InvalidInput if the home allows less disk than needed, EnvironmentFault if there is
    less."""
    free_bytes, kept_bytes = shutil.disk_usage(home).free, measure_kept_bytes(home) - foreign_bytes
    if config.disk_mb and config.disk_mb * MEGABYTE < needed_bytes + foreign_bytes:
        raise _disk_not_allowed(who, config, needed_bytes, foreign_bytes)
    if free_bytes + kept_bytes < needed_bytes:
        raise _disk_not_there(home, who, needed_bytes, kept_bytes, free_bytes)
    return free_bytes


def _disk_not_allowed(who: str, config: HomeConfig, needed_bytes: int, foreign_bytes: int) -> InvalidInput:
    return InvalidInput(
        what=f"{who} takes more disk than this home allows",
        expected=(
            f"disk_mb = {ceil((needed_bytes + foreign_bytes) / MEGABYTE)} or more; 0: as much as there is"
        ),
        actual=f"disk_mb = {config.disk_mb}",
        remedy="Raise disk_mb in config.toml, or choose a smaller task.",
    )


def _disk_not_there(
    home: Path, who: str, needed_bytes: int, kept_bytes: int, free_bytes: int
) -> EnvironmentFault:
    return EnvironmentFault(
        what=f"the disk has too little room for {who}",
        expected=f"{needed_bytes / 1e6:,.0f} MB, of which the home has {kept_bytes / 1e6:,.0f} already",
        actual=f"{free_bytes / 1e6:,.0f} MB free",
        where=str(home),
        remedy="Make room, or move the home to a larger disk.",
        retryable=False,
    )


async def find_room(
    config: NodeConfig, home: HomeConfig, role: SeatRole, state: ChainState, task: bytes
) -> Need:
    """Returns what a seat of a task needs, after checking that this machine and the home's limits have room
    for it. No node of this home may run. Raises as `read_checked_spec`, `require_memory`,
    `measure_foreign_bytes` and `require_disk` do."""
    spec = read_checked_spec(state, task)
    async with open_reader(config) as reader:
        program = await fetch_program(as_reader(reader, task, spec, config.notify), spec)
    costs = await asyncio.to_thread(measure_costs, program)
    need = compute_need(role, state.games[task].terms, spec, home, costs)
    require_memory(home, need)
    own = list_own(spec.training, program)
    foreign_bytes = await asyncio.to_thread(measure_foreign_bytes, config.home, task, own)
    require_disk(config.home, home, need.who, need.disk_bytes, foreign_bytes)
    return need
