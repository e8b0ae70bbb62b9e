"""Opens a node's audit room: the part that audits, and the part that shows its own claims to auditors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from touchstone.node.kit.config import (
    STORE_FOLDER,
    NodeConfig,
    has_replay_processes,
    make_scratch,
    share_memory_mb,
)
from touchstone.node.kit.view import GetView
from touchstone.node.models.claim_openings import ClaimData
from touchstone.node.models.outer_step import OuterSteps
from touchstone.node.training.ray_replays import open_ray
from touchstone.node.training.replay_pool import ProcessWorker, ReplayPool
from touchstone.node.training.replay_worker import ReplayWorker
from touchstone.protocol.adapters.keys.signatures import recover_signer
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.open_questions import has_bond_alone
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import Statement
from touchstone.protocol.spec.typed_data import SigningDomain


@dataclass(frozen=True)
class KnownModels:
    """Finds the models and carried roots that claims start from."""

    get_view: GetView
    outer_steps: OuterSteps
    claim_data: ClaimData

    async def load_base(self, root: bytes) -> OuterHeader:
        """Returns the outer header of an outer root, and puts its weights into the store."""
        return await self.outer_steps.load_base(root)

    async def find_carried(self, index: int, slot: int) -> bytes:
        """Returns the carried root of a merged claim: from this node's own leaf, a known one, or a peer's."""
        game_round = self.get_view().game.rounds[index]
        return (await self.claim_data.find_work(game_round, game_round.claims[slot])).carried_root


def open_pool(config: NodeConfig) -> ReplayPool:
    """Returns the replay processes that the configuration asks for, and tells the operator which. They start
    at the first replay. Raises InvalidInput without Ray, EnvironmentFault if Ray does not start."""
    scratch, most = make_scratch(config), f"replays: {config.replay_processes} at once at most"
    make_worker: Callable[[], ReplayWorker]
    if config.executor == "ray":
        make_worker = open_ray(config.ray_address, config.threads, config.replay_processes)
        ray = f"the Ray at {config.ray_address}" if config.ray_address else "a Ray that this node starts"
        config.notify(f"{most}, by {ray}")
    else:
        make_worker = partial(ProcessWorker, config.threads, config.device, scratch, share_memory_mb(config))
        config.notify(f"{most}, one process each")
    store = config.home / STORE_FOLDER
    return ReplayPool(scratch, store, config.replay_processes, make_worker)


def open_seated_pool(config: NodeConfig, game: GameState, account: str) -> ReplayPool | None:
    """Opens a pool as `open_pool`. Returns None if this process itself replays, or if the node has only a
    bond and so audits nothing. If Ray does not answer, a node with a seat uses local processes, because it
    has votes and disputes to answer."""
    if has_bond_alone(game, account):
        return None
    try:
        return open_pool(config) if has_replay_processes(config) else None
    except EnvironmentFault as fault:
        if find_seat(game, account) is None:
            raise
        config.notify(f"WARNING: {fault} The node has a seat, so it goes on with processes of this machine.")
        config = replace(config, executor="process")
        return open_pool(config) if has_replay_processes(config) else None


def recover(domain: SigningDomain, statement: Statement, signature: bytes, source: str) -> str:
    """Returns the account that signed a statement. Raises ProtocolFault if the signature is invalid."""
    return recover_signer(statement, signature, domain, source)
