"""Describes what a node does, for `touchstone status` and `touchstone top`."""

from typing import NamedTuple

from touchstone.node.health.deadlines import DUTY_WORDS, list_deadlines
from touchstone.node.kit.view import View
from touchstone.node.serving.heldout_reports import list_losses
from touchstone.protocol.adapters.reports.model_progress import describe_progress, find_warning


class WorkWords(NamedTuple):
    """The last fields of `NodeState`."""

    model: str = ""
    model_warning: str = ""
    next_duty: str = ""
    next_block: int = 0
    peers: int = 0


def describe_view(view: View | None) -> WorkWords:
    """Returns how good the task's model is, with a warning for its submitter; what this node owes the chain
    first, and by which block; and how many other members of the task have an endpoint. All is empty before a
    task is joined."""
    if view is None:
        return WorkWords()
    losses, block = list_losses(view), view.head_block + 1
    warning = find_warning(losses) if view.account == view.game.terms.submitter else None
    name, last_block = min(list_deadlines(view, block), key=lambda one: one[1], default=("", 0))
    others = view.chain_state.network.others(view.account)
    members = sum(view.is_member(peer.account) for peer in others)
    return WorkWords(
        describe_progress(losses), warning or "", DUTY_WORDS.get(name, name), last_block, members
    )
