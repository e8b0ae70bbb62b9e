"""Reads votes and openings that this node was not handed out of transactions."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from touchstone.node.kit.known_statements import (
    find_solver,
    get_now,
    list_provable_rounds,
    list_spot_slots,
)
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.own_openings import list_own_boundaries
from touchstone.node.records.audit_records import VoteTaken
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.handed_votes import HandedVote
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.protocol.adapters.chain.abi import find_function, load_own_abi
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.spec.commitments import compute_boundary_leaf
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit, get_ever_drawn, get_place
from touchstone.protocol.spec.game.state import CountedVote, GameRound, GameState, StatementRef
from touchstone.protocol.spec.statement_checks import is_vote_complete
from touchstone.protocol.spec.statements import Vote, VoteOpening, VoteWord, compute_seal

LOGGED = ("VotesCounted", "VotesOpened")


RELAYED = "VotesRelayed"
"""The event that repeats votes if another contract made the call, so that no transaction shows them."""


JUDGE_AND_POST = "judgeAndPost"


CALLS = ("judge", JUDGE_AND_POST)


WORD_BYTES = 32


NUMBERS, ROOTS, OPENING_ROOTS = 6, 3, 4
"""Words of a handed vote before its signature: numbers, then roots, then those of its opening."""


VOTE_BYTES = WORD_BYTES * (NUMBERS + ROOTS + OPENING_ROOTS + 2)


@dataclass(frozen=True)
class Unread:
    """Counted or opened votes of a round that this node has not read on chain yet."""

    round: int
    votes: frozenset[tuple[StatementRef, CountedVote]]


def list_unread(view: View, block: int) -> Iterator[Unread]:
    """Yields votes to read: on claims that this node replayed or made, on convicted claims, and on claims
    that were picked at random."""
    for game_round in list_provable_rounds(get_now(view), block):
        found = frozenset(_list_missing(view, game_round))
        if found:
            yield Unread(game_round.index, found)


def _list_missing(view: View, game_round: GameRound) -> Iterator[tuple[StatementRef, CountedVote]]:
    """Yields counted votes of other accounts that this node has not read on chain yet.

    A vote that a peer handed to this node may not be the one that counts: a liar could sign two and show the
    other one."""
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


@dataclass(frozen=True)
class VotesOnChain:
    """Reads votes out of the transactions that contain them."""

    get_view: GetView
    chain: GameChain
    cases: DisputeRecords
    room: AuditRoom

    async def read_votes(self, unread: Unread) -> None:
        """Reads these votes from the calls of their round, and keeps each as if its auditor had handed it in.
        Raises EnvironmentFault if the endpoint does not show all of them."""
        first = min(counted.block for _, counted in unread.votes)
        events = await self.chain.read_events(first, self.get_view().head_block)
        own = [event for event in events if event.arguments.get("task") == self.get_view().task]
        wanted = {(ref.slot, ref.draw or 0, ref.rank): (ref, counted) for ref, counted in unread.votes}
        found = set[tuple[int, int, int]]()
        for index, handed in await self._read_handed(own):
            # Skip other votes: any account can write thousands of them into a call.
            place = (handed.slot, handed.draw, handed.rank)
            if index == unread.round and place in wanted:
                await self._take(index, handed)
                found.add(place)
        self.cases.read.update(wanted[place] for place in found)
        if len(found) < len(wanted):
            raise EnvironmentFault(
                what="the chain's node does not show votes that were counted",
                expected=f"{len(unread.votes)} votes of round {unread.round} in the calls that "
                "handed them in",
                actual=f"{len(found)} of them",
                remedy="The node asks again. It cannot dispute a false vote that it has not read.",
            )

    async def _read_handed(self, events: Iterable[Event]) -> list[tuple[int, HandedVote]]:
        """Returns round and vote for each vote in calls that made votes count. If a contract made the call,
        the event repeats the votes; else the transaction shows them."""
        counted = [event for event in events if event.name in (*LOGGED, RELAYED)]
        relayed = [event for event in counted if event.name == RELAYED]
        told = {event.transaction_hash for event in relayed}
        direct = dict.fromkeys(one.transaction_hash for one in counted if one.transaction_hash not in told)
        found = [
            (event.arguments["round"], HandedVote(*one))
            for event in relayed
            for one in event.arguments["votes"]
        ]
        for name in direct:
            found += _decode_call(await self.chain.connection.sent_data(name))
        return found

    async def _take(self, index: int, handed: HandedVote) -> None:
        view = self.get_view()
        found = _rebuild(get_now(view), index, handed)
        if found is None:
            return
        drawn, vote, opening = found
        room, signature = self.room, handed.r + handed.vs
        known = room.book.taken_votes.get(get_place(vote))
        is_news = known is None or known.vote != vote or (known.opening is None and opening is not None)
        if drawn.seat.account == view.account or not is_news:
            return
        try:
            signer = await asyncio.to_thread(room.recover, vote, signature, drawn.seat.account)
        except ProtocolFault:
            return
        if signer == drawn.seat.account:
            room.book.write(VoteTaken(self.get_view().task, vote, signature, opening))


def _decode_call(data: bytes) -> list[tuple[int, HandedVote]]:
    """Returns round and vote for each vote in a call, decoded as the contract does. It ignores padding and
    merge signatures, so these cannot make a call unreadable that the contract could read."""
    name = next((one for one in CALLS if data[:4] == find_function(load_own_abi("Votes"), one).selector), "")
    if not name:
        return []
    body = data[4:]
    index, late = _get_word(body, 1), _list_handed(body, 3) if name == JUDGE_AND_POST else ()
    return [(index, one) for one in _list_handed(body, 2)] + [(index - 1, one) for one in late]


def _list_handed(body: bytes, place: int) -> Iterator[HandedVote]:
    """Yields the votes of a list argument. The argument holds the place of the length; the votes follow the
    length."""
    start = _get_word(body, place)
    count = int.from_bytes(body[start : start + WORD_BYTES], "big")
    for at in range(start + WORD_BYTES, len(body) - VOTE_BYTES + 1, VOTE_BYTES)[:count]:
        words = [body[b : b + WORD_BYTES] for b in range(at, at + VOTE_BYTES, WORD_BYTES)]
        slot, draw, rank, word, is_opened, leaf = (int.from_bytes(one, "big") for one in words[:NUMBERS])
        start_leaf, end_leaf, seal, *shown, r, vs = words[NUMBERS:]
        opening = (shown[0], shown[1], shown[2], shown[3])
        where = (slot, draw, rank, word, bool(is_opened), leaf)
        yield HandedVote(*where, start_leaf, end_leaf, seal, opening, r, vs)


def _get_word(body: bytes, place: int) -> int:
    return int.from_bytes(body[WORD_BYTES * place : WORD_BYTES * (place + 1)], "big")


def _rebuild(
    state: GameState, index: int, handed: HandedVote
) -> tuple[DrawnAudit, Vote, VoteOpening | None] | None:
    """Returns the vote that was signed, or None. The call leaves out what the chain already knows, even of
    undone rounds."""
    slot, draw, rank = handed.slot, handed.draw, handed.rank
    drawn = get_ever_drawn(state, index, slot, draw, rank)
    if drawn is None or handed.word not in list(VoteWord):
        return None
    place, auditor = drawn.place, drawn.seat.account
    end_leaf, seal = handed.end_leaf, handed.seal
    if handed.is_opened:
        end_root, boundary_salt, own_end_root, seal_salt = handed.opening
        end = (index, drawn.solver, drawn.segment + 1, boundary_salt, end_root)
        end_leaf = compute_boundary_leaf(place.domain, *end)
        sealed = (index, slot, draw, rank, auditor, handed.start_leaf, own_end_root, seal_salt)
        seal = compute_seal(place.domain, *sealed)
    where = (place.domain, index, place.base_root, place.seed, slot, place.claim_root, draw, rank)
    leaves = (drawn.segment, handed.start_leaf, seal, end_leaf)
    vote = Vote(*where, *leaves, VoteWord(handed.word), handed.named_leaf)
    # An incomplete vote neither counts nor convicts, so it must not stand in for one that does.
    if not is_vote_complete(vote):
        return None
    return drawn, vote, VoteOpening(vote, *handed.opening) if handed.is_opened else None
