"""What votes make of a round, merge signatures, merges that peers ask for, and what peers are shown.

Votes reach this node as the chain takes them (`IVotes.HandedVote`). The machine says which of them would
count in a block, and what the round would be then; nothing is sent for that.

A solver asks the round's other solvers for merge signatures, and gives its own to them. It signs what it
merged itself, once no claim of the round is undecided. It signs no set that lacks an accepted claim whose
pseudo-gradient it has. Signing several sets is no fault: the first majority on the chain decides. The merge
is in the journal before it is signed.

This room shows pseudo-gradients of closed rounds, global models, and the answers of its desks.

Merges that other solvers ask this node to sign, and that it has not computed for itself. A solver may
withhold its pseudo-gradient from some, so the set that it is asked about may be another than the node's own.
Each set that a node would sign now is computed once, one at a time. What it is merged from the node has from
then on, so it signs no smaller set any more: there are no more such merges in a round than the round has
claims. The journal keeps what each comes to, and the store keeps nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from touchstone.node.kit.party import Party
from touchstone.node.kit.view import View
from touchstone.node.models.claim_openings import answer_work, have_delta, is_fetched, may_read_delta
from touchstone.node.models.global_model import (
    MAX_BYTES,
    MERGE,
    OUTER,
    WORK,
    AskMerge,
    MergeAnswer,
    answer_outer,
    ask_peer,
    get_initial_header,
    read_message,
)
from touchstone.node.models.outer_step import (
    find_oldest,
    get_root,
    is_on_chain,
    make_statement,
    name_merge,
    require_round,
)
from touchstone.node.records.claim_records import MergeKey, MergeMade, find_own_slot, list_open_solvers
from touchstone.protocol.adapters.keys.signatures import recover_signer
from touchstone.protocol.adapters.messages import Message
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire.message_desk import Desk
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.calls import HandedOpening, JudgeVotes, SignedVote
from touchstone.protocol.spec.game.events import VoteCounted, VoteOpened
from touchstone.protocol.spec.game.fates import (
    get_drawn_seat,
    get_drawn_segment,
    has_undecided,
    list_mergeable,
)
from touchstone.protocol.spec.game.ledger import apply, fold_all, get_state_at
from touchstone.protocol.spec.game.rounds import get_waiting_round
from touchstone.protocol.spec.game.state import GameRound, GameState, RoundPhase
from touchstone.protocol.spec.game.timing import is_late_draw
from touchstone.protocol.spec.statements import VoteWord

Place = tuple[int, int, int]
"""(slot, draw, rank)"""


@dataclass(frozen=True)
class Judged:
    """What handing in votes would do. state: after it; votes: those of them that count or are opened."""

    state: GameState
    votes: tuple[Any, ...]


def read_place(handed: Any) -> tuple[Place, VoteWord, bool]:
    """Slot, draw and rank of a handed vote, its word, and whether it brings its opening."""
    packed = handed[0]
    place = (packed >> 64 & 0xFF, packed >> 56 & 0xFF, packed >> 48 & 0xFF)
    return place, VoteWord(packed >> 40 & 0xFF), packed >> 32 & 0xFF == 1


def judge(state: GameState, index: int, handed: Iterable[Any], block: int, sender: str) -> Judged:
    """What handing in these votes of round `index` in `block` would do: primaries first, so that none of them
    comes after what decides its draw."""
    known = {read_place(one)[0]: one for one in handed}
    ordered = sorted(known, key=lambda place: (place[0], place[1], place[2]))
    votes = [_read_vote(state, state.rounds[index], known[place]) for place in ordered]
    openings = tuple(HandedOpening(*place) for place in ordered if read_place(known[place])[2])
    call = JudgeVotes(index, tuple(vote for vote in votes if vote is not None), openings)
    events = apply(state, call, sender, block)
    places = [
        (event.slot, event.draw, event.rank)
        for event in events
        if isinstance(event, VoteCounted | VoteOpened)
    ]
    counted = tuple(known[place] for place in ordered if place in set(places))
    return Judged(fold_all(state, events, block), counted)


def _read_vote(state: GameState, game_round: GameRound, handed: Any) -> SignedVote | None:
    """A handed vote as the machine takes it: of its draw's seat, about its claim, seed and segment. The audit
    room has checked that, and lists no vote that a reorg made void."""
    (slot, draw, rank), word, _ = read_place(handed)
    seed = game_round.late_seed if is_late_draw(state, draw) else game_round.seed
    segment = get_drawn_segment(state, game_round, slot, draw)
    seat = state.seats.get(get_drawn_seat(state, game_round, slot, draw, rank) or 0)
    if seed is None or segment is None or seat is None:
        return None
    return SignedVote(slot, draw, rank, game_round.claims[slot].claim_root, seed, segment, word, seat.account)


# --- Of the joined task -------------------------------------------------------------------------------------
def judge_round(view: View, state: GameState, index: int, block: int) -> Judged:
    """What handing in all votes that this node has of a round would do."""
    game_round = state.rounds.get(index)
    if game_round is None or game_round.seed is None or game_round.phase == RoundPhase.UNDONE:
        return Judged(state, ())
    return judge(state, index, view.audits.list_handed(index, view.head_block + 1), block, view.account)


@dataclass(frozen=True)
class MergeSet:
    """What is to be merged: the claims of these slots, none where the base root will stand. votes, late: what
    has to be handed in with the post, of the round and of the one before it. is_final: no claim is undecided
    then, or the time for deciding is over."""

    game_round: GameRound
    slots: tuple[int, ...]
    votes: tuple[Any, ...]
    late: tuple[Any, ...]
    is_final: bool


def find_merge_set(view: View, game_round: GameRound, block: int) -> MergeSet:
    """The set of the waiting round in `block`, as far as this node's votes tell."""
    state, index = get_state_at(view.game, block), game_round.index
    now = judge_round(view, state, index, block)
    before = judge_round(view, now.state, index - 1, block)
    after = before.state.rounds[index]
    slots = list_mergeable(before.state, after, block)
    closed, audit_max = after.closed or 0, state.terms.windows.audit_max
    is_final = block >= closed + audit_max or not has_undecided(before.state, after, block)
    return MergeSet(after, slots, now.votes, before.votes, is_final)


ANSWER_S = 5.0
"""A solver has this long to sign; it is asked again."""
NUMBER_MASK = 0xFFFF
"""Of a seat's id: its number within its role."""

log = logging.getLogger(__name__)


# --- Giving -------------------------------------------------------------------------------------------------
async def answer_merge(party: Party, account: str, body: bytes) -> MergeAnswer:
    """This node's signature of a merge. Raises EnvironmentFault while it cannot sign it, ProtocolFault where
    it never will."""
    asked = read_message(AskMerge, body, account)
    game_round = _require_waiting(party, asked)
    key = MergeKey(asked.round, asked.base_root, asked.slots, asked.claim_roots)
    if not is_on_chain(game_round, key):
        raise _refuse("claims of the round in shard order", "others", account)
    if account not in {seat.account for seat in list_open_solvers(party.game, game_round)}:
        raise _refuse("a solver of the round", account, account)
    missing = find_missing(
        party.view, find_merge_set(party.view, game_round, party.state.head_block + 1), key.slots
    )
    if missing is not None:
        raise _not_yet(*missing)
    made, wanted = party.task.claims.merges.get(key), party.task.claims.wanted
    if made is None:
        if wanted.note(account, key) and wanted.wakes.take(account, party.state.head_block):
            party.wake()
        raise _not_yet("this node's own merge of these claims", "not computed yet")
    if get_root(made) != asked.root:
        raise _refuse(get_root(made).hex(), asked.root.hex(), account)
    return MergeAnswer(await sign_merge(party, made))


async def sign_merge(party: Party, made: MergeMade) -> bytes:
    """Returns this node's signature of its own merge. Raises GateShut while nothing may be signed."""
    return await party.sign(make_statement(party.task.domain, made))


def _require_waiting(party: Party, asked: AskMerge) -> GameRound:
    if party.joined is None or asked.task != party.task.task:
        raise _not_yet("a task that this node works on", asked.task.hex())
    state = get_state_at(party.game, party.state.head_block + 1)
    game_round = get_waiting_round(state)
    is_it = game_round is not None and (game_round.index, game_round.base_root) == (
        asked.round,
        asked.base_root,
    )
    if game_round is None or not is_it or game_round.beacon is None:
        raise _not_yet(f"round {asked.round}, closed and without a root", "another")
    if find_own_slot(state, game_round, party.account) is None:
        raise _not_yet("a solver seat of this node in the round", "none")
    return game_round


def find_missing(view: View, chosen: MergeSet, slots: tuple[int, ...]) -> tuple[str, str] | None:
    """Expected and actual, where this node does not sign a merge of these slots; None where it does. It does
    not where a claim is not accepted as far as it knows, one is left out that is and that it has, or one is
    undecided: a signature that is given before could be kept, and used to leave out what is accepted
    later."""
    known = chosen.slots
    if not set(slots) <= set(known):
        return f"claims that are accepted: slots {known}", f"slots {slots}"
    if not chosen.is_final:
        return "no undecided claim", "one at least"
    if any(slot not in slots and is_fetched(view, chosen.game_round, slot) for slot in known):
        return f"every accepted claim: slots {known}", f"slots {slots}"
    return None


def _not_yet(expected: str, actual: object) -> EnvironmentFault:
    return EnvironmentFault(
        what="the merge is not signed now",
        expected=expected,
        actual=actual,
        remedy="Ask again: votes or pseudo-gradients may be on their way.",
    )


def _refuse(expected: object, actual: object, account: str) -> ProtocolFault:
    return ProtocolFault(
        what="the merge is not what this node computed",
        expected=expected,
        actual=actual,
        culprit=account,
        remedy="Merge the claims of the chain anew.",
    )


# --- Asking -------------------------------------------------------------------------------------------------
def is_majority(view: View, game_round: GameRound, count: int) -> bool:
    """Whether so many signatures are more than half of the round's solver seats that are not convicted."""
    return 2 * count > len(list_open_solvers(view.game, game_round))


async def gather_signatures(party: Party, game_round: GameRound, made: MergeMade) -> dict[int, bytes]:
    """Signatures of a merge by the number of their seat: the own one, and those of other solvers. It ends
    with a majority, or when all were asked: a solver that does not answer holds up none of the others."""
    seats = {seat.number & NUMBER_MASK: seat.account for seat in list_open_solvers(party.game, game_round)}
    kept = party.task.claims.signatures.setdefault(_name(made), {})
    asking = [
        asyncio.create_task(_keep(party, number, account, made, kept))
        for number, account in seats.items()
        if number not in kept
    ]
    try:
        for done in asyncio.as_completed(asking):
            await done
            if is_majority(party.view, game_round, len(kept.keys() & seats)):
                break
    finally:
        for task in asking:
            task.cancel()
    return {number: signature for number, signature in kept.items() if number in seats}


async def _keep(party: Party, number: int, account: str, made: MergeMade, kept: dict[int, bytes]) -> None:
    signature = await _ask(party, account, made)
    if signature is not None:
        kept[number] = signature


def _name(made: MergeMade) -> MergeKey:
    return MergeKey(made.round, made.base_root, made.slots, made.claim_roots)


async def _ask(party: Party, account: str, made: MergeMade) -> bytes | None:
    """The signature of a solver; None where it gives none now."""
    try:
        if account == party.account:
            return await sign_merge(party, made)
        peer = party.state.network.find(account)
        async with asyncio.timeout(ANSWER_S):
            question = AskMerge(party.task.task, *_name(made), get_root(made))
            said = await ask_peer(party, peer, MERGE, question, MergeAnswer)
        statement = make_statement(party.task.domain, made)
        signer = recover_signer(statement, said.signature, party.signing, account)
    except (ProtocolFault, EnvironmentFault, TimeoutError) as fault:
        log.info("%s: %s", account, fault)
        return None
    return said.signature if signer == account else None


Answer = Callable[[Party, str, bytes], Awaitable[Message]]


def make_desks(party: Party) -> dict[str, Desk]:
    """Who answers which messages of this room."""
    answers: dict[str, Answer] = {OUTER: answer_outer, WORK: answer_work, MERGE: answer_merge}
    return {name: Desk(MAX_BYTES, partial(answer, party)) for name, answer in answers.items()}


def may_read(party: Party, account: str, kind: BlobKind, root: bytes) -> bool:
    """Whether `account` may have this blob now.

    The dataset, the step and the task's first model are for any account that signs. A pseudo-gradient is for
    any account once its round is closed. A global model is for the submitter and for accounts with a seat in
    any task once its root is posted. It is for any account once its root cannot be contested any more, also
    where the chain has forgotten its round."""
    if kind in (BlobKind.DATASET, BlobKind.STEP):
        return True
    if party.joined is None:
        return False
    if kind is BlobKind.DELTA:
        return may_read_delta(party.view, root)
    is_member = party.state.is_staked(account) or account == party.game.terms.submitter
    return kind is BlobKind.TENSOR and _is_model(party.view, root, is_member=is_member)


def _is_model(view: View, root: bytes, *, is_member: bool) -> bool:
    """Whether a tensor is of a global model that may be shown."""
    initial = get_initial_header(view)
    if root in (initial.weights_root, initial.momentum_root):
        return True
    headers = {name: (h.weights_root, h.momentum_root) for name, h in view.claims.outer.items()}
    posted = [r for r in view.game.rounds.values() if r.phase == RoundPhase.POSTED and r.root is not None]
    shown = [r.root for r in posted if is_member or _is_settled(view, r)]
    return any(root in headers.get(one or b"", ()) for one in (*shown, find_oldest(view.game)[1]))


def _is_settled(view: View, game_round: GameRound) -> bool:
    """Whether no account can contest the root any more."""
    return view.head_block > game_round.root_until


# --- Merges that peers ask for ------------------------------------------------------------------------------
@dataclass(frozen=True)
class NameMerge:
    """Find out what a merge comes to that another solver asked to sign."""

    key: MergeKey

    async def perform(self, party: Party) -> None:
        """Fetch first: a peer that shows its bytes slowly holds up no other merge. Compute it unless it would
        not be signed any more. Raises EnvironmentFault or ProtocolFault where the bytes cannot be had."""
        game_round = require_round(party.view, self.key)
        for slot in self.key.slots:
            await have_delta(party, game_round, slot)
        async with party.task.locks["asked merge", None]:
            if self.key in _list_signable(party.view, party.state.head_block + 1):
                await name_merge(party, self.key)


def list_duties(party: Party, block: int) -> Iterator[NameMerge]:
    """What others asked for, and this node would sign."""
    yield from (NameMerge(key) for key in _list_signable(party.view, block))


def _list_signable(view: View, block: int) -> list[MergeKey]:
    book, game_round = view.claims, _find_round(view, block)
    asked = dict.fromkeys(key for key in book.wanted.by_account.values() if key not in book.merges)
    if not asked or game_round is None:
        return []
    chosen = find_merge_set(view, game_round, block)
    found = [key for key in asked if is_on_chain(game_round, key)]
    return [key for key in found if find_missing(view, chosen, key.slots) is None]


def _find_round(view: View, block: int) -> GameRound | None:
    """The waiting round; None where none waits, or its shards are not dealt."""
    game_round = get_waiting_round(get_state_at(view.game, block))
    return None if game_round is None or game_round.beacon is None else game_round
