"""What the chain tells, folded: tasks with their games, peers, and what is said inside disputes.

After a reorg the events that stand are folded again from the first.
"""

from dataclasses import dataclass, field

from protocol.actions.network import Network
from protocol.spec.game.state import GameState


@dataclass
class ChainState:
    """The fold of all events up to `head_block`. games: by task id; texts: the task's training text by its
    id."""

    account: str
    games: dict[bytes, GameState] = field(default_factory=dict)
    texts: dict[bytes, bytes] = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    head_block: int = 0
