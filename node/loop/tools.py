"""Everything that a node acts with in one task. Only the code that builds rooms sees all of it."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from touchstone.node.kit.config import Meter, Notify
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.loop_signals import NotifyLoop
from touchstone.node.kit.loss_board import LossBoard
from touchstone.node.kit.peers import Peers
from touchstone.node.kit.recompute_queue import RecomputeQueue
from touchstone.node.kit.retention_windows import PruningMemory
from touchstone.node.kit.signer import Signer
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.view import GetView
from touchstone.node.records.claim_records import ClaimBook
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.training.worker_team import Team
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.machine.machine_use import MachineUse
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.compute.batches import Corpus


@dataclass(frozen=True)
class Tools:
    """The tools of a node. `get_view` returns the present view, `notify_loop` makes the loop look again,
    `keep_up` folds the chain's events without end, `catch_up` until the newest folded block is recent.
    `claims`, `cases` and `pruning_memory` are records to write to. `home` is the data directory. `use` tells
    who uses this machine, None if that does not matter. `is_reach_wanted` says that no seat is taken if no
    peer reaches this node."""

    get_view: GetView
    notify: Notify
    notify_loop: NotifyLoop
    keep_up: Callable[[], Coroutine[Any, Any, None]]
    catch_up: Callable[[], Awaitable[None]]
    states: StateStore
    peers: Peers
    chain: GameChain
    signer: Signer
    journal: Journal
    claims: ClaimBook
    cases: DisputeRecords
    pruning_memory: PruningMemory
    recompute_queue: RecomputeQueue
    locks: Locks
    corpus: Corpus
    team: Team | None
    meter: Meter
    board: LossBoard | None
    bucket: Bucket | None
    use: MachineUse | None
    home: Path
    is_reach_wanted: bool
