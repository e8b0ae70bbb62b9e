"""Checks the machine's room for a seat: disk and memory, and whether somebody else uses it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from touchstone.node.kit.config import STORE_FOLDER
from touchstone.node.kit.stored_step import read_program, refer_named
from touchstone.protocol.adapters.machine.machine_use import MachineUse
from touchstone.protocol.adapters.machine.process_limits import measure_memory_bytes
from touchstone.protocol.adapters.reports.node_state import SPARE_DISK_BYTES
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.task_spec import TaskSpec, TrainingSpec
from touchstone.scripts.doctor.patient import NotTested, Patient
from touchstone.scripts.seats.seat_needs import (
    Need,
    compute_need,
    list_own,
    measure_foreign_bytes,
    read_checked_spec,
    require_disk,
    require_memory,
)

Found = TypeVar("Found")


async def find_need(patient: Patient) -> tuple[Need, frozenset[BlobKey]]:
    """Returns what this account's seat needs in the named task (a solver's seat if it has none), and the
    blobs of the task that are never pruned. Raises NotTested if no task was named."""
    (task, game), config, state = patient.get_game(), patient.get_config(), patient.get_state()
    seat = find_seat(game, config.account.lower())
    role = SeatRole.SOLVER if seat is None else seat.role
    spec = read_checked_spec(state, task)
    program, _ = await asyncio.to_thread(read_own, patient.home, spec, read_program)
    costs = await asyncio.to_thread(measure_costs, program)
    return compute_need(role, game.terms, spec, config, costs), list_own(spec.training, program)


def read_own(home: Path, spec: TaskSpec, read: Callable[[BlobStore, TrainingSpec, int], Found]) -> Found:
    """Returns what this home's store has of a task's step. Raises NotTested if parts are missing."""
    store = BlobStore(home / STORE_FOLDER, is_durable=False)
    if not store.has(refer_named(spec.training.program)) or not store.has(refer_named(spec.training.layout)):
        raise NotTested("the program of the task is not here: a node that joins fetches it")
    return read(store, spec.training, spec.terms.parameter_count)


async def check_disk(patient: Patient) -> str:
    """Checks that the disk has room for what a seat of the task keeps; without a task, for a small amount."""
    config, who, needed_bytes, foreign_bytes = patient.get_config(), "a home", SPARE_DISK_BYTES, 0
    with suppress(NotTested):
        (need, own), (task, _) = await find_need(patient), patient.get_game()
        who, needed_bytes = need.who, need.disk_bytes
        # A running node has the journal open, so what its other tasks keep is not known then.
        with suppress(EnvironmentFault, InvalidInput):
            foreign_bytes = await asyncio.to_thread(measure_foreign_bytes, patient.home, task, own)
    free_bytes = require_disk(patient.home, config, who, needed_bytes, foreign_bytes)
    return f"{free_bytes / 1e6:,.0f} MB free, {who} takes up to {needed_bytes / 1e6:,.0f} MB"


async def check_memory(patient: Patient) -> str:
    """Checks that there is memory for the computation of a seat of the task, within the home's limit."""
    need, _ = await find_need(patient)
    require_memory(patient.get_config(), need)
    return f"{measure_memory_bytes() / 1e6:,.0f} MB, {need.who} takes up to {need.memory_bytes / 1e6:,.0f} MB"


async def check_use(patient: Patient) -> str:
    """Checks that this system tells whether somebody uses the machine, if the node must pause then."""
    config = patient.get_config()
    if not config.when_idle:
        raise NotTested(
            "when_idle is false in config.toml; it is to be true there for a node with --when-idle"
        )
    MachineUse(60 * config.idle_minutes, config.idle_cores).require_telling()
    return f"a seat is taken once nobody has used it for {config.idle_minutes:g} minutes"
