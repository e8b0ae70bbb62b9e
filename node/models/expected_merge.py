"""Says which claims of a round will probably be merged, and names merges."""

from touchstone.node.kit.view import View
from touchstone.node.records.claim_records import MergeKey, MergeMade
from touchstone.node.records.round_seats import sort_by_shard
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.game.claim_status import get_accepted_block, get_claim_status, list_mergeable
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import REJECT_WORDS, ClaimStatus, RoundPhase
from touchstone.protocol.spec.game.events import RootPosted
from touchstone.protocol.spec.game.round_opening import open_next
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import MergeSignature, VoteWord, compute_merged_hash

AGAINST_WORDS = frozenset({*REJECT_WORDS, VoteWord.UNSERVED})
"""Verdicts against a claim: a single one takes it out of the expected merge."""


def list_expected(
    state: GameState, game_round: GameRound, own_slot: int | None, block: int
) -> tuple[int, ...]:
    """Returns the slots of the claims that will probably be merged. These are claims that the votes accept in
    time, this node's own while it can still be accepted, and those for which `is_trusted` holds. `state`
    includes all known votes."""
    mergeable = list_mergeable(state, game_round, block)
    return tuple(
        slot
        for slot in list_open(state, game_round, block)
        if slot in mergeable or slot == own_slot or is_trusted(state, game_round, slot)
    )


def list_open(state: GameState, game_round: GameRound, block: int) -> tuple[int, ...]:
    """Returns slots of the claims that are mergeable or can still become mergeable."""
    statuses = {slot: get_claim_status(state, game_round, slot, block) for slot in sorted(game_round.claims)}
    mergeable = list_mergeable(state, game_round, block)
    return tuple(s for s, status in statuses.items() if s in mergeable or status == ClaimStatus.UNDECIDED)


def is_trusted(state: GameState, game_round: GameRound, slot: int) -> bool:
    """Returns whether a claim will probably be accepted. No vote may be against it. It must also have an
    ACCEPT, or a seat that did not fail in the last round in which it committed."""
    places = (votes for place, votes in game_round.votes.items() if place[0] == slot)
    words = [vote.word for votes in places for vote in votes.values()]
    if AGAINST_WORDS & set(words):
        return False
    return set(words) == {VoteWord.ACCEPT} or not has_failed(state, game_round, slot)


def has_failed(state: GameState, game_round: GameRound, slot: int) -> bool:
    """Returns whether the claim of this seat failed in the last earlier round in which it committed. It has
    not failed if it never committed. Rounds that are undone or forgotten are skipped."""
    number = game_round.claims[slot].seat
    seat = state.seats.get(number)
    if seat is None:
        return True
    for index in range(game_round.index - 1, seat.joined - 1, -1):
        before = state.rounds.get(index)
        if before is not None and before.phase != RoundPhase.UNDONE:
            claims = (place for place, claim in before.claims.items() if claim.seat == number)
            earlier = next(claims, None)
            if earlier is not None:
                return not _is_accepted(state, before, earlier)
    return False


def _is_accepted(state: GameState, game_round: GameRound, slot: int) -> bool:
    claim = game_round.claims[slot]
    is_gone = claim.is_void or claim.is_convicted
    return not is_gone and get_accepted_block(state, game_round, slot) is not None


def foresee(
    state: GameState, game_round: GameRound, root: bytes, slots: tuple[int, ...], block: int
) -> GameState:
    """Returns the state that follows if `root`, merging the claims of these slots, is posted in `block` for
    the waiting round. It includes the next round, if one opens."""
    draft = Draft(state, block)
    draft.emit(RootPosted(game_round.index, root, slots, ()))
    open_next(draft)
    return draft.state


def make_key(game_round: GameRound, slots: tuple[int, ...]) -> MergeKey:
    """Returns the key of a merge of the claims of these slots."""
    ordered = sort_by_shard(game_round, slots)
    roots = tuple(game_round.claims[slot].claim_root for slot in ordered)
    return MergeKey(game_round.index, game_round.base_root, ordered, roots)


def is_on_chain(game_round: GameRound, key: MergeKey) -> bool:
    """Returns whether the round has these claims in these slots, in the order of their shards."""
    slots = set(key.slots)
    return slots <= game_round.claims.keys() and key == make_key(game_round, tuple(slots))


def get_root(made: MergeMade) -> bytes:
    """Returns the outer root of a merge."""
    return compute_outer_root(OuterHeader(made.weights_root, made.momentum_root))


def find_own_merge(view: View, game_round: GameRound) -> MergeMade | None:
    """Returns this node's own merge of the claims that a posted root names."""
    return view.claims.merges.get(make_key(game_round, game_round.merged))


def make_statement(domain: bytes, made: MergeMade) -> MergeSignature:
    """Returns the statement that a solver signs about a merge."""
    merged, claims = sum(1 << slot for slot in made.slots), compute_merged_hash(made.claim_roots)
    return MergeSignature(domain, made.round, made.base_root, merged, claims, get_root(made))
