"""Whether somebody else's dispute on a claim makes one's own needless.

Whoever opens a dispute may be the claimant's accomplice: it names a step that is right, plays slowly, and
lets everybody wait until no dispute can be opened any more. So another's dispute is waited for only where it
is about the very step that one would name oneself, and must end, however it is played, while one's own can
still be opened.
"""

from collections.abc import Mapping, Sequence

from protocol.spec.clock import NEVER, compute_late_deadlines
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import MAX_DEMANDS_EACH, MAX_DEMANDS_OTHERS
from protocol.spec.keeping import SPREAD_BLOCKS
from protocol.spec.round import RoundState, get_merged_block, get_settle_block
from protocol.spec.statuses import Stage

OPENING_BLOCKS = 3 * SPREAD_BLOCKS
"""Kept for an opening of one's own after the end of another's dispute: until everybody may call that end,
until a call that failed is sent again (as long at most), and for a seal and an opening."""


def is_pursued(
    disputes: Sequence[DisputeState], me: str, own_steps: Mapping[bytes, int | None], closes_block: int
) -> bool:
    """Whether these disputes, all on one claim, make another one of `me` needless: one is its own, one has
    convicted, or one does as well as its own would. own_steps: the step that `me` would name, by dispute
    whose step roots it has compared with its own; closes_block: from it on no dispute can be opened.

    One that was closed acquits nobody, and after it nobody else's is waited for."""
    if any(one.opener == me or one.stage == Stage.CONVICTED for one in disputes):
        return True
    if any(one.stage == Stage.CLOSED for one in disputes):
        return False
    known = (one for one in disputes if one.step is not None and is_in_time(one, closes_block))
    return any(own_steps.get(one.dispute) == one.step for one in known)


def is_in_time(dispute: DisputeState, closes_block: int) -> bool:
    """Whether a dispute must end so early that another one can still be opened before `closes_block`."""
    return compute_last_end(dispute) + OPENING_BLOCKS <= closes_block


def compute_last_end(dispute: DisputeState) -> int:
    """The block from which a dispute can be ended however it is played; NEVER before its step is named, since
    its turn may come at any time. An answer in the last block moves the end twice as far as it has time."""
    if dispute.stage not in (Stage.TRACE, Stage.PROVE):
        return NEVER
    windows = dispute.terms.windows
    left = MAX_DEMANDS_EACH + MAX_DEMANDS_OTHERS - dispute.answered
    prove = windows.prove if dispute.stage == Stage.TRACE else 0
    return dispute.clock_block + prove + 2 * windows.respond * left


def find_earliest_closing(state: RoundState, block: int) -> int:
    """From which block on, at the earliest, no dispute of a round can be opened, as known at `block`: before
    the merge it may come in any block, and the end with it."""
    if get_merged_block(state, block) is not None:
        return get_settle_block(state, block)
    return compute_late_deadlines(block, state.terms.windows).dispute_end
