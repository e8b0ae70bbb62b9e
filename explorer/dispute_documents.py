"""Makes the JSON of disputes for the pages."""

from typing import Any

from touchstone.explorer.names import Names
from touchstone.explorer.task_documents import to_hex
from touchstone.protocol.spec.game.dispute_moves import CLAIMANT_MOVES
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerDispute
from touchstone.protocol.spec.game.logged_game import LoggedGame


def make_dispute_row(game: LoggedGame, dispute: InnerDispute, names: Names) -> dict[str, Any]:
    """Returns a dispute as a row of a table, also for the head of its page. `turn` says who must move."""
    claimant = names.of_seat(game, dispute.seat)
    is_claimants = dispute.stage in CLAIMANT_MOVES
    return {
        "dispute": to_hex(dispute.name),
        "about": names.of_statement(game, dispute.statement),
        "round": dispute.statement.round,
        "segment": dispute.segment,
        "opener": names.of(dispute.opener),
        "opener_account": dispute.opener,
        "claimant": claimant,
        "claimant_account": names.find_account(game, dispute.seat),
        "stage": dispute.stage.name,
        "turn": (claimant if is_claimants else names.of(dispute.opener)) if dispute.is_open else None,
        "until_block": dispute.clock if dispute.is_open else None,
        "step": dispute.step,
        "states": [to_hex(root) for root in dispute.roots],
        "trace": None if dispute.trace is None else to_hex(dispute.trace.root),
        "leaves_demanded": len(dispute.demands),
        "leaves_shown": len(dispute.shown),
        "is_convicted": dispute.stage is DisputeStage.CONVICTED,
    }
