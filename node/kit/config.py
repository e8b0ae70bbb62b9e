"""Who acts, where its files are, and what its process is told once."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from functools import partial
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from touchstone.protocol.adapters.chain.deployment import GameDeployment, read_game_deployment
from touchstone.protocol.adapters.chain.fees import NO_CAP_WEI
from touchstone.protocol.adapters.files.mapped_files import PageLimit, make_mapped, require_mapping
from touchstone.protocol.adapters.journal import FILE_NAME
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.machine.determinism_fingerprint import hash_sources, read_processor_model
from touchstone.protocol.adapters.machine.machine_use import MachineUse
from touchstone.protocol.adapters.store.part_store import FILE_NAME as PARTS_NAME
from touchstone.protocol.adapters.wire.json_answers import NodeStatus
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage
from touchstone.protocol.compute.determinism import describe_bits
from touchstone.protocol.compute.program.tensor_allocator import Room, use_room

JOURNAL_FILE = FILE_NAME


STORE_FOLDER = "blobs"


SCRATCH_FOLDER = "scratch"


PARTS_FILE = PARTS_NAME


MEGABYTE = 1_000_000


CODE = Path(__file__).resolve().parents[2]
"""The folder of `protocol`."""


SWITCH_S = 5e-5
"""A hundredth of Python's default."""


@dataclass(frozen=True)
class NodeConfig:
    """Who acts, where its files are, which chain, and where it listens. `deployment_sha256`: of the
    deployment for which the home was made (empty: not noted). `listen_port` 0: any free port; `public_url`
    empty: the address it listens on. `check_reach`: take no seat if peers answer and none reaches this node.
    `device`: where steps are computed (`determinism.require_device`). `memory_mb`: as much of this machine's
    memory is to be used at most, and large tensors lie in files (0: in memory). `dataset_cache_mb`: of disk
    for parts of datasets, beyond those that must stay; `whole_dataset`: fetch all of a dataset before taking
    a seat. `replay_processes`: so many segments are replayed at once, each in a process of `executor`
    ("process": a child, but with 1 this process itself; "ray": of Ray at `ray_address`, empty for a Ray of
    its own). `workers`: so many processes train a segment of a solver together (1: this process).
    `object_storage`: this node's own bucket, and those of peers. `metrics_port`: where Prometheus reads what
    the node counts (0: nowhere), at `metrics_host`. `tensorboard_dir`: where losses are written for
    TensorBoard (None: nowhere). `poll_s`: pause between two looks at the chain's head (None: as its blocks
    come). `use`: tells whether somebody else uses this machine; the node pauses then (None: it works on).
    `rpc_urls`: more endpoints of the same chain; `max_fee_wei`: the most that one gas may cost. `notify`
    shows a line to the operator."""

    home: Path
    deployment: Path
    rpc_url: str
    key: AccountKey
    deployment_sha256: str = ""
    listen_host: str = "127.0.0.1"
    listen_port: int = 0
    poll_s: float | None = None
    public_url: str = ""
    check_reach: bool = True
    threads: int = 1
    device: str = "cpu"
    memory_mb: int = 0
    dataset_cache_mb: int = 1_000
    whole_dataset: bool = False
    replay_processes: int = 1
    executor: str = "process"
    ray_address: str = ""
    workers: int = 1
    object_storage: ObjectStorage = ObjectStorage()
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0
    use: MachineUse | None = None
    tensorboard_dir: Path | None = None
    rpc_urls: tuple[str, ...] = ()
    max_fee_wei: int = NO_CAP_WEI
    notify: Callable[[str], None] = print

    @property
    def endpoints(self) -> list[str]:
        """All endpoints of the chain, the first one first."""
        return [self.rpc_url, *self.rpc_urls]

    def read_deployment(self) -> GameDeployment:
        """Returns the deployment of the home. Raises InvalidInput as `read_game_deployment` does."""
        return read_game_deployment(self.deployment, self.deployment_sha256)


Notify = Callable[[str], None]
"""Shows the operator a line."""

FAR = 1 << 62
"""A block that never comes."""


@dataclass
class Status:
    """What GET /status says: how far this node has read the chain, and for which block it waits (the head
    while it is busy)."""

    account: str
    processed_block: int = 0
    waiting_for_block: int = 0

    def show(self) -> NodeStatus:
        """Returns the status as it is sent."""
        return NodeStatus(self.account, self.processed_block, self.waiting_for_block)


@dataclass
class Meter:
    """What a node counts of its own work since its process began. due: duties that are due, by name
    (`name_duty`); failures: failed attempts at a duty; refolds: how often all events were folded again; loss:
    that of the last training step; tokens_trained: tokens in the rows of trained steps, which workers
    share."""

    due: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    refolds: int = 0
    rounds_trained: int = 0
    tokens_trained: int = 0
    loss: float | None = None


def share_interpreter() -> None:
    """Makes threads give the interpreter to each other sooner: boundaries are hashed beside training, which
    needs it for microseconds between kernels and would wait for milliseconds each time."""
    sys.setswitchinterval(SWITCH_S)


def describe_code() -> str:
    """Describes what computes a training step besides the machine: the files of this version, and their
    compiler. A process that is started after an update of the files computes with other ones than its
    node."""
    return f"code {hash_sources(CODE / 'compute', CODE / 'spec')}, numba {version('numba')}"


def describe_machine() -> str:
    """Describes everything on this machine whose change may change the bits of a training step."""
    return f"{describe_bits()}, {describe_code()}, {read_processor_model()}"


def has_replay_processes(config: NodeConfig) -> bool:
    """Returns whether segments are replayed in other processes than this one."""
    return config.executor != "process" or config.replay_processes > 1


def limit_memory(config: NodeConfig) -> None:
    """Keeps large tensors of this process in files, if its operator wants so. Raises EnvironmentFault if the
    system cannot."""
    keep_to_memory(make_scratch(config), share_memory_mb(config))


def share_memory_mb(config: NodeConfig) -> int:
    """Returns how much memory each process of this node may use: replay processes and workers get the same
    share as the node itself."""
    on_this_machine = config.replay_processes if has_replay_processes(config) else 0
    on_this_machine += config.workers if config.workers > 1 else 0
    return -(-config.memory_mb // (1 + on_this_machine))


def make_scratch(config: NodeConfig) -> Path:
    """Returns the home's folder for files that nobody needs after this process. It is made if something will
    use it."""
    folder = config.home / SCRATCH_FOLDER
    if config.memory_mb:
        require_mapping()
    if config.memory_mb or has_replay_processes(config) or config.workers > 1:
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def clear_scratch(config: NodeConfig) -> None:
    """Removes the files that a killed process of this home left, whatever the configuration was. Only the
    holder of the journal may call it: then no other process uses them."""
    for left in (config.home / SCRATCH_FOLDER).glob("*"):
        with suppress(OSError):
            left.unlink()


@contextmanager
def hold_folder(home: Path, name: str) -> Iterator[Path]:
    """A new folder `NAME-...` of the home that is gone afterwards, whatever lies in it. Several processes may
    hold one each. What those left that were killed meanwhile goes when none is held."""
    with (home / f"{name}.lock").open("ab") as lock:
        with suppress(BlockingIOError):
            flock(lock, LOCK_EX | LOCK_NB)
            for left in home.glob(f"{name}-*"):
                rmtree(left, ignore_errors=True)
        flock(lock, LOCK_SH)
        with TemporaryDirectory(dir=home, prefix=f"{name}-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)


def keep_to_memory(folder: Path, memory_mb: int) -> None:
    """Keeps large tensors of this process in files of `folder`; 0: nothing changes."""
    if memory_mb:
        use_room(Room(partial(make_mapped, folder), PageLimit(memory_mb * MEGABYTE).keep))
