"""Who acts, where its files are, which chain, where it listens; and what its process is told once."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from protocol.adapters.journal import FILE_NAME
from protocol.adapters.keys import AccountKey
from protocol.adapters.mapped_files import PageLimit, make_mapped, require_mapping
from protocol.adapters.part_store import FILE_NAME as PARTS_NAME
from protocol.adapters.wire.conventions import NodeStatus
from protocol.compute.program.tensor_allocator import Room, use_room

JOURNAL_FILE = FILE_NAME
STORE_FOLDER = "blobs"
SCRATCH_FOLDER = "scratch"
PARTS_FILE = PARTS_NAME
MEGABYTE = 1_000_000
SWITCH_S = 5e-5
"""A hundredth of Python's default."""


@dataclass(frozen=True)
class PartyConfig:
    """Who acts, where its files are, which chain, and where it listens. `listen_port` 0: any free port;
    `public_url` empty: the address it listens on. `memory_mb`: as much of this machine's memory is to be used
    at most, and large tensors lie in files (0: in memory). `dataset_cache_mb`: of disk for parts of datasets,
    beyond those that must stay; `whole_dataset`: fetch all of a dataset before taking a seat. `say` shows a
    line to the operator."""

    home: Path
    deployment: Path
    rpc_url: str
    key: AccountKey
    listen_host: str = "127.0.0.1"
    listen_port: int = 0
    public_url: str = ""
    threads: int = 1
    memory_mb: int = 0
    dataset_cache_mb: int = 1_000
    whole_dataset: bool = False
    say: Callable[[str], None] = print


@dataclass
class Status:
    """What GET /status says: how far this node has read the chain, and for which block it waits (the head
    while it is busy)."""

    account: str
    processed_block: int = 0
    waiting_for_block: int = 0

    def show(self) -> NodeStatus:
        """The same as it is sent."""
        return NodeStatus(self.account, self.processed_block, self.waiting_for_block)


def share_interpreter() -> None:
    """Let threads give the interpreter to each other sooner: boundaries are hashed beside training, which
    needs it for microseconds between kernels and would wait for milliseconds each time."""
    sys.setswitchinterval(SWITCH_S)


def limit_memory(config: PartyConfig) -> None:
    """Have this process's large tensors lie in files, if its operator wants so. Raises EnvironmentFault where
    the system cannot."""
    if config.memory_mb:
        require_mapping()
        folder = config.home / SCRATCH_FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        use_room(Room(partial(make_mapped, folder), PageLimit(config.memory_mb * MEGABYTE).keep))
