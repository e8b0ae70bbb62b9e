"""Checks of a home: its files, and what a seat takes of its machine.

`Patient` is the home that `touchstone doctor` looks at. It keeps what checks have found out for later ones.

What a seat takes of disk and memory is known before anything is staked, and compared with the limits of the
home and with what the machine has. `choose_executor` refuses what a home says of processors and libraries
that do not fit. `open_config` makes of a home what its party runs with; it stands here because commands that
only ask the chain read `scripts/home.py`, and do not wait for PyTorch.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

from touchstone.node.joining.task_reading import compute_task_bytes
from touchstone.node.joining.task_step import as_reader, fetch_program
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import JOURNAL_FILE, MEGABYTE, STORE_FOLDER, PartyConfig
from touchstone.node.kit.loss_board import LossBoard
from touchstone.node.kit.retention_windows import list_foreign
from touchstone.node.kit.stored_step import list_constants, read_program, refer_named
from touchstone.node.loop.opening import RECORDS, open_reader
from touchstone.node.training.ray_replays import load_ray
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.files.private_files import require_private_file
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.machine.machine_use import MachineUse
from touchstone.protocol.adapters.machine.process_limits import measure_memory_bytes
from touchstone.protocol.adapters.reports.node_state import SPARE_DISK_BYTES
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.compute.program.costs import ProgramCosts, measure_costs
from touchstone.protocol.compute.program.step_runners import STATES_BYTES
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.task_spec import TaskSpec, TrainingSpec
from touchstone.protocol.spec.training_codec import decode_training
from touchstone.scripts.console import Console, explain_disk
from touchstone.scripts.home import KEYSTORE_FILE, HomeConfig, has_key, read_config, unlock_key
from touchstone.scripts.task_file import (
    BYTES_PER_DELTA_ELEMENT,
    BYTES_PER_STATE_ELEMENT,
    BYTES_PER_TENSOR_ELEMENT,
    compute_disk_bytes,
    count_rounds,
)


class NotTested(Exception):
    """Why a check could not look."""


@dataclass
class Patient:
    """A home under examination. now: the machine's clock, Unix time in seconds; opened: what is closed in the
    end; key: of the account, once the password has opened it; state, task: what the chain tells, and the task
    that was named."""

    home: Path
    task_name: str | None = None
    password_file: Path | None = None
    now: Callable[[], float] = time.time
    opened: AsyncExitStack = field(default_factory=AsyncExitStack)
    config: HomeConfig | None = None
    key: AccountKey | None = None
    chain: GameChain | None = None
    state: ChainState | None = None
    task: bytes | None = None
    sound_urls: list[str] | None = None
    """Of the endpoints that show the deployment's chain; None before they were looked at."""

    def get_config(self) -> HomeConfig:
        """The configuration. Raises NotTested where it could not be read."""
        if self.config is None:
            raise NotTested("there is no usable configuration")
        return self.config

    def get_chain(self) -> GameChain:
        """The chain. Raises NotTested where it does not answer."""
        if self.chain is None:
            raise NotTested("there is no usable chain")
        return self.chain

    def get_state(self) -> ChainState:
        """What the chain tells. Raises NotTested where it does not answer."""
        if self.state is None:
            raise NotTested("there is no usable chain")
        return self.state

    def get_game(self) -> tuple[bytes, LoggedGame]:
        """The task that was named. Raises NotTested where none was, or it was not found."""
        state = self.get_state()
        if self.task is None:
            raise NotTested("no task was named" if self.task_name is None else "the task was not found")
        return self.task, state.games[self.task]


# --- The home -----------------------------------------------------------------------------------------------
async def check_configuration(patient: Patient) -> str:
    """config.toml can be read, and environment variables stand for keys."""
    patient.config = read_config(patient.home)
    return f"account {patient.config.account}"


async def check_writing(patient: Patient) -> str:
    """A file can be written in the home."""
    patient.get_config()
    with _disk_words():
        try_to_write(patient.home)
    return "a file was written and removed"


def try_to_write(folder: Path) -> None:
    """Make and remove a file. Raises OSError."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        file.write(b"x" * 4096)
        file.flush()


@contextmanager
def _disk_words() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain_disk(error) from error


async def check_key(patient: Patient) -> str:
    """The keystore and the password file are private, and the one opens the other."""
    config = patient.get_config()
    if has_key(patient.home):
        require_private_file(patient.home / KEYSTORE_FILE)
    path = patient.password_file or (Path(config.password_file) if config.password_file else None)
    if path is None:
        raise NotTested("no password file is named: a node asks at its start")
    key = await asyncio.to_thread(unlock_key, patient.home, path)
    if key.address.lower() != config.account.lower():
        raise InvalidInput(
            what="the keystore is of another account than the configuration",
            expected=config.account,
            actual=key.address,
            where=str(patient.home / KEYSTORE_FILE),
            remedy="Put the right keystore back.",
        )
    patient.key = key
    return "the password opens the keystore"


# --- What a seat takes of the machine -----------------------------------------------------------------------
Found = TypeVar("Found")
PROCESS_BYTES = 650_000_000
"""A process of a node without any tensor: Python, PyTorch, its kernels."""
STAYING_KINDS = (BlobKind.DATASET, BlobKind.STEP)
"""No pruning deletes them, though their task is over."""


@dataclass(frozen=True)
class Need:
    """What a seat takes at most while nobody disputes, in bytes. who: the seat, in words."""

    who: str
    disk_bytes: int
    memory_bytes: int


def read_checked_spec(state: ChainState, task: bytes) -> TaskSpec:
    """A task as it was posted. Raises InvalidInput where its sizes break the rules: a stranger's task must
    not take memory before it is judged."""
    spec = make_spec(state.task_terms[task], decode_training(state.texts[task]))
    refuse_broken(find_training_malformations(spec))
    return spec


def compute_need(
    role: SeatRole, terms: GameTerms, spec: TaskSpec, config: HomeConfig, costs: ProgramCosts
) -> Need:
    """What a seat of this role takes, with the processes that the home says. Where it limits memory, the
    tensors of a step lie on the disk."""
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
    """What an auditor keeps at most of its audits, where as few audit as the task allows: of each its start
    and both ends as long as it can be asked about, the start as long as it can be disputed, final weights and
    pseudo-gradient while votes count. A whistleblower keeps what posted roots are made of, and two models."""
    windows, delta, is_late = terms.windows, BYTES_PER_DELTA_ELEMENT, role is SeatRole.WHISTLEBLOWER
    draws, seats = (1, terms.least_whistleblowers) if is_late else (terms.draws, terms.least_verifiers)
    audits = ceil(draws * terms.solver_seats / max(1, seats)) if terms.late_chance or not is_late else 0
    voted, contested = count_rounds(terms, 2 * windows.audit_max), count_rounds(terms, windows.dispute)
    asked = count_rounds(terms, 2 * windows.audit_max + windows.ask)
    kept = voted * (BYTES_PER_TENSOR_ELEMENT + delta)
    kept += (3 * asked + max(0, contested - asked)) * BYTES_PER_STATE_ELEMENT
    roots = contested * (2 * BYTES_PER_TENSOR_ELEMENT + terms.solver_seats * delta)
    return ceil(count * (audits * kept + is_late * (roots + 4 * BYTES_PER_TENSOR_ELEMENT)))


def require_memory(config: HomeConfig, need: Need) -> None:
    """Raises InvalidInput where a home allows less memory than a seat takes, EnvironmentFault where this
    machine has less than is to be used."""
    allowed_bytes, has_bytes = config.memory_mb * MEGABYTE, measure_memory_bytes()
    if allowed_bytes and allowed_bytes < need.memory_bytes:
        raise InvalidInput(
            what=f"{need.who} takes more memory than this home allows",
            expected=f"memory_mb = {ceil(need.memory_bytes / MEGABYTE)} or more; 0: as it comes",
            actual=f"memory_mb = {config.memory_mb}",
            remedy="Raise memory_mb in config.toml, or set fewer replay_processes or workers there.",
        )
    if max(allowed_bytes, need.memory_bytes) > has_bytes:
        raise EnvironmentFault(
            what=f"{need.who} takes more memory than this machine has",
            expected=f"{max(allowed_bytes, need.memory_bytes) / 1e6:,.0f} MB",
            actual=f"{has_bytes / 1e6:,.0f} MB",
            remedy="Set memory_mb in config.toml to less than that: large tensors lie in files then.",
            retryable=False,
        )


def measure_kept_bytes(home: Path) -> int:
    """What a home has on its disk already. A node may write and delete meanwhile."""
    kept_bytes = 0
    for folder, _, names in os.walk(home):
        for name in names:
            with suppress(FileNotFoundError):
                kept_bytes += os.lstat(os.path.join(folder, name)).st_size
    return kept_bytes


def list_own(training: TrainingSpec, program: Program) -> frozenset[BlobKey]:
    """What a task names of the kinds that no pruning deletes: its dataset and its step."""
    step = (refer_named(training.program), refer_named(training.layout), *list_constants(program).values())
    return frozenset({BlobKey(BlobKind.DATASET, training.dataset_root), *(ref.key for ref in step)})


def measure_foreign_bytes(home: Path, task: bytes, own: Collection[BlobKey]) -> int:
    """Of that, what no pruning deletes while the node works on `task`: what its other tasks name, and other
    datasets and steps. own: as `list_own` has them. Raises EnvironmentFault where another process has the
    journal open, or it is damaged."""
    if not (home / STORE_FOLDER).is_dir() or not (home / JOURNAL_FILE).exists():
        return 0
    with Journal(home / JOURNAL_FILE, RECORDS) as journal:
        foreign = set(list_foreign(journal, task))
    store = BlobStore(home / STORE_FOLDER, is_durable=False)
    foreign |= {key for kind in STAYING_KINDS for key in store.list_keys(kind)} - {*own}
    return sum(store.get_size_bytes(key) or 0 for key in foreign)


def require_disk(home: Path, config: HomeConfig, who: str, needed_bytes: int, foreign_bytes: int = 0) -> int:
    """How much is free, in bytes. foreign_bytes: of the home's, what has to stay beside the seat. Raises
    InvalidInput where a home allows less disk than it needs, EnvironmentFault where there is less."""
    free_bytes, kept_bytes = shutil.disk_usage(home).free, measure_kept_bytes(home) - foreign_bytes
    if config.disk_mb and config.disk_mb * MEGABYTE < needed_bytes + foreign_bytes:
        raise InvalidInput(
            what=f"{who} takes more disk than this home allows",
            expected=(
                f"disk_mb = {ceil((needed_bytes + foreign_bytes) / MEGABYTE)} or more; 0: as much as there is"
            ),
            actual=f"disk_mb = {config.disk_mb}",
            remedy="Raise disk_mb in config.toml, or choose a smaller task.",
        )
    if free_bytes + kept_bytes < needed_bytes:
        raise EnvironmentFault(
            what=f"the disk has too little room for {who}",
            expected=f"{needed_bytes / 1e6:,.0f} MB, of which the home has {kept_bytes / 1e6:,.0f} already",
            actual=f"{free_bytes / 1e6:,.0f} MB free",
            where=str(home),
            remedy="Make room, or move the home to a larger disk.",
            retryable=False,
        )
    return free_bytes


async def find_room(
    config: PartyConfig, home: HomeConfig, role: SeatRole, state: ChainState, task: bytes
) -> Need:
    """What a seat of a task takes, once this machine and the limits of the home have room for it. No node of
    this home runs. Raises as `read_checked_spec`, `require_memory`, `measure_foreign_bytes` and
    `require_disk` do."""
    spec = read_checked_spec(state, task)
    async with open_reader(config) as reader:
        program = await fetch_program(as_reader(reader, task, spec, config.say), spec)
    costs = await asyncio.to_thread(measure_costs, program)
    need = compute_need(role, state.games[task].terms, spec, home, costs)
    require_memory(home, need)
    own = list_own(spec.training, program)
    foreign_bytes = await asyncio.to_thread(measure_foreign_bytes, config.home, task, own)
    require_disk(config.home, home, need.who, need.disk_bytes, foreign_bytes)
    return need


async def find_need(patient: Patient) -> tuple[Need, frozenset[BlobKey]]:
    """What the seat of this account takes in the task that was named, a solver's where it has none; and what
    the task names of the kinds that stay. Raises NotTested where none was named."""
    (task, game), config, state = patient.get_game(), patient.get_config(), patient.get_state()
    seat = find_seat(game, config.account.lower())
    role = SeatRole.SOLVER if seat is None else seat.role
    spec = read_checked_spec(state, task)
    program, _ = await asyncio.to_thread(read_own, patient.home, spec, read_program)
    costs = await asyncio.to_thread(measure_costs, program)
    return compute_need(role, game.terms, spec, config, costs), list_own(spec.training, program)


def read_own(home: Path, spec: TaskSpec, read: Callable[[BlobStore, TrainingSpec, int], Found]) -> Found:
    """What this home's store has of a task's step. Raises NotTested where it has not all that is read."""
    store = BlobStore(home / STORE_FOLDER, is_durable=False)
    if not store.has(refer_named(spec.training.program)) or not store.has(refer_named(spec.training.layout)):
        raise NotTested("the program of the task is not here: a node that joins fetches it")
    return read(store, spec.training, spec.terms.parameter_count)


async def check_disk(patient: Patient) -> str:
    """There is room for what a seat of the task keeps; without a task, for a little."""
    config, who, needed_bytes, foreign_bytes = patient.get_config(), "a home", SPARE_DISK_BYTES, 0
    with suppress(NotTested):
        (need, own), (task, _) = await find_need(patient), patient.get_game()
        who, needed_bytes = need.who, need.disk_bytes
        # A node that runs has the journal open: what its other tasks keep is not known then.
        with suppress(EnvironmentFault, InvalidInput):
            foreign_bytes = await asyncio.to_thread(measure_foreign_bytes, patient.home, task, own)
    free_bytes = require_disk(patient.home, config, who, needed_bytes, foreign_bytes)
    return f"{free_bytes / 1e6:,.0f} MB free, {who} takes up to {needed_bytes / 1e6:,.0f} MB"


async def check_memory(patient: Patient) -> str:
    """There is memory for what a seat of the task computes, within what the home allows."""
    need, _ = await find_need(patient)
    require_memory(patient.get_config(), need)
    return f"{measure_memory_bytes() / 1e6:,.0f} MB, {need.who} takes up to {need.memory_bytes / 1e6:,.0f} MB"


async def check_use(patient: Patient) -> str:
    """This system tells whether somebody uses the machine, where the node is to keep off then."""
    config = patient.get_config()
    if not config.when_idle:
        raise NotTested(
            "when_idle is false in config.toml; it is to be true there for a node with --when-idle"
        )
    MachineUse(60 * config.idle_minutes, config.idle_cores).require_telling()
    return f"a seat is taken once nobody has used it for {config.idle_minutes:g} minutes"


def choose_executor(role: SeatRole, chosen: str | None, home: HomeConfig) -> dict[str, Any]:
    """What runs the role's replays, or trains beside a solver and shows its losses, as fields of its
    `PartyConfig`. chosen: by an option, before what the home says. Raises InvalidInput for Ray or workers on
    a graphics card, or if a library is missing."""
    if role == SeatRole.SOLVER:
        if home.workers > 1 and home.device != "cpu":
            raise InvalidInput(
                what="several workers train on processors alone",
                expected='device = "cpu", or workers = 1',
                actual=f'device = "{home.device}", workers = {home.workers}',
                remedy="Change one of them in config.toml.",
            )
        settled: dict[str, Any] = {"executor": "process", "replay_processes": 1, "workers": home.workers}
        if home.tensorboard_dir:
            settled["tensorboard_dir"] = Path(home.tensorboard_dir)
            LossBoard(settled["tensorboard_dir"])  # Is its library here?
        return settled
    executor = chosen or home.executor
    if executor == "ray":
        if home.device != "cpu":
            raise InvalidInput(
                what="Ray runs replays on processors alone",
                expected='device = "cpu", or executor = "process"',
                actual=f'device = "{home.device}", executor = "ray"',
                remedy="Change one of them: in config.toml, or the executor by --executor.",
            )
        load_ray(home.ray_address)
    return {"executor": executor}


def open_config(options: argparse.Namespace, console: Console) -> PartyConfig:
    """The party of the home folder in `options`, its key unlocked."""
    config = read_config(options.home)
    return PartyConfig(
        home=options.home,
        deployment=Path(config.deployment),
        deployment_sha256=config.deployment_sha256,
        rpc_url=config.rpc_url,
        rpc_urls=tuple(config.rpc_urls),
        max_fee_wei=config.max_fee_wei,
        key=unlock_key(options.home, options.password_file),
        listen_host=config.listen_host,
        listen_port=config.listen_port,
        poll_s=config.poll_seconds or None,
        public_url=config.public_url,
        threads=config.threads,
        device=config.device,
        memory_mb=config.memory_mb,
        dataset_cache_mb=config.dataset_cache_mb,
        whole_dataset=config.whole_dataset,
        replay_processes=config.replay_processes,
        executor=config.executor,
        ray_address=config.ray_address,
        object_storage=config.object_storage,
        metrics_host=config.metrics_host,
        metrics_port=config.metrics_port,
        check_reach=config.check_reach,
        say=console.say,
    )
