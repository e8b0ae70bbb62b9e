"""What a claim of a round is trained from: the same for a round that runs and for one that is foreseen."""

from dataclasses import dataclass

from protocol.actions.merge.places import find_own_slot, get_shards
from protocol.actions.merge.records import compute_basis
from protocol.actions.merge.starting import find_carried
from protocol.actions.runtime.party import Party
from protocol.spec.containers import StateHeader
from protocol.spec.game.state import GameRound, GameState


@dataclass(frozen=True)
class Origin:
    """shard: the data of this node's slot; carried: the state whose moments go on, None where they start from
    zero."""

    index: int
    base_root: bytes
    beacon: bytes
    shard: int
    carried: StateHeader | None = None

    @property
    def basis(self) -> bytes:
        """What the journal calls it by, beside the round."""
        return compute_basis(self.base_root, self.beacon)


def get_basis(game_round: GameRound) -> bytes | None:
    """What a claim of the round is trained from; None before it was dealt."""
    beacon = game_round.beacon
    return None if beacon is None else compute_basis(game_round.base_root, beacon)


def read_origin(party: Party, state: GameState, game_round: GameRound) -> Origin:
    """What this node's claim of a dealt round of `state`, in which it sits, is trained from."""
    slot = find_own_slot(state, game_round, party.account)
    assert slot is not None and game_round.beacon is not None
    shard, carried = get_shards(game_round)[slot], find_carried(party, state, game_round.index)
    return Origin(game_round.index, game_round.base_root, game_round.beacon, shard, carried)
