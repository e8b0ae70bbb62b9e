"""Makes the JSON of disputes and convictions for the pages."""

from typing import Any

from touchstone.explorer.names import Names, make_person, show_wei
from touchstone.explorer.story import Conviction
from touchstone.explorer.task_documents import to_hex
from touchstone.protocol.spec.game.dispute_moves import CLAIMANT_MOVES
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerDispute
from touchstone.protocol.spec.game.logged_game import LoggedGame

SHOWN_TERMS = 16
"""The most terms of a convicted number that are shown outside of its own board."""


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
        "claimant": claimant,
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


def make_conviction(one: Conviction, number: dict[str, Any] | None, names: Names) -> dict[str, Any]:
    """Returns a seat that was closed. Operands of a long sum are left out; a dispute's board has all."""
    if number is not None:
        number = number | {"operands": number.get("operands", [])[:SHOWN_TERMS]}
    return {
        "block": one.block,
        "transaction": to_hex(one.transaction_hash),
        "seat": one.seat,
        **make_person(one.account, names),
        "finder": names.of(one.finder),
        "proof": one.proof.name,
        "stake": show_wei(one.stake_wei),
        "dispute": to_hex(one.dispute),
        "number": number,
    }
