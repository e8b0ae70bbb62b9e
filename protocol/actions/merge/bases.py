"""The base root of a round: what stands behind it, checked by the own merge where that can be had.

An honest node whose own merge of a round differs from the posted root contests it and does not train on it.
"""

import logging

from protocol.actions.merge.global_model import load_outer, load_weights
from protocol.actions.merge.outer_step import get_root, make_key, merge_claims
from protocol.actions.runtime.party import Party
from protocol.spec.containers import OuterHeader
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.game.enums import RoundPhase
from protocol.spec.game.state import GameRound, GameState

log = logging.getLogger(__name__)


def find_posted(state: GameState, root: bytes) -> GameRound | None:
    """The newest round whose posted root this is; None for the root that the task begins with."""
    posted = [r for r in state.rounds.values() if r.phase == RoundPhase.POSTED and r.root == root]
    return max(posted, key=lambda game_round: game_round.index, default=None)


async def load_base(party: Party, root: bytes) -> OuterHeader:
    """What stands behind the base root of a round, its weights in the store. Raises ProtocolFault where the
    own merge comes to another root, EnvironmentFault where nothing can be had."""
    await check_base(party, root)
    header = await load_outer(party, root)
    await load_weights(party, header)
    return header


async def check_base(party: Party, root: bytes) -> None:
    """Merge what was posted as `root`, where its claims can be had. Raises ProtocolFault where that comes to
    another root."""
    posted = find_posted(party.game, root)
    if posted is None:
        return
    try:
        made = await merge_claims(party, make_key(posted, posted.merged))
    except EnvironmentFault as fault:
        log.info("round %s cannot be merged here: %s", posted.index, fault)
        return
    if get_root(made) != root:
        raise ProtocolFault(
            what="a posted root is not what its claims come to",
            expected=get_root(made).hex(),
            actual=root.hex(),
            where=f"round {posted.index}",
            remedy="It is contested; nothing is trained on it.",
        )


class BaseModels:
    """The same for rooms that must not know of this one."""

    def __init__(self, party: Party) -> None:
        self._party = party

    async def load_base(self, base_root: bytes) -> OuterHeader:
        """As the function of this name."""
        return await load_base(self._party, base_root)
