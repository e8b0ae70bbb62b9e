"""Wrong starts, pseudo-gradients and votes, proven in one transaction; votes read from the chain.

Each proof uses leaves of the store. This node relies only on its own vote on the claim (`actions/audit`), or
on the claim being its own. So it compares nothing here and believes no other node: the contract compares.

Counted votes are read from the chain: from the calls that handed them in, or from a relayed call's log.
Auditors offer their votes only to solvers. A liar may offer none of a vote that could convict it, or offer
another one. But every vote that counts was handed in, signed and whole. So a node that judged the claim
differently finds the vote on chain.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from touchstone.node.kit.party import Party
from touchstone.node.kit.view import View
from touchstone.node.models.claim_openings import (
    fetch_delta,
    find_work,
    list_own_boundaries,
    open_boundary,
    open_work,
)
from touchstone.node.models.global_model import load_outer, load_weights
from touchstone.node.records.audit_records import VoteTaken
from touchstone.node.records.claim_records import WorkProof, find_carried_round
from touchstone.node.records.dispute_records import ClaimOpenings, KnownVote
from touchstone.node.records.handed_votes import WITH_OPENING, HandedVote
from touchstone.node.training.segments import restore_boundary
from touchstone.protocol.adapters.chain.abi import find_function, load_own_abi
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_delta, refer_tensor
from touchstone.protocol.spec.codec import compute_boundary_leaf
from touchstone.protocol.spec.containers import LeafProof
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.auditing import DrawnAudit, get_ever_drawn, get_place
from touchstone.protocol.spec.game.state import CountedVote, GameRound, GameState, StatementRef
from touchstone.protocol.spec.params import DELTA_BLOCK_BYTES, SCALE_BYTE_MAX
from touchstone.protocol.spec.statements import (
    COMPARED,
    Vote,
    VoteOpening,
    VoteWord,
    compute_carried_root,
    compute_seal,
    is_vote_whole,
)
from touchstone.whistleblower import evidence
from touchstone.whistleblower.evidence import NO_WORK, Case, Form, delta_form, start_form
from touchstone.whistleblower.known_statements import (
    find_accused,
    find_claim,
    find_solver,
    get_now,
    is_provable,
    list_provable_rounds,
    list_spot_slots,
)

WORK_WORDS = frozenset({VoteWord.REJECT_START, VoteWord.REJECT_DELTA})


def list_work_cases(party: Party, game_round: GameRound, block: int) -> Iterator[Case]:
    """What can be proven in `block` of starts and pseudo-gradients of a round."""
    votes = list(party.task.audits.known.list_votes(game_round.index))
    own = {one.vote.slot: one for one in votes if one.auditor == party.account and one.vote.word in COMPARED}
    for slot, found in own.items():
        ref = StatementRef(game_round.index, slot)
        accused = find_accused(get_now(party.view), ref, None)
        if found.vote.word in WORK_WORDS and is_provable(
            get_now(party.view), ref, accused, party.account, block
        ):
            yield _make_claim_case(found)
    for slot, _ in party.task.audits.known.list_wrong_starts(game_round.index):
        ref = StatementRef(game_round.index, slot)
        accused = find_accused(get_now(party.view), ref, None)
        if slot not in own and is_provable(get_now(party.view), ref, accused, party.account, block):
            yield _make_start_case(ref)
    for known in votes:
        accused = find_accused(get_now(party.view), known.ref, known)
        if (
            known.vote.word in WORK_WORDS
            and is_provable(get_now(party.view), known.ref, accused, party.account, block)
            and _is_right(party.view, known, own.get(known.vote.slot))
        ):
            yield _make_vote_case(known)


def _is_right(view: View, known: KnownVote, own: KnownVote | None) -> bool:
    """Whether this node stands by the claim's start and work, against a vote."""
    if find_solver(get_now(view), known.vote.round, known.vote.slot) == view.account:
        return bool(list_own_boundaries(view, known.vote.round))
    return own is not None and own.vote.word not in WORK_WORDS


def _make_claim_case(found: KnownVote) -> Case:
    return Case(("claim", found.signature), lambda party: prove_claim(party, found))


def _make_start_case(ref: StatementRef) -> Case:
    return Case(("start", ref), lambda party: prove_wrong_start(party, ref))


def _make_vote_case(known: KnownVote) -> Case:
    return Case(("work", known.signature), lambda party: prove_vote(party, known))


# --- Proving ------------------------------------------------------------------------------------------------
async def prove_claim(party: Party, found: KnownVote) -> None:
    """Prove what this node's own vote says of a claim."""
    index, slot = found.vote.round, found.vote.slot
    openings = get_openings(party.view, index, slot)
    if found.vote.word == VoteWord.REJECT_START:
        await prove_wrong_start(party, found.ref)
        return
    work, last = openings.work, openings.last
    if work is not None and last is not None and work.carried_root != compute_carried_root(last.header):
        await evidence.prove_carried(party, index, slot, work, last)
        return
    await _prove_delta(party, found, openings)


async def prove_wrong_start(party: Party, ref: StatementRef) -> None:
    """Show boundary 0 of a claim, which is not what the claim must start from."""
    openings = get_openings(party.view, ref.round, ref.slot)
    start = await make_start(party, ref.round, ref.slot, openings)
    await evidence.prove_start(party, ref.round, ref.slot, start)


async def _prove_delta(party: Party, found: KnownVote, openings: ClaimOpenings) -> None:
    index, slot, leaf = found.vote.round, found.vote.slot, found.vote.named_leaf
    if openings.work is None:
        raise _make_unknown(index, slot, "the work leaf")
    await fetch_delta(party, get_now(party.view).rounds[index], slot)
    ref = refer_delta(openings.work.delta_root, party.task.spec.terms.parameter_count)
    [opened] = party.store.open_leaves(ref, [leaf])
    if are_scales_valid(opened):
        delta = await make_delta(party, index, slot, leaf, openings)
        await evidence.prove_delta(party, index, slot, leaf, delta)
    else:  # Nothing else is needed, so nothing else can be withheld.
        await evidence.prove_scale(party, index, slot, leaf, openings.work, opened)


async def prove_vote(party: Party, known: KnownVote) -> None:
    """Show that a claim starts as it must, or that the named leaf is the encoded difference."""
    index, slot = known.vote.round, known.vote.slot
    openings = get_openings(party.view, index, slot)
    if known.vote.word == VoteWord.REJECT_START:
        await evidence.prove_right_start(party, known, await make_start(party, index, slot, openings))
    else:
        delta = await make_delta(party, index, slot, known.vote.named_leaf, openings)
        await evidence.prove_right_delta(party, known, delta)


def are_scales_valid(leaf: LeafProof) -> bool:
    """Whether each block of a leaf of a pseudo-gradient has a scale that an encoding has."""
    return all(scale <= SCALE_BYTE_MAX for scale in leaf.data[::DELTA_BLOCK_BYTES])


# --- What a proof takes -------------------------------------------------------------------------------------
def get_openings(view: View, index: int, slot: int) -> ClaimOpenings:
    """What is known of a claim: all where it is this node's own."""
    if find_solver(get_now(view), index, slot) != view.account:
        return view.audits.get_openings(index, slot)
    last = len(list_own_boundaries(view, index)) - 1
    first, end = (open_boundary(view, index, boundary) for boundary in (0, last))
    return ClaimOpenings({0: first, last: end}, open_work(view, index), end)


async def make_start(party: Party, index: int, slot: int, openings: ClaimOpenings) -> Form:
    """Boundary 0 of a claim and what it must be."""
    if 0 not in openings.boundaries:
        raise _make_unknown(index, slot, "boundary 0")
    base = await load_outer(party, get_now(party.view).rounds[index].base_root)
    return start_form(openings.boundaries[0], base, await _find_carried_work(party, index, slot))


async def _find_carried_work(party: Party, index: int, slot: int) -> WorkProof:
    """The work leaf of the solver's last merged claim, where moments carry over from one."""
    claim = find_claim(get_now(party.view), index, slot)
    seat = None if claim is None else get_now(party.view).seats.get(claim.seat)
    if not party.task.spec.terms.carry_moments or seat is None:
        return NO_WORK
    earlier = find_carried_round(get_now(party.view), index, seat)
    if earlier is None:
        return NO_WORK
    before = get_now(party.view).rounds[earlier]
    merged = next(one for one in before.claims.values() if one.seat == seat.number)
    return await find_work(party, before, merged)


async def make_delta(party: Party, index: int, slot: int, leaf: int, openings: ClaimOpenings) -> Form:
    """A leaf of a claim's pseudo-gradient and what it must be. Raises EnvironmentFault where it is not
    known."""
    work, last = openings.work, openings.last
    if work is None or last is None:
        raise _make_unknown(index, slot, "the work leaf" if work is None else "the last boundary")
    game_round, count = get_now(party.view).rounds[index], party.task.spec.terms.parameter_count
    base = await load_outer(party, game_round.base_root)
    await load_weights(party, base)
    await fetch_delta(party, game_round, slot)
    final = refer_tensor(last.header.weights_root, count)
    await _have_final(party, index, slot, final)
    refs = (refer_tensor(base.weights_root, count), final, refer_delta(work.delta_root, count))
    first, second, third = (party.store.open_leaves(ref, [leaf])[0] for ref in refs)
    return delta_form(work, base, last, (first, second, third))


async def _have_final(party: Party, index: int, slot: int, ref: BlobRef) -> None:
    """Have the final weights of a claim; of an own one that were pruned they are trained again."""
    solver = find_solver(get_now(party.view), index, slot)
    if solver == party.account and not party.store.has(ref):
        await restore_boundary(party, index, max(list_own_boundaries(party.view, index)))
        return
    known = party.state.network.peers.get(solver or "")
    await party.client.fetch_from_any([known] if known is not None else [], ref)


def _make_unknown(index: int, slot: int, what: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="a claim cannot be proven wrong without its openings",
        expected=f"{what} of round {index}, slot {slot}",
        actual="never shown to this node",
        remedy="Nothing: the auditors of the claim have them.",
    )


# --- Votes read from the chain ------------------------------------------------------------------------------
LOGGED = ("VotesCounted", "VotesOpened")
RELAYED = "VotesRelayed"
"""The log of votes that no transaction's data shows, because another contract made the call."""
JUDGE_AND_POST = "judgeAndPost"
CALLS = ("judge", JUDGE_AND_POST)
WORD_BYTES = 32
VOTE_BYTES = WORD_BYTES * len(HandedVote._fields)


@dataclass(frozen=True)
class Unread:
    """Votes of a round as the chain has counted them, or opened, that this node has not read there."""

    round: int
    votes: frozenset[tuple[StatementRef, CountedVote]]


def list_unread(view: View, block: int) -> Iterator[Unread]:
    """What to read: votes on claims that this node has replayed or made, that were convicted, or that its
    dice fell on."""
    for game_round in list_provable_rounds(get_now(view), block):
        found = frozenset(_list_missing(view, game_round))
        if found:
            yield Unread(game_round.index, found)


def _list_missing(view: View, game_round: GameRound) -> Iterator[tuple[StatementRef, CountedVote]]:
    """Counted votes of other accounts that this node has not read on chain yet.

    A vote that a peer offered to this node may not be the one that counts: a liar could sign two, and offer
    the other one."""
    slots, index, read = _list_slots(view, game_round), game_round.index, view.cases.read
    own = {one.ref for one in view.audits.list_votes(index) if one.auditor == view.account}
    for (slot, draw), votes in game_round.votes.items():
        for rank, counted in votes.items():
            ref = StatementRef(index, slot, draw, rank)
            if slot in slots and ref not in own and (ref, counted) not in read:
                yield ref, counted


def _list_slots(view: View, game_round: GameRound) -> set[int]:
    slots = {one.ref.slot for one in view.audits.list_replays(game_round.index)}
    slots |= {slot for slot, claim in game_round.claims.items() if claim.is_convicted}
    slots |= set(list_spot_slots(get_now(view), view.account, view.cases.dice, game_round))
    if list_own_boundaries(view, game_round.index):
        own = (slot for slot in game_round.claims if _is_own(view, game_round.index, slot))
        slots |= set(own)
    return slots


def _is_own(view: View, index: int, slot: int) -> bool:
    return find_solver(get_now(view), index, slot) == view.account


# --- Reading ------------------------------------------------------------------------------------------------
async def read_votes(party: Party, unread: Unread) -> None:
    """Take these votes from the calls of their round; each is kept as if its auditor had handed it in. Raises
    EnvironmentFault where the endpoint does not show all of them."""
    first = min(counted.block for _, counted in unread.votes)
    events = await party.chain.read_events(first, party.state.head_block)
    own = [event for event in events if event.arguments.get("task") == party.task.task]
    wanted = {
        ref.slot << 16 | (ref.draw or 0) << 8 | ref.rank: (ref, counted) for ref, counted in unread.votes
    }
    found = set[int]()
    for index, handed in await _read_handed(party, own):
        # Any account can write thousands of other votes into a call.
        if index == unread.round and (place := handed.place >> 48) in wanted:
            await _take(party, index, handed)
            found.add(place)
    party.task.cases.read.update(wanted[place] for place in found)
    if len(found) < len(wanted):
        raise EnvironmentFault(
            what="votes that were counted are not shown",
            expected=f"{len(unread.votes)} votes of round {unread.round} in the calls that handed them in",
            actual=f"{len(found)} of them",
            remedy="The chain's node is asked again. Without the votes a false one cannot be disputed.",
        )


async def _read_handed(party: Party, events: Iterable[Event]) -> list[tuple[int, HandedVote]]:
    """Round and vote of each that was handed in with votes which counted. What a contract handed in the log
    repeats; any other call is a transaction of its own."""
    counted = [event for event in events if event.name in (*LOGGED, RELAYED)]
    relayed = [event for event in counted if event.name == RELAYED]
    told = {event.transaction_hash for event in relayed}
    direct = dict.fromkeys(one.transaction_hash for one in counted if one.transaction_hash not in told)
    found = [
        (event.arguments["round"], HandedVote(*one)) for event in relayed for one in event.arguments["votes"]
    ]
    for name in direct:
        found += _decode_call(await party.chain.connection.sent_data(name))
    return found


def _decode_call(data: bytes) -> list[tuple[int, HandedVote]]:
    """Round and vote of each, as the contract finds them: it looks at nothing else, so neither padding nor
    signatures of a merge can make a call unreadable that it has read."""
    name = next((one for one in CALLS if data[:4] == find_function(load_own_abi("Votes"), one).selector), "")
    if not name:
        return []
    body = data[4:]
    index, late = _get_word(body, 1), _list_handed(body, 3) if name == JUDGE_AND_POST else ()
    return [(index, one) for one in _list_handed(body, 2)] + [(index - 1, one) for one in late]


def _list_handed(body: bytes, place: int) -> Iterator[HandedVote]:
    """A list of votes: its argument says where its length stands, which the votes follow."""
    start = _get_word(body, place)
    count = int.from_bytes(body[start : start + WORD_BYTES], "big")
    for at in range(start + WORD_BYTES, len(body) - VOTE_BYTES + 1, VOTE_BYTES)[:count]:
        first, *rest = (body[b : b + WORD_BYTES] for b in range(at, at + VOTE_BYTES, WORD_BYTES))
        yield HandedVote(int.from_bytes(first, "big"), *rest)


def _get_word(body: bytes, place: int) -> int:
    return int.from_bytes(body[WORD_BYTES * place : WORD_BYTES * (place + 1)], "big")


async def _take(party: Party, index: int, handed: HandedVote) -> None:
    found = _rebuild(get_now(party.view), index, handed)
    if found is None:
        return
    drawn, vote, opening = found
    room, signature = party.task.audits.room, handed.r + handed.vs
    known = room.book.taken_votes.get(get_place(vote))
    is_news = known is None or known.vote != vote or (known.opening is None and opening is not None)
    if drawn.seat.account == party.account or not is_news:
        return
    try:
        signer = await asyncio.to_thread(room.recover, vote, signature, drawn.seat.account)
    except ProtocolFault:
        return
    if signer == drawn.seat.account:
        room.book.write(VoteTaken(party.task.task, vote, signature, opening))


def _rebuild(
    state: GameState, index: int, handed: HandedVote
) -> tuple[DrawnAudit, Vote, VoteOpening | None] | None:
    """The vote that was signed: what the call leaves out the chain knows, also of a round that is undone."""
    slot, draw, rank, word, kind = _split(handed.place)
    drawn = get_ever_drawn(state, index, slot, draw, rank)
    if drawn is None or word not in list(VoteWord):
        return None
    place, auditor = drawn.place, drawn.seat.account
    end_leaf, seal = handed.a, handed.b
    if kind == WITH_OPENING:
        end = (index, drawn.solver, drawn.segment + 1, handed.b, handed.a)
        end_leaf = compute_boundary_leaf(place.domain, *end)
        sealed = (index, slot, draw, rank, auditor, handed.start_leaf, handed.c, handed.d)
        seal = compute_seal(place.domain, *sealed)
    where = (place.domain, index, place.base_root, place.seed, slot, place.claim_root, draw, rank)
    named = handed.place & ((1 << 32) - 1)
    leaves = (drawn.segment, handed.start_leaf, seal, end_leaf)
    vote = Vote(*where, *leaves, VoteWord(word), named)
    shown = (handed.a, handed.b, handed.c, handed.d)
    # A vote that is not whole does not count and convicts no seat: it must not stand for one that does.
    if not is_vote_whole(vote):
        return None
    return drawn, vote, VoteOpening(vote, *shown) if kind == WITH_OPENING else None


def _split(place: int) -> Sequence[int]:
    """Slot, draw, rank, word and kind of a handed vote."""
    return place >> 64, *(place >> bits & 0xFF for bits in (56, 48, 40)), place >> 32 & 0xFF
