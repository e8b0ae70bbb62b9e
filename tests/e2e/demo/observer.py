"""What the submitter's node does for the demo: each posted root is computed again from the claims' own bytes,
and the model behind it is measured on text that nobody trains on."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.task_models import get_model
from tests.training_setting import compute_heldout_loss, get_heldout_batch
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.view import View
from touchstone.node.loop.node import Node
from touchstone.node.models.expected_merge import get_root, make_key
from touchstone.node.models.global_model import get_initial_header
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.state_headers import OuterHeader

HELDOUT_ROWS = 64


@dataclass(frozen=True)
class Measured:
    """A posted root, the own one, and the model's loss in nats per byte."""

    round: int
    posted: bytes
    own: bytes
    weights_root: bytes
    loss: float


@dataclass
class Observer:
    """measured: by posted root, in order; tell: hears of each."""

    tell: Callable[[Measured], None]
    first_loss: float | None = None
    measured: dict[bytes, Measured] = field(default_factory=dict)

    def list_duties(self, view: View, block: int) -> Iterator[Duty[Node]]:
        """Roots that were not looked at."""
        for game_round in view.game.rounds.values():
            root = game_round.root
            if game_round.phase == RoundPhase.POSTED and root is not None and root not in self.measured:
                yield Measure(self.take, game_round.index, root)

    async def measure_first(self, node: Node) -> float:
        """The loss before any training."""
        self.first_loss = await measure_loss(node, get_initial_header(node.get_view()))
        return self.first_loss

    def take(self, found: Measured) -> None:
        """One more."""
        self.measured[found.posted] = found
        self.tell(found)

    @property
    def losses(self) -> list[float]:
        """Before training and after each round."""
        first = [] if self.first_loss is None else [self.first_loss]
        return first + [one.loss for one in sorted(self.measured.values(), key=lambda one: one.round)]


@dataclass(frozen=True)
class Measure:
    """Merge the claims of a round, compare roots, measure the model."""

    take: Callable[[Measured], None]
    round: int
    root: bytes

    async def perform(self, node: Node) -> None:
        """Raises ProtocolFault or EnvironmentFault where the bytes cannot be had yet."""
        game_round = node.game.rounds[self.round]
        made = await node.rooms.outer_steps.merge_claims(make_key(game_round, game_round.merged))
        header = OuterHeader(made.weights_root, made.momentum_root)
        loss = await measure_loss(node, header)
        self.take(Measured(self.round, self.root, get_root(made), made.weights_root, loss))


async def measure_loss(node: Node, header: OuterHeader) -> float:
    """Of the model behind these roots."""
    weights, training = await node.rooms.model.load_weights(header), node.task.spec.training
    batch = await asyncio.to_thread(get_heldout_batch, node.rooms.tools.corpus, training, HELDOUT_ROWS)
    return await asyncio.to_thread(compute_heldout_loss, weights, batch, get_model(training))
