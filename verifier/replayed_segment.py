"""Describes a segment that is trained again: its data, its start and its end."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from touchstone.node.kit.states import StateStore
from touchstone.node.serving.audit_messages import are_steps_right
from touchstone.node.serving.audit_room import AuditTask, Train
from touchstone.protocol.compute.batches import get_batch, prepare_steps
from touchstone.protocol.compute.digest import StateTrees, build_state_trees
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.state_headers import StateHeader


@dataclass(frozen=True)
class SegmentReplay:
    """A segment to replay. `beacon` and `shard` choose the data that was assigned to the claim's slot."""

    about: AuditTask
    round: int
    segment: int
    beacon: bytes
    shard: int

    @property
    def steps(self) -> range:
        """The inner steps of the segment, counted from the start of the round."""
        first = self.segment * self.about.segment_steps
        return range(first, first + self.about.segment_steps)

    async def prepare(self) -> None:
        """Fetches the data of the segment. Raises EnvironmentFault if no peer serves some of it."""
        about = self.about
        await prepare_steps(about.corpus, about.training, self.beacon, self.shard, self.steps)

    def get_batches(self) -> Callable[[int], Batch]:
        """Returns a function that gives the batch of an inner step."""
        return partial(get_batch, self.about.corpus, self.about.training, self.beacon, self.shard)

    def are_numbers_right(self, first: StateHeader, start: StateHeader) -> bool:
        """Returns whether boundary 0 and the start have the step counters that their places require."""
        begun, about = self.round * self.about.inner_steps, self.about
        steps = self.steps.start
        return are_steps_right(start, first, begun + steps, steps, carries=about.carry_moments)

    def replay(
        self, states: StateStore, start: StateHeader, train: Train, batches: Callable[[int], Batch]
    ) -> StateTrees:
        """Replays the segment and returns this node's own end, hashed. Raises ProtocolFault if the end is not
        finite."""
        place = (self.steps.start, len(self.steps))
        # `train` alone holds the start, so that memory is freed after the first step.
        end, _ = train(states.load(start), self.about.training, batches, *place)
        return build_state_trees(end)


def find_segment(about: AuditTask, game_round: GameRound, slot: int, segment: int) -> SegmentReplay:
    """Returns a segment of the claim in a slot, with the data that the round assigned to that slot."""
    beacon = game_round.beacon or ZERO_WORD
    shard = assign_shards(beacon, len(game_round.pool.solvers))[slot]
    return SegmentReplay(about, game_round.index, segment, beacon, shard)
