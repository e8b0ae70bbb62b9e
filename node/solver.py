"""The solver: trains its shard of each round, claims the result, serves and defends it, merges and posts."""

from touchstone.protocol.actions.audit import audit_duties as audits
from touchstone.protocol.actions.dispute import dispute_duties as disputes
from touchstone.protocol.actions.merge import ahead, contesting, merge_signing, outer_step, posting, training
from touchstone.protocol.actions.pruning import pruning_duties as pruning
from touchstone.protocol.actions.runtime import idle_mode, offers, upkeep_duties
from touchstone.protocol.actions.runtime.config import PartyConfig
from touchstone.protocol.actions.runtime.joining import SeatWish
from touchstone.protocol.actions.runtime.opening import open_party
from touchstone.protocol.actions.runtime.party import ListDuties
from touchstone.protocol.actions.runtime.playing import play
from touchstone.protocol.spec.game.state import SeatRole

ROOMS: tuple[ListDuties, ...] = (
    disputes.list_duties,
    upkeep_duties.list_duties,
    idle_mode.list_duties,
    training.list_duties,
    outer_step.list_duties,
    merge_signing.list_duties,
    posting.list_duties,
    ahead.list_duties,
    contesting.list_duties,
    audits.list_duties,
    pruning.list_duties,
    offers.list_duties,
)
"""What a solver does."""


async def run(config: PartyConfig, task: bytes, wish: SeatWish | None = None) -> bool:
    """Solve `task` until it is closed or the seat has left. Returns and raises as `play` does."""
    async with open_party(config, is_held=wish is not None and wish.is_held) as party:
        return await play(party, task, ROOMS, wish or SeatWish(SeatRole.SOLVER))
