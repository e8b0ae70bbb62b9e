"""Says until when others can ask a node for states, which blobs its records name, and what pruning remembers.

The windows say until which block a peer can ask for states of a round. They are pure functions of the game's
state, and the last block is included.

Records of a task name blobs, whether these are still needed or not. A blob that no record names is a stray: a
state that is being fetched or replayed, or, after a restart, a pseudo-gradient of another solver.
`pruning.py` deletes strays later, never at first sight.

At a restart a node forgets what it remembers of pruning, and loses nothing by that.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.claim_records import ClaimBook, MergeKey
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.assignments import get_drawn_segment
from touchstone.protocol.spec.game.audit_deadlines import compute_serving_until
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.state import GameRound, GameState, StatementRef
from touchstone.protocol.spec.game.timing import (
    get_duty_until,
    get_query_until,
    get_statement_until,
    get_votes_from,
)
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader

WHOLE_ROUNDS = 2
"""Everything is kept of this many rounds, the last that were opened."""
NEWEST_SPECULATIONS = 2
"""For a coming round, everything is also kept of this many speculations, the newest."""
ASKED_AUDITS = 4
"""Auditors may ask for a segment's steps during this many `audit_max` after votes on the segment begin to
count. Openings are taken during three of them (`get_heard_until`); the rest is time to look."""
WHOLE_SPECULATIONS = NEWEST_SPECULATIONS + 1
"""Of the speculations that can still be right, this many are kept too: those that merge the most claims."""


def is_recent(state: GameState, index: int) -> bool:
    """Returns whether a round is one of the last two that were opened, or is not open yet."""
    return index >= state.next_round - WHOLE_ROUNDS


def is_whole(state: GameState, game_round: GameRound, block: int) -> bool:
    """Returns whether everything of an open round is kept: a recent one that is not over."""
    return is_recent(state, game_round.index) and is_answerable(state, game_round, block)


def is_just_assigned(game_round: GameRound, block: int) -> bool:
    """Returns whether a round was opened, or got its beacon, in `block`. If a reorg undoes that, training
    from an earlier base may be right again."""
    return block <= max(game_round.opened, game_round.trained_from or 0)


def is_questioned(state: GameState, index: int) -> bool:
    """Returns whether a query or a dispute on a statement of the round is open."""
    asked = {one.statement.round for one in state.queries.values()}
    return index in asked | {one.statement.round for one in state.disputes.values()}


def is_contestable(state: GameState, game_round: GameRound, block: int) -> bool:
    """Returns whether the inputs of the round's outer step may still be needed: while it has no root, or its
    root is or can be contested."""
    if game_round.phase in (RoundPhase.RUNNING, RoundPhase.FALLEN):
        return True
    is_open = any(contest.round == game_round.index for contest in state.contests.values())
    return game_round.phase == RoundPhase.POSTED and (is_open or block <= game_round.root_until)


def is_answerable(state: GameState, game_round: GameRound, block: int) -> bool:
    """Returns whether a statement of the round is, or can still be, queried, disputed or paid."""
    until = get_duty_until(state, game_round)
    return until is None or block <= until or is_questioned(state, game_round.index)


def is_disputable(state: GameState, ref: StatementRef, block: int) -> bool:
    """Returns whether a statement of the round is, or can still be, disputed or convicted."""
    return block <= get_statement_until(state, ref) or is_questioned(state, ref.round)


def is_vote_wanted(state: GameState, ref: StatementRef, block: int) -> bool:
    """Returns whether votes of a draw may still count, so that the solver must show states."""
    until = find_votes_until(state, ref)
    return until is not None and block <= until


def find_votes_until(state: GameState, ref: StatementRef) -> int | None:
    """Returns the last block in which votes of a draw count; None if there is no such draw."""
    start = _find_start(state, ref)
    return None if start is None else start + 2 * state.terms.windows.audit_max


def is_askable(state: GameState, ref: StatementRef, block: int) -> bool:
    """Returns whether the signer of a vote can be queried, or a query or dispute on its round is open. A draw
    that a reorg has removed may come back, so the answer is yes. In an exact task it is yes while votes
    count."""
    until = get_query_until(state, ref)
    if until is None or is_questioned(state, ref.round):
        return True
    return is_vote_wanted(state, ref, block) if state.terms.is_exact else block <= until


def list_shown_segments(state: GameState, game_round: GameRound, slot: int, block: int) -> tuple[int, ...]:
    """Returns the segments of a claim whose ends the solver must show to auditors: drawn ones, while votes
    count."""
    draws = [
        draw
        for draw in range(state.terms.draws + 1)
        if is_vote_wanted(state, StatementRef(game_round.index, slot, draw), block)
    ]
    segments = (get_drawn_segment(state, game_round, slot, draw) for draw in draws)
    return tuple(segment for segment in segments if segment is not None)


def find_shown_until(state: GameState, game_round: GameRound, slot: int, block: int) -> int | None:
    """Returns the last block in which every auditor still waits for ends of `list_shown_segments`. If none
    waits any more, returns the last block in which a vote counts, or None."""
    places = [(draw, rank) for draw in range(state.terms.draws + 1) for rank in range(RANKS)]
    refs = [StatementRef(game_round.index, slot, draw, rank) for draw, rank in places]
    votes = [until for until in (find_votes_until(state, ref) for ref in refs) if until and block <= until]
    drawn = [get_drawn(state, game_round.index, slot, *place) for place in places] if votes else []
    waits = [compute_serving_until(state, one.place, block) for one in drawn if one is not None]
    return min((until for until in waits if block <= until), default=min(votes, default=None))


def list_asked_segments(state: GameState, game_round: GameRound, slot: int, block: int) -> tuple[int, ...]:
    """Returns the segments of a claim whose steps an auditor may ask for before a dispute. They stay
    `audit_max` longer than votes count, because the steps of a late draw are shown only then."""
    return list_shown_segments(state, game_round, slot, block - state.terms.windows.audit_max)


def find_asked_until(state: GameState, game_round: GameRound, slot: int, segment: int) -> int | None:
    """Returns the last block in which auditors of a segment may ask for its steps. None if it is not
    drawn."""
    draws = _list_draws(state, game_round, slot, segment)
    starts = [get_votes_from(state, game_round, draw) for draw in draws]
    lasts = [start + ASKED_AUDITS * state.terms.windows.audit_max for start in starts if start is not None]
    return max(lasts, default=None)


def find_supported_until(state: GameState, game_round: GameRound, slot: int, segment: int) -> int | None:
    """Returns the last block in which whistleblowers may ask for the steps of a segment of a convicted claim,
    to dispute votes that accepted it. None if the claim is not convicted, or the segment is not drawn."""
    claim = game_round.claims.get(slot)
    if claim is None or not claim.is_convicted:
        return None
    draws = _list_draws(state, game_round, slot, segment)
    refs = (StatementRef(game_round.index, slot, draw) for draw in draws)
    return max((get_statement_until(state, ref) for ref in refs), default=None)


def _list_draws(state: GameState, game_round: GameRound, slot: int, segment: int) -> list[int]:
    """Returns the draws of a segment of a claim."""
    draws = range(state.terms.draws + 1)
    return [one for one in draws if get_drawn_segment(state, game_round, slot, one) == segment]


def find_settled(state: GameState, block: int) -> GameRound | None:
    """Returns the newest round whose root is final; None if there is none."""
    found = None
    for _, game_round in sorted(state.rounds.items()):
        if game_round.phase == RoundPhase.POSTED:
            # A root that falls undoes all later ones.
            if is_contestable(state, game_round, block):
                break
            found = game_round
    return found


def list_stages(state: GameState, block: int) -> tuple[object, ...]:
    """Returns a value that changes whenever one of these windows ends or something opens, and at no other
    time."""
    rounds = [_list_round_stages(state, one, block) for one in state.rounds.values()]
    questions = (frozenset(state.queries), frozenset(state.disputes), frozenset(state.contests))
    return (state.next_round, state.root, *questions, *rounds)


def _list_round_stages(state: GameState, game_round: GameRound, block: int) -> tuple[object, ...]:
    windows, stages = state.terms.windows, []
    for start in (game_round.closed, game_round.late_from):
        asked = 2 * windows.audit_max + windows.query
        audits = [count * windows.audit_max for count in (2, 3, ASKED_AUDITS)]
        lengths = (*audits, windows.dispute, asked)
        stages += [start is None or block <= start + length for length in lengths]
    is_inside = (is_contestable(state, game_round, block), is_answerable(state, game_round, block))
    assigned = (game_round.base_root, game_round.beacon, is_just_assigned(game_round, block))
    return (game_round.index, game_round.phase, *assigned, *is_inside, *stages)


def _find_start(state: GameState, ref: StatementRef) -> int | None:
    return None if ref.draw is None else get_votes_from(state, state.rounds[ref.round], ref.draw)


def name_tensors(*roots: bytes) -> Iterator[BlobKey]:
    """Yields the keys of the tensors with these roots."""
    return (BlobKey(BlobKind.TENSOR, root) for root in roots)


def name_delta(root: bytes) -> BlobKey:
    """Returns the key of the pseudo-gradient with this root."""
    return BlobKey(BlobKind.DELTA, root)


def name_state(header: StateHeader) -> Iterator[BlobKey]:
    """Yields the keys of a state's W, m and v."""
    return name_tensors(header.weights_root, header.first_moment_root, header.second_moment_root)


def name_outer(header: OuterHeader) -> Iterator[BlobKey]:
    """Yields the keys of W and momentum of an outer state."""
    return name_tensors(header.weights_root, header.momentum_root)


def list_named(claims: ClaimBook, audits: AuditBook) -> frozenset[BlobKey]:
    """Returns every blob that a record of the task names, or that was fetched for it."""
    return frozenset([*_list_claimed(claims), *_list_audited(audits)])


def list_in_use(cases: DisputeRecords, audits: AuditBook) -> dict[BlobKey, str]:
    """Returns the blobs that must not be deleted now, each with a reason, named by a record or not. Safe in
    any thread."""
    shown = frozenset[BlobKey]().union(*cases.shown.values())
    held = frozenset[BlobKey]().union(*audits.held.values())
    return {
        **dict.fromkeys(list(cases.borrowed), "a check of another member's steps reads it"),
        **dict.fromkeys(held, "an audit under way has fetched or made it"),
        **dict.fromkeys(shown, "it is shown to accounts that dispute or ask"),
    }


def list_foreign(journal: Journal, task: bytes) -> frozenset[BlobKey]:
    """Returns the blobs that records of other tasks in the journal name."""
    others = {getattr(record, "task", task) for record in journal.replay()} - {task}
    return frozenset(
        key for one in others for key in list_named(ClaimBook(journal, one), AuditBook(journal, one))
    )


def _list_claimed(claims: ClaimBook) -> Iterator[BlobKey]:
    for work in list(claims.works.values()):
        yield from _chain(name_state(header) for header in list(work.boundaries.values()))
        if work.finished is not None:
            yield name_delta(work.finished.delta_root)
    for made in list(claims.merges.values()):
        yield from name_tensors(made.weights_root, made.momentum_root)
    yield from _chain(name_outer(header) for header in list(claims.outer.values()))
    yield from (name_delta(proof.delta_root) for proof in list(claims.proofs.values()))


def _list_audited(audits: AuditBook) -> Iterator[BlobKey]:
    for sealed in list(audits.seals.values()):
        yield from _chain(map(name_state, (sealed.start.header, sealed.own_end)))
    for vote in list(audits.votes.values()):
        if vote.ends is not None:
            yield from _chain(map(name_state, (vote.ends.end.header, vote.ends.last.header)))
            yield name_delta(vote.ends.work.delta_root)


def _chain(groups: Iterable[Iterable[BlobKey]]) -> Iterator[BlobKey]:
    return (key for group in groups for key in group)


@dataclass
class PruningMemory:
    """What pruning remembers while the node runs. `done` are the stages (`list_stages`) at the last pruning.
    `strays` are blobs that no record names, with the block of the first sight. `foreign` are blobs of other
    tasks of this home, None until they were looked up. `begun` is (round, basis) of the last trained claims,
    newest last. `merged` is the latest computed merge. Up to round `unlike_until`, claims and votes have
    other bits than this machine computes now; -1 if none have."""

    done: object = None
    strays: dict[BlobKey, int] = field(default_factory=dict)
    foreign: frozenset[BlobKey] | None = None
    begun: tuple[tuple[int, bytes], ...] = ()
    merged: MergeKey | None = None
    unlike_until: int = -1

    def note_work(self, index: int, basis: bytes) -> None:
        """Notes the base that a round is now trained from, speculative or not."""
        older = [place for place in self.begun if place != (index, basis) and place[0] >= index - 1]
        self.begun = (*older, (index, basis))
