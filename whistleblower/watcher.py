"""The whistleblower: audits late, checks posted roots and others' votes, and disputes false statements."""

from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.config import PartyConfig
from touchstone.node.kit.duty import ListDuties
from touchstone.node.loop.node_loop import play
from touchstone.node.loop.opening import open_party
from touchstone.node.merging import posting
from touchstone.node.serving import served_data
from touchstone.node.training import idle_mode
from touchstone.node.upkeep import pruning, upkeep_duties
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.verifier import audit_duties as audits
from touchstone.whistleblower import contesting
from touchstone.whistleblower import dispute_duties as disputes

ROOMS: tuple[ListDuties, ...] = (
    disputes.list_duties,
    upkeep_duties.list_duties,
    idle_mode.list_duties,
    audits.list_duties,
    posting.list_duties,
    contesting.list_duties,
    served_data.list_reports,
    pruning.list_duties,
)
"""What a whistleblower does."""


async def run(config: PartyConfig, task: bytes, wish: SeatRequest | None = None) -> bool:
    """Watch `task` until it is closed or the seat has left. Returns and raises as `play` does."""
    async with open_party(config, is_held=wish is not None and wish.is_held) as party:
        return await play(party, task, ROOMS, wish or SeatRequest(SeatRole.WHISTLEBLOWER))
