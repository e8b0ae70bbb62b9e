"""Has the submitter's node compute each posted root again, from the claims' own bytes.

For the first round that leaves a cheat's claim out, the node also measures the model with that claim.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from touchstone.demo.what_if import WithCheat, measure_with_all
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.view import View
from touchstone.node.loop.node import Node
from touchstone.node.models.expected_merge import get_root, make_key
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.enums import RoundPhase


@dataclass(frozen=True)
class Recomputed:
    """A root as it was posted, as this node computes it (`own`), and the root of the weights behind it."""

    round: int
    posted: bytes
    own: bytes
    weights_root: bytes


@dataclass
class Observer:
    """Computes roots again; `tell` hears of each. `found` is by posted root, in order. `cheats` are accounts.
    `with_cheat` is the model that the first round with one of their claims would have given."""

    tell: Callable[[Recomputed], None]
    found: dict[bytes, Recomputed] = field(default_factory=dict)
    cheats: frozenset[str] = frozenset()
    with_cheat: WithCheat | None = None
    is_tried: bool = False

    def list_duties(self, view: View, block: int) -> Iterator[Duty[Node]]:
        """Yields the posted roots that were not computed again."""
        for game_round in view.game.rounds.values():
            root = game_round.root
            if game_round.phase == RoundPhase.POSTED and root is not None and root not in self.found:
                yield Recompute(self, game_round.index, root)

    def take(self, found: Recomputed) -> None:
        """Takes a result."""
        self.found[found.posted] = found
        self.tell(found)

    def list_found(self) -> list[Recomputed]:
        """Returns the results in the order of the rounds."""
        return sorted(self.found.values(), key=lambda one: one.round)


@dataclass(frozen=True)
class Recompute:
    """Merge the claims of a round again."""

    observer: Observer = field(compare=False)
    round: int
    root: bytes

    async def perform(self, node: Node) -> None:
        """Merges. Raises ProtocolFault or EnvironmentFault if the bytes are not available yet."""
        game_round = node.game.rounds[self.round]
        made = await node.rooms.outer_steps.merge_claims(make_key(game_round, game_round.merged))
        found = Recomputed(self.round, self.root, get_root(made), made.weights_root)
        left_out = [one.account for slot, one in game_round.claims.items() if slot not in game_round.merged]
        if self.observer.cheats.intersection(left_out) and not self.observer.is_tried:
            self.observer.is_tried = True
            # The demo holds without this figure.
            with suppress(ProtocolFault, EnvironmentFault):
                self.observer.with_cheat = await measure_with_all(node, game_round)
        self.observer.take(found)
