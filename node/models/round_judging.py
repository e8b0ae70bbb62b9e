"""Judges a round by the votes that this node has, and says which claims its merge takes."""

from collections.abc import Iterable
from dataclasses import dataclass

from touchstone.node.kit.view import View
from touchstone.node.records.handed_votes import HandedVote
from touchstone.node.records.round_seats import list_open_solvers
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment
from touchstone.protocol.spec.game.calls import HandedOpening, JudgeVotes, SignedVote
from touchstone.protocol.spec.game.claim_status import has_undecided, list_mergeable
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.events import VoteCounted, VoteOpened
from touchstone.protocol.spec.game.round_machine import apply, fold_all, get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import is_late_draw
from touchstone.protocol.spec.statements import VoteWord

Place = tuple[int, int, int]
"""(slot, draw, rank)"""


@dataclass(frozen=True)
class Judged:
    """The effect of handing in votes. `state` is the state after it. `votes` are those that count or are
    opened."""

    state: GameState
    votes: tuple[HandedVote, ...]


def read_place(handed: HandedVote) -> Place:
    """Returns slot, draw and rank of a handed vote."""
    return handed.slot, handed.draw, handed.rank


def judge(state: GameState, index: int, handed: Iterable[HandedVote], block: int, sender: str) -> Judged:
    """Returns the effect of handing in these votes of round `index` in `block`. Primaries come first, so that
    none of them comes after the vote that decides its draw."""
    known = {read_place(one): one for one in handed}
    ordered = sorted(known, key=lambda place: (place[0], place[1], place[2]))
    votes = [_read_vote(state, state.rounds[index], known[place]) for place in ordered]
    openings = tuple(HandedOpening(*place) for place in ordered if known[place].is_opened)
    call = JudgeVotes(index, tuple(vote for vote in votes if vote is not None), openings)
    events = apply(state, call, sender, block)
    places = [
        (event.slot, event.draw, event.rank)
        for event in events
        if isinstance(event, VoteCounted | VoteOpened)
    ]
    counted = tuple(known[place] for place in ordered if place in set(places))
    return Judged(fold_all(state, events, block), counted)


def _read_vote(state: GameState, game_round: GameRound, handed: HandedVote) -> SignedVote | None:
    """Returns a handed vote in the form that the reducer takes: signed by the drawn seat, about the claim,
    seed and segment of its draw. The audit room has checked that, and lists no vote that a reorg made
    void."""
    (slot, draw, rank), word = read_place(handed), VoteWord(handed.word)
    seed = game_round.late_seed if is_late_draw(state, draw) else game_round.seed
    segment = get_drawn_segment(state, game_round, slot, draw)
    seat = state.seats.get(get_drawn_seat(state, game_round, slot, draw, rank) or 0)
    if seed is None or segment is None or seat is None:
        return None
    return SignedVote(slot, draw, rank, game_round.claims[slot].claim_root, seed, segment, word, seat.account)


def judge_round(view: View, state: GameState, index: int, block: int) -> Judged:
    """Returns the effect of handing in all votes of a round that this node has."""
    game_round = state.rounds.get(index)
    if game_round is None or game_round.seed is None or game_round.phase == RoundPhase.UNDONE:
        return Judged(state, ())
    return judge(state, index, view.audits.list_handed(index, view.head_block + 1), block, view.account)


@dataclass(frozen=True)
class MergeSet:
    """The claims to merge, by slot; empty if the base root stays. `votes` (of this round) and `late` (of the
    round before) are handed in with the root. `is_final` says that in this block no claim is undecided any
    more, or that `audit_max` blocks have passed since the round was closed."""

    game_round: GameRound
    slots: tuple[int, ...]
    votes: tuple[HandedVote, ...]
    late: tuple[HandedVote, ...]
    is_final: bool


def find_merge_set(view: View, game_round: GameRound, block: int) -> MergeSet:
    """Returns the claims to merge in the round that waits for its root, by the votes that this node has in
    `block`."""
    state, index = get_state_at(view.game, block), game_round.index
    now = judge_round(view, state, index, block)
    before = judge_round(view, now.state, index - 1, block)
    after = before.state.rounds[index]
    slots = list_mergeable(before.state, after, block)
    closed, audit_max = after.closed or 0, state.terms.windows.audit_max
    is_final = block >= closed + audit_max or not has_undecided(before.state, after, block)
    return MergeSet(after, slots, now.votes, before.votes, is_final)


def is_majority(view: View, game_round: GameRound, count: int) -> bool:
    """Returns whether `count` signatures are more than half of the round's solver seats that are not
    convicted."""
    return 2 * count > len(list_open_solvers(view.game, game_round))
