"""Lists what must stay on a node's disk at a block, and why.

It is a pure function of the game's state and the node's own records.

    whole       the last two opened rounds, and the claims that are trained speculatively
    older       boundary 0 of the own claim, until the round's duties end
                + what an auditor, a dispute or a query may need of it now
                inputs of the outer step, until the root cannot be contested
                of audits: start and both ends, until the vote cannot be queried; then the start
    settled     the model that the next round starts from, and the newest final one
    given       the starting weights of the task, if no seed makes them
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from touchstone.node.kit.retention_windows import (
    NEWEST_SPECULATIONS,
    find_settled,
    is_answerable,
    is_askable,
    is_contestable,
    is_disputable,
    is_just_assigned,
    is_recent,
    is_vote_wanted,
    is_whole,
    list_asked_segments,
    list_in_use,
    list_shown_segments,
    name_delta,
    name_outer,
    name_state,
    name_tensors,
)
from touchstone.node.models.expected_merge import make_key
from touchstone.node.records.audit_records import AuditBook, SealMade, VoteMade
from touchstone.node.records.claim_records import ClaimBook, ClaimWork, MergeKey, compute_basis
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.round_seats import find_carried_round, find_own_slot
from touchstone.protocol.adapters.store.blobs import BlobKey
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.game.dispute_moves import list_disputed_segments
from touchstone.protocol.spec.game.drawn_audits import get_place
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameRound, GameState, StatementRef
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import VoteWord

Kept = Iterator[tuple[BlobKey, str]]
"""Maps blobs to the reason why each is kept."""
REJECTIONS = frozenset({VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA, VoteWord.REJECT_START})


@dataclass(frozen=True)
class Books:
    """What a node knows besides the chain. `initial` is the model that the task begins with; `is_start_given`
    says that no seed makes it. `unlike_until`, `begun` and `merged` are those of `PruningMemory`. `possible`
    are the claims that may still be merged."""

    account: str
    initial: OuterHeader
    claims: ClaimBook
    audits: AuditBook
    cases: DisputeRecords
    inner: InnerBook
    unlike_until: int = -1
    begun: tuple[tuple[int, bytes], ...] = ()
    possible: tuple[int, frozenset[int]] | None = None
    merged: MergeKey | None = None
    is_start_given: bool = False


def list_kept(state: GameState, books: Books, block: int) -> dict[BlobKey, str]:
    """Returns what must stay at `block`, each with one of the reasons. `state` is the game's state at this
    block or a later one."""
    kinds = (_keep_models, _keep_claims, _keep_carried, _keep_audits, _keep_deltas)
    found = {key: reason for keep in kinds for key, reason in keep(state, books, block)}
    return found | list_in_use(books.cases, books.audits)


def _keep_models(state: GameState, books: Books, block: int) -> Kept:
    yield from _keep_model(books, state.root, "the next round starts from it")
    if books.is_start_given:
        given = name_tensors(books.initial.weights_root)
        yield from ((key, "nodes that join begin with it, and no seed makes it") for key in given)
    for game_round in list(state.rounds.values()):
        if is_whole(state, game_round, block):
            yield from _keep_model(books, game_round.base_root, "a recent round starts from it")
        if is_contestable(state, game_round, block):
            yield from _keep_outer_step(state, books, game_round)
    settled = find_settled(state, block)
    if settled is not None:
        yield from _keep_model(books, settled.root, "the newest settled model, for export")


def _keep_model(books: Books, root: bytes | None, reason: str) -> Kept:
    header = _find_outer(books, root)
    if header is not None:
        yield from ((key, reason) for key in name_outer(header))


def _keep_outer_step(state: GameState, books: Books, game_round: GameRound) -> Kept:
    """Keeps what a contest of the round's root needs: the states before and after, and this node's own merge
    if it differs. Other merges can be computed again from the pseudo-gradients, except those under a kept
    speculation and the latest one, which stay."""
    for root in (game_round.base_root, game_round.root):
        yield from _keep_model(books, root, "its root can be contested")
    posted = None if game_round.root is None else make_key(game_round, game_round.merged)
    starts = _list_speculated_weights(state, books) if is_recent(state, game_round.index) else set()
    for key, made in list(books.claims.merges.items()):
        is_of_round = key[:2] == (game_round.index, game_round.base_root)
        if is_of_round and (key in (posted, books.merged) or made.weights_root in starts):
            tensors = name_tensors(made.weights_root, made.momentum_root)
            yield from ((one, "an own merge of a round whose root can be contested") for one in tensors)


def _find_outer(books: Books, root: bytes | None) -> OuterHeader | None:
    """Returns the outer header of an outer root, if this node knows it."""
    if root is None:
        return None
    return books.initial if root == compute_outer_root(books.initial) else books.claims.outer.get(root)


def _keep_claims(state: GameState, books: Books, block: int) -> Kept:
    for (index, basis), work in list(books.claims.works.items()):
        game_round = state.rounds.get(index)
        if game_round is None or game_round.beacon is None:
            continue  # The round is trained speculatively, or is forgotten.
        if (index, basis) == _name_work(game_round) and is_answerable(state, game_round, block):
            if is_recent(state, index) or index <= books.unlike_until:
                yield from _keep_whole(work)
            else:
                yield from _keep_start(state, books, game_round, work, block)
        elif is_just_assigned(game_round, block):
            yield from _keep_whole(work)
    for place in _list_speculations(state, books):
        yield from _keep_whole(books.claims.works[place])


def _list_speculated_weights(state: GameState, books: Books) -> set[bytes]:
    """Returns the roots of the weights that the kept speculations start from."""
    works = (books.claims.works[place] for place in _list_speculations(state, books))
    return {work.boundaries[0].weights_root for work in works if 0 in work.boundaries}


def _list_speculations(state: GameState, books: Books) -> Iterator[tuple[int, bytes]]:
    """Yields the speculative claims to keep: of each round the newest ones, and the one in training now, even
    if it was begun earlier. The one on the most claims that can all still be merged is kept too. Votes may
    drop a claim from the expected merge and bring it back, and that must not cost a round of training."""
    speculative = [place for place in list(books.claims.works) if _is_speculative(state, place[0])]
    told = [place for place in books.begun if place in speculative]
    ordered = [*(place for place in speculative if place not in told), *told]
    for index in {index for index, _ in ordered}:
        speculations = [place for place in ordered if place[0] == index]
        yield from {
            *speculations[-NEWEST_SPECULATIONS:],
            max(speculations, key=partial(_count_merged, books)),
        }


def _is_speculative(state: GameState, index: int) -> bool:
    """Returns whether training of a round would be speculative."""
    game_round = state.rounds.get(index)
    return index >= state.next_round if game_round is None else game_round.beacon is None


def _count_merged(books: Books, place: tuple[int, bytes]) -> int:
    """Returns how many claims are merged in the model that a round is trained from. 0 if the merge is not
    known, or one of the claims cannot be merged any more."""
    first, closed = books.claims.works[place].boundaries.get(0), place[0] - 1
    known, possible = books.possible or (closed, None)
    counts = [0]
    for key, made in list(books.claims.merges.items()):
        is_start = key.round == closed and first is not None and made.weights_root == first.weights_root
        if is_start and (known != closed or possible is None or possible.issuperset(key.slots)):
            counts.append(len(key.slots))
    return max(counts)


def _keep_whole(work: ClaimWork) -> Kept:
    for header in list(work.boundaries.values()):
        yield from ((key, "a claim of a recent round") for key in name_state(header))
    if work.finished is not None:
        yield name_delta(work.finished.delta_root), "a claim of a recent round"


def _keep_start(state: GameState, books: Books, game_round: GameRound, work: ClaimWork, block: int) -> Kept:
    """Keeps boundary 0 of an older round, and what an auditor, a dispute or a query may need of it now."""
    index, slot = game_round.index, find_own_slot(state, game_round, books.account)
    wanted = {0} | list_wanted_boundaries(state, books, game_round, block)
    for boundary in wanted & work.boundaries.keys():
        yield from ((key, "its round can be disputed") for key in name_state(work.boundaries[boundary]))
    if work.finished is None or slot is None:
        return
    is_shown = bool(list_shown_segments(state, game_round, slot, block))
    ref, last = StatementRef(index, slot), work.boundaries[max(work.boundaries)]
    if is_shown or has_work_vote(state, books, ref, block):
        yield from ((key, "final weights of a claim") for key in name_tensors(last.weights_root))
    if is_shown or is_disputable(state, ref, block):
        yield name_delta(work.finished.delta_root), "a claim that can be disputed"


def list_wanted_boundaries(state: GameState, books: Books, game_round: GameRound, block: int) -> set[int]:
    """Returns the boundaries of this node's claim that are needed at `block`. These are ends of drawn
    segments while votes count, their starts while steps may be asked for, starts of disputed or requested
    segments, and starts of segments on which this node disputes a vote."""
    index, slot = game_round.index, find_own_slot(state, game_round, books.account)
    if slot is None:
        return set()
    segments = list_shown_segments(state, game_round, slot, block)
    wanted = {boundary for segment in segments for boundary in (segment, segment + 1)}
    wanted |= set(list_asked_segments(state, game_round, slot, block))
    wanted |= list_disputed_segments(books.inner, StatementRef(index, slot), books.account)
    for _, asked, place in list(books.cases.step_requests.wanted):
        if asked == index and place // state.terms.segment_count == slot:
            wanted.add(place % state.terms.segment_count)
    return wanted


def has_work_vote(state: GameState, books: Books, claim: StatementRef, block: int) -> bool:
    """Returns whether a vote about a claim's pseudo-gradient can still be proven right or wrong."""
    return any(
        vote.slot == claim.slot
        and vote.word == VoteWord.REJECT_DELTA
        and is_disputable(state, StatementRef(claim.round, vote.slot, vote.draw, vote.rank), block)
        for vote in (made.vote for made in books.audits.list_round(claim.round))
    )


def _keep_carried(state: GameState, books: Books, block: int) -> Kept:
    """Keeps the end of the claim whose moments this node's next one starts from, however old it is. If a root
    falls, another claim takes that role; its start is kept, to train it again."""
    seat = find_seat(state, books.account)
    if seat is None:
        return
    fallible = [one.index for one in list(state.rounds.values()) if is_contestable(state, one, block)]
    places = [(index, max) for index in (state.next_round - 1, state.next_round)]
    for index, choose in [*places, *((index, min) for index in fallible)]:
        earlier = find_carried_round(state, index, seat)
        work = None if earlier is None else books.claims.works.get(_name_work(state.rounds[earlier]))
        if work is not None and work.boundaries:
            keys = name_state(work.boundaries[choose(work.boundaries)])
            yield from ((key, "the next claim goes on from its moments, or may") for key in keys)


def _name_work(game_round: GameRound) -> tuple[int, bytes]:
    """Returns the name of this node's own claim of a round with a beacon."""
    assert game_round.beacon is not None
    return game_round.index, compute_basis(game_round.base_root, game_round.beacon)


def _keep_audits(state: GameState, books: Books, block: int) -> Kept:
    for place, made in list(books.audits.seals.items()):
        if place.round in state.rounds:
            vote = books.audits.votes.get(place)
            yield from _keep_audit(state, books, made, vote, block)
            yield from _keep_audited_work(state, books, made, vote, block)


def _keep_audit(state: GameState, books: Books, made: SealMade, vote: VoteMade | None, block: int) -> Kept:
    """Keeps the start and both ends of an audit; later only the start, with both ends if it was rejected."""
    said = made.sealed
    ref = StatementRef(said.round, said.slot, said.draw, said.rank)
    is_asked, is_open = is_askable(state, ref, block), is_disputable(state, ref, block)
    if is_asked or is_open:
        yield from ((key, "start of an audit") for key in name_state(made.start.header))
    is_rejected = vote is not None and vote.vote.word in REJECTIONS
    if is_asked or (is_open and (is_rejected or said.round <= books.unlike_until)):
        yield from ((key, "own end of an audit") for key in name_state(made.own_end))
        if vote is not None and vote.ends is not None:
            yield from ((key, "claimed end of an audit") for key in name_state(vote.ends.end.header))


def _keep_audited_work(
    state: GameState, books: Books, made: SealMade, vote: VoteMade | None, block: int
) -> Kept:
    """Keeps the final weights and pseudo-gradient of an audited claim, and the weights that it started
    from."""
    if vote is None or vote.ends is None:
        return
    said = get_place(made.sealed)
    ref = StatementRef(said.round, said.slot, said.draw, said.rank)
    if is_vote_wanted(state, ref, block) or has_work_vote(state, books, ref, block):
        yield from _keep_model(books, said.base_root, "an audited claim starts from it")
        weights = name_tensors(vote.ends.last.header.weights_root)
        yield from ((key, "final weights of an audited claim") for key in weights)
        yield name_delta(vote.ends.work.delta_root), "pseudo-gradient of an audited claim"


def _keep_deltas(state: GameState, books: Books, block: int) -> Kept:
    """Keeps the pseudo-gradients of all claims in rounds whose root can be contested or is still to come."""
    known = list_work_roots(books)
    for game_round in list(state.rounds.values()):
        if is_whole(state, game_round, block) or is_contestable(state, game_round, block):
            roots = [known[c.claim_root] for c in game_round.claims.values() if c.claim_root in known]
            yield from ((name_delta(root), "its round's root can be contested") for root in roots)


def list_work_roots(books: Books) -> dict[bytes, bytes]:
    """Returns roots of pseudo-gradients by claim root, as far as this node knows the claims' work leaves."""
    ends = [(made.vote.claim_root, made.ends) for made in list(books.audits.votes.values())]
    found = {root: shown.work.delta_root for root, shown in ends if shown is not None}
    found |= {name.claim_root: proof.delta_root for name, proof in list(books.claims.proofs.items())}
    own = [work.finished for work in list(books.claims.works.values()) if work.finished is not None]
    return found | {finished.claim_root: finished.delta_root for finished in own}


def list_unknown_works(state: GameState, books: Books, block: int) -> list[tuple[GameRound, int]]:
    """Returns (round, slot) of merged claims in contestable roots whose pseudo-gradient this node cannot
    identify."""
    known = list_work_roots(books)
    return [
        (one, slot)
        for one in state.rounds.values()
        if is_contestable(state, one, block)
        for slot in one.merged
        if one.claims[slot].claim_root not in known
    ]
