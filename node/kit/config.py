"""Holds a node's settings: its account, its files, and how its process is set up."""

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
"""The folder in which `protocol` lies."""


SWITCH_S = 5e-5
"""Seconds after which a thread hands over the interpreter: a hundredth of Python's default."""


@dataclass(frozen=True)
class NodeConfig:
    """The settings of a node: account, files, chain, address, and limits on what it uses.

    `home` holds its files; `deployment` and `rpc_url` name the chain. `deployment_sha256` is the hash of the
    deployment that the home was made for (empty: not noted). `rpc_urls` are more endpoints of the same chain.
    `poll_s` is the pause between two looks at the head (None: until the next block comes). `max_fee_wei` is
    the most that one gas may cost.

    With `listen_port` 0 it takes any free port; with `public_url` empty, peers use the address that it
    listens on. With `check_reach` it takes no seat if peers answer and none reaches it. `object_storage`
    names its own bucket and those of peers.

    `device` computes the steps (`determinism.require_device`). If the process needs more than `memory_mb`,
    large tensors lie in files (0: no limit). `dataset_cache_mb` limits the parts of datasets on disk, apart
    from those that must stay. With `whole_dataset` it fetches all of a dataset before it takes a seat. It
    replays `replay_processes` segments at once, each in a process of `executor`: "process" is a child (1:
    this process itself), "ray" a process of Ray at `ray_address` (empty: its own Ray). `workers` processes
    train a solver's segment together (1: this process).

    Prometheus reads metrics at `metrics_host` and `metrics_port` (0: nowhere). Losses go into
    `tensorboard_dir` and `wandb_dir` (None: nowhere). A submitter's node halts its task once no model was
    better for `halt_after_rounds` rounds (0: never). The node pauses while `use` reports somebody else on
    this machine (None: never). `notify` shows the operator a line."""

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
    wandb_dir: Path | None = None
    halt_after_rounds: int = 0
    rpc_urls: tuple[str, ...] = ()
    max_fee_wei: int = NO_CAP_WEI
    notify: Callable[[str], None] = print

    @property
    def endpoints(self) -> list[str]:
        """All endpoints of the chain, in order."""
        return [self.rpc_url, *self.rpc_urls]

    def read_deployment(self) -> GameDeployment:
        """Returns the deployment of the home. Raises InvalidInput as `read_game_deployment` does."""
        return read_game_deployment(self.deployment, self.deployment_sha256)


Notify = Callable[[str], None]
"""Shows the operator a line."""

FAR = 1 << 62
"""A block number that never comes."""


@dataclass
class Status:
    """The answer to GET /status: how far this node has read the chain, and for which block it waits (the head
    while it is busy)."""

    account: str
    processed_block: int = 0
    waiting_for_block: int = 0

    def show(self) -> NodeStatus:
        """Returns the status as JSON sends it."""
        return NodeStatus(self.account, self.processed_block, self.waiting_for_block)


@dataclass
class Meter:
    """Counters of a node's own work since its process began. `due` is how many duties are due, `failures` how
    many attempts failed, both by name (`name_duty`). `refolds` is how often all events were folded again.
    `loss` is the loss of the last training step. `tokens_trained` are tokens in the rows of trained steps,
    those of workers included."""

    due: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    refolds: int = 0
    rounds_trained: int = 0
    tokens_trained: int = 0
    loss: float | None = None


def share_interpreter() -> None:
    """Makes threads hand over the interpreter sooner. Boundaries are hashed beside training, and training
    needs the interpreter for microseconds between kernels; with Python's default it would wait milliseconds
    each time."""
    sys.setswitchinterval(SWITCH_S)


def describe_code() -> str:
    """Describes the software that computes a training step: files of this version, and their compiler. If the
    files are updated while a node runs, its new processes compute with other files than the node."""
    return f"code {hash_sources(CODE / 'compute', CODE / 'spec')}, numba {version('numba')}"


def describe_machine() -> str:
    """Describes everything on this machine that may change the bits of a training step."""
    return f"{describe_bits()}, {describe_code()}, {read_processor_model()}"


def has_replay_processes(config: NodeConfig) -> bool:
    """Returns whether segments are replayed in other processes."""
    return config.executor != "process" or config.replay_processes > 1


def limit_memory(config: NodeConfig) -> None:
    """Keeps large tensors of this process in files, if the operator has limited its memory. Raises
    EnvironmentFault if the system cannot."""
    keep_to_memory(make_scratch(config), share_memory_mb(config))


def share_memory_mb(config: NodeConfig) -> int:
    """Returns how many MB of memory each process of this node may use. Replay processes and workers get the
    same share as the node itself."""
    on_this_machine = config.replay_processes if has_replay_processes(config) else 0
    on_this_machine += config.workers if config.workers > 1 else 0
    return -(-config.memory_mb // (1 + on_this_machine))


def make_scratch(config: NodeConfig) -> Path:
    """Returns the home's folder for temporary files. It is made if something will use it."""
    folder = config.home / SCRATCH_FOLDER
    if config.memory_mb:
        require_mapping()
    if config.memory_mb or has_replay_processes(config) or config.workers > 1:
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def clear_scratch(config: NodeConfig) -> None:
    """Removes temporary files that a killed process of this home left. Only the holder of the journal may
    call it, since no other process uses them then."""
    for left in (config.home / SCRATCH_FOLDER).glob("*"):
        with suppress(OSError):
            left.unlink()


@contextmanager
def hold_folder(home: Path, name: str) -> Iterator[Path]:
    """Makes a new folder `NAME-...` in the home, and removes it at the end. Several processes may each hold
    one. Folders that killed processes left are removed once none is held."""
    with (home / f"{name}.lock").open("ab") as lock:
        with suppress(BlockingIOError):
            flock(lock, LOCK_EX | LOCK_NB)
            for left in home.glob(f"{name}-*"):
                rmtree(left, ignore_errors=True)
        flock(lock, LOCK_SH)
        with TemporaryDirectory(dir=home, prefix=f"{name}-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)


def keep_to_memory(folder: Path, memory_mb: int) -> None:
    """Keeps large tensors of this process in files of `folder`, so that it uses at most `memory_mb` of
    memory. With 0 nothing changes."""
    if memory_mb:
        use_room(Room(partial(make_mapped, folder), PageLimit(memory_mb * MEGABYTE).keep))
