"""What the submitter's node does for the demo: each posted root is computed again from the claims' own bytes,
and the model behind it is measured on text that nobody trains on."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.kit.views import view_of
from tests.task_models import get_model
from tests.training_setting import compute_heldout_loss, get_heldout_batch
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.party import Party
from touchstone.node.models.expected_merge import get_root, make_key
from touchstone.node.models.global_model import get_initial_header, load_weights
from touchstone.node.models.outer_step import merge_claims
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

    def list_duties(self, party: Party, block: int) -> Iterator[Duty]:
        """Roots that were not looked at."""
        for game_round in party.game.rounds.values():
            root = game_round.root
            if game_round.phase == RoundPhase.POSTED and root is not None and root not in self.measured:
                yield Measure(self.take, game_round.index, root)

    async def measure_first(self, party: Party) -> float:
        """The loss before any training."""
        self.first_loss = await measure_loss(party, get_initial_header(view_of(party)))
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

    async def perform(self, party: Party) -> None:
        """Raises ProtocolFault or EnvironmentFault where the bytes cannot be had yet."""
        game_round = party.game.rounds[self.round]
        made = await merge_claims(party, make_key(game_round, game_round.merged))
        header = OuterHeader(made.weights_root, made.momentum_root)
        loss = await measure_loss(party, header)
        self.take(Measured(self.round, self.root, get_root(made), made.weights_root, loss))


async def measure_loss(party: Party, header: OuterHeader) -> float:
    """Of the model behind these roots."""
    weights, training = await load_weights(party, header), party.task.spec.training
    batch = await asyncio.to_thread(get_heldout_batch, party.task.corpus, training, HELDOUT_ROWS)
    return await asyncio.to_thread(compute_heldout_loss, weights, batch, get_model(training))
