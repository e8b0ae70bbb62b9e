"""Gives a round its root: posted by a majority, or the base root. Twin of `RoundPosting.sol`.

A root needs the merge signatures of more than half of the round's solver seats that are not convicted
(findings, C1).
"""

from touchstone.protocol.spec.game.calls import LetStand, PostRoot
from touchstone.protocol.spec.game.claim_status import has_undecided, list_mergeable
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.events import RootPosted, RootStood
from touchstone.protocol.spec.game.pools import list_unclosed
from touchstone.protocol.spec.game.round_opening import open_next
from touchstone.protocol.spec.game.rule_refusals import require, require_window
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import get_live_round


def get_waiting_round(state: GameState) -> GameRound | None:
    """Returns the closed round that has no root yet, None if there is none."""
    game_round = get_live_round(state)
    return None if game_round is None or game_round.closed is None else game_round


def get_post_window(state: GameState, game_round: GameRound, block: int) -> tuple[int, int]:
    """Returns the first and last block in which a closed round can be posted. The first is now if no claim is
    undecided. A round whose root fell has `post` blocks from then on. So it has after each conviction of a
    solver, because members then merge and sign again, without its claim; until audit_max later at most."""
    windows, closed, fallen = state.terms.windows, game_round.closed or 0, game_round.fallen
    late = closed + windows.audit_max if fallen is None else fallen
    first = late if fallen is not None or has_undecided(state, game_round, block) else closed
    return first, min(max(late, state.convicted_block), late + windows.audit_max) + windows.post - 1


def apply_post(draft: Draft, call: PostRoot, sender: str) -> None:
    """Posts a root, and opens the next round. The first majority on chain decides."""
    state, game_round = draft.state, get_waiting_round(draft.state)
    require(game_round is not None and game_round.index == call.round, "NotNewest", actual=call.round)
    assert game_round is not None
    require_window(*get_post_window(state, game_round, draft.block), draft.block)
    mergeable, merged = list_mergeable(state, game_round, draft.block), tuple(sorted(set(call.merged)))
    is_right = bool(merged) and merged == call.merged and set(merged) <= set(mergeable)
    require(is_right, "NotMergeable", mergeable, call.merged)
    unclosed = set(list_unclosed(state, game_round.pool.solvers))
    signers = tuple(sorted(set(call.signers) & unclosed))
    require(2 * len(signers) > len(unclosed), "NoMajority", f"more than half of {len(unclosed)}", signers)
    draft.emit(RootPosted(call.round, call.root, merged, signers))
    open_next(draft)


def is_stand_due(state: GameState, game_round: GameRound, block: int) -> bool:
    """Returns whether the base root of a closed round stands, because no claim can be merged, or no merge was
    posted in time."""
    if block > get_post_window(state, game_round, block)[1]:
        return True
    if has_undecided(state, game_round, block):
        return False
    return not list_mergeable(state, game_round, block)


def apply_stand(draft: Draft, call: LetStand, sender: str) -> None:
    """Lets the base root of a round stand. The round adds nothing to the model, but its accepted work is
    paid."""
    game_round = get_waiting_round(draft.state)
    require(game_round is not None and game_round.index == call.round, "NotNewest", actual=call.round)
    assert game_round is not None
    last = get_post_window(draft.state, game_round, draft.block)[1]
    is_due = is_stand_due(draft.state, game_round, draft.block)
    require(is_due, "NotLate", f"a block from {last + 1}", draft.block)
    draft.emit(RootStood(call.round))
    open_next(draft)
