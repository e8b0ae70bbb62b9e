"""Shows a solver's claims to its auditors, and offers the audit room to the node's other rooms.

A solver shows the segment's start to the drawn auditors, and the end to each auditor that has sealed. It
remembers in memory which account was shown what. After a restart an auditor asks again with the same seal,
and is shown the same. Another auditor's seal opens nothing.

Once a round has its root and no vote on a segment can count any more, any account may read both ends of the
segment (`is_segment_public`), from the solver and from auditors. They keep no states just for that, and
strangers get a small share of the server.

The other rooms use `Audits`. It answers from memory.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from touchstone.node.kit.retention_windows import is_recent
from touchstone.node.models.global_model import WorkSaid
from touchstone.node.records.audit_records import SealTaken
from touchstone.node.records.known_audits import KnownAudits
from touchstone.node.serving.audit_messages import (
    MAX_BYTES,
    MAX_VOTES_BYTES,
    PUBLIC,
    SEAL,
    START,
    VOTES,
    AskStart,
    EndShown,
    PlaceSaid,
    SealHanded,
    SegmentAsked,
    SegmentShown,
    StartShown,
    compute_leaf,
    format_boundary,
    make_form,
    read_sealed,
)
from touchstone.node.serving.audit_room import AuditRoom, BoundaryPlace, RootIndex, WorkOpening
from touchstone.node.serving.taken_votes import take_votes
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.messages import Message
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire.request_handler import Answer
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.audit_deadlines import get_heard_until
from touchstone.protocol.spec.game.drawn_audits import (
    AuditPlace,
    DrawnAudit,
    find_drawn,
    find_stated,
    get_place,
)
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.public_boundaries import is_boundary_public, is_segment_public
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Sealed

START_FORM, SEAL_FORM, PUBLIC_FORM = make_form(AskStart), make_form(SealHanded), make_form(SegmentAsked)
KEPT_ROUNDS = 16
"""The number of rounds for which the room remembers what it showed to whom."""
REST = 9
"""Opening a segment hashes a whole claim. For accounts that do not audit it, that takes at most one part in
REST + 1 of one core's time."""


async def show_start(room: AuditRoom, account: str, body: bytes) -> StartShown:
    """Shows boundary 0 and the segment's start to an auditor that is drawn for it, and lets it fetch the
    start state. Raises ProtocolFault or EnvironmentFault."""
    drawn = _require_drawn(room, account, START_FORM.decode(body, account).place)
    async with _only_once(room, drawn.place):
        first, start = await asyncio.to_thread(_open_start, room, drawn)
    _grant(room, drawn, *_list_roots(start.header))
    return StartShown(format_boundary(first), format_boundary(start))


async def take_seal(room: AuditRoom, account: str, body: bytes) -> EndShown:
    """Writes an auditor's seal into the journal, then returns the segment's end, the last boundary and the
    work leaf. Raises ProtocolFault or EnvironmentFault."""
    handed = SEAL_FORM.decode(body, account)
    drawn, sealed = _require_drawn(room, account, handed.sealed), read_sealed(handed.sealed)
    async with _only_once(room, drawn.place):
        await asyncio.to_thread(_require_start_leaf, room, drawn, sealed, account)
        _keep_seal(room, drawn, SealTaken(room.about.task, sealed, handed.signature))
        end, last, work = await asyncio.to_thread(_open_ends, room, drawn)
    _grant(room, drawn, *_list_roots(end.header), last.header.weights_root)
    shown = WorkSaid(work.delta_root, work.carried_root, tuple(work.path))
    return EndShown(format_boundary(end), format_boundary(last), shown)


async def show_segment(room: AuditRoom, account: str, body: bytes) -> SegmentShown:
    """Shows boundary 0, start and end of a public segment to any account, as its solver or as one of its
    auditors. Raises ProtocolFault or EnvironmentFault."""
    asked = PUBLIC_FORM.decode(body, account)
    game_round = room.get_game().rounds.get(asked.round)
    place = (asked.slot, asked.segment, room.block)
    is_here = asked.task == room.about.task and game_round is not None
    if not is_here or game_round is None or not is_segment_public(room.get_game(), game_round, *place):
        raise _not_served("a segment of a posted round on which no vote counts any more", str(place))
    if room.showing.locked():
        raise _not_served("one request for a segment's ends at a time", "another is being answered")
    async with room.showing:
        clock = asyncio.get_running_loop().time
        begun_s = clock()
        opened = await asyncio.to_thread(_open_segment, room, asked)
        await asyncio.sleep(REST * (clock() - begun_s))
    if opened is None:
        raise _not_served("a claim of this node, or an audit by it", str(place))
    return SegmentShown(*map(format_boundary, opened))


def may_read(room: AuditRoom, account: str, kind: BlobKind, root: bytes) -> bool:
    """Returns whether a tensor was shown to this account in an audit, or is for any account."""
    if kind is not BlobKind.TENSOR:
        return False
    return any((account, root) in shown for shown in room.grants.values()) or _is_public(room, root)


def _require_drawn(room: AuditRoom, account: str, said: PlaceSaid) -> DrawnAudit:
    """Returns the audit of this node's claim that this account was drawn for, while openings are paid.

    Raises EnvironmentFault for any other account."""
    where = (said.domain, said.round, said.base_root, said.seed, said.slot, said.claim_root)
    place, game = AuditPlace(*where, said.draw, said.rank), room.get_game()
    drawn = find_drawn(game, place)
    is_own = drawn is not None and drawn.solver == room.account
    if drawn is None or not is_own or drawn.seat.account != account:
        raise _not_served("an auditor that is drawn for this claim", f"{account}, {place}")
    if room.block > get_heard_until(game, place):
        raise _not_served("an audit that can still be voted on", f"block {room.block}")
    return drawn


def _require_start_leaf(room: AuditRoom, drawn: DrawnAudit, sealed: Sealed, account: str) -> None:
    leaf = compute_leaf(drawn, drawn.segment, _open(room, drawn, drawn.segment))
    expected, actual = (drawn.segment, leaf), (sealed.segment, sealed.start_leaf)
    if expected != actual or sealed.seal == ZERO_WORD:
        raise ProtocolFault(
            what="the seal is not of this segment",
            expected=f"segment {drawn.segment}, its start leaf {leaf.hex()} and a seal",
            actual=f"segment {sealed.segment}, {sealed.start_leaf.hex()}, {sealed.seal.hex()}",
            culprit=account,
            remedy="Replay the drawn segment from the start that was shown, then seal.",
        )


def _keep_seal(room: AuditRoom, drawn: DrawnAudit, taken: SealTaken) -> None:
    """Writes a seal into the journal, once. Raises ProtocolFault if its auditor did not sign it, or signed
    another one for the place before. The second one is kept too, as evidence."""
    known, auditor = room.book.taken_seals.get(drawn.place), drawn.seat.account
    if known is not None and known.sealed == taken.sealed:
        return
    signer = room.recover(taken.sealed, taken.signature, auditor)
    if signer == auditor and drawn.place not in room.book.second:
        room.book.write(taken)
    if signer != auditor or known is not None:
        raise ProtocolFault(
            what="the seal does not count",
            expected=f"the first seal of this draw, signed by {auditor}",
            actual=f"signed by {signer}" if signer != auditor else "another seal of the same draw",
            culprit=auditor,
            remedy="Hand in the seal that was signed first.",
        )


def _open_start(room: AuditRoom, drawn: DrawnAudit) -> tuple[BoundaryProof, BoundaryProof]:
    return _open(room, drawn, 0), _open(room, drawn, drawn.segment)


def _open_ends(room: AuditRoom, drawn: DrawnAudit) -> tuple[BoundaryProof, BoundaryProof, WorkOpening]:
    end, last = _open(room, drawn, drawn.segment + 1), _open(room, drawn, drawn.segments)
    return end, last, room.claims.open_work(drawn.place.round)


def _open(room: AuditRoom, drawn: DrawnAudit, boundary: int) -> BoundaryProof:
    try:
        return room.claims.open_boundary(drawn.place.round, boundary)
    except KeyError as error:
        raise _not_served("a claim that this node has", f"round {drawn.place.round}") from error


def _grant(room: AuditRoom, drawn: DrawnAudit, *roots: bytes) -> None:
    for index in [index for index in room.grants if index <= drawn.place.round - KEPT_ROUNDS]:
        del room.grants[index]
    granted = room.grants.setdefault(drawn.place.round, set())
    granted |= {(drawn.seat.account, root) for root in roots}


def _open_segment(room: AuditRoom, asked: SegmentAsked) -> tuple[BoundaryProof, ...] | None:
    """Returns boundary 0, start and end; None if this node neither made the claim nor compared the
    segment."""
    game = room.get_game()
    claim = game.rounds[asked.round].claims[asked.slot]
    if claim.account == room.account:
        with suppress(KeyError):
            boundaries = (0, asked.segment, asked.segment + 1)
            return tuple(room.claims.open_boundary(asked.round, one) for one in boundaries)
    for made, ends in room.book.list_compared(asked.round):
        is_asked = (made.sealed.slot, made.sealed.segment) == (asked.slot, asked.segment)
        if is_asked and find_stated(game, get_place(made.sealed)) is not None:
            return made.first, made.start, ends.end
    return None


def _is_public(room: AuditRoom, root: bytes) -> bool:
    """Returns whether a tensor belongs to a boundary that any account may read."""
    game = room.get_game()
    return any(
        is_boundary_public(game, game_round, place.slot, place.boundary, room.block)
        for game_round, place in _find_boundaries(room, root)
    )


def _find_boundaries(room: AuditRoom, root: bytes) -> Iterator[tuple[GameRound, BoundaryPlace]]:
    """Yields the boundaries of posted rounds that have this tensor. It must be fast, because every request of
    a stranger needs it."""
    game = room.get_game()
    for gone in room.root_indexes.keys() - game.rounds.keys():
        del room.root_indexes[gone]
    for game_round in game.rounds.values():
        if game_round.phase == RoundPhase.POSTED:
            for place in _index_roots(room, game_round).get(root, ()):
                if place.audit is None or find_stated(game, place.audit) is not None:
                    yield game_round, place


def _index_roots(room: AuditRoom, game_round: GameRound) -> Mapping[bytes, Sequence[BoundaryPlace]]:
    """Returns the boundaries of a round that may be on this disk, by their tensors. They are of this node's
    own claim and of claims that it has audited. It is made once for each round."""
    index, claims, slot = game_round.index, game_round.claims, -1
    if is_recent(room.get_game(), index):
        slot = next((one for one, claim in claims.items() if claim.account == room.account), -1)
    own: Mapping[int, StateHeader] = {} if slot < 0 else room.claims.list_boundaries(index)
    made_of = (slot, len(own), own.get(len(own) - 1), room.book.versions[index])
    known = room.root_indexes.get(index)
    if known is None or known.made_of != made_of:
        places = [(BoundaryPlace(slot, boundary), header) for boundary, header in own.items()]
        known = RootIndex(made_of, _sort_by_root([*places, *_list_audited(room, index)]))
        room.root_indexes[index] = known
    return known.places


def _list_audited(room: AuditRoom, index: int) -> Iterator[tuple[BoundaryPlace, StateHeader]]:
    for made, ends in room.book.list_compared(index):
        said, place = made.sealed, get_place(made.sealed)
        yield BoundaryPlace(said.slot, said.segment, place), made.start.header
        yield BoundaryPlace(said.slot, said.segment + 1, place), ends.end.header


def _sort_by_root(
    states: Iterable[tuple[BoundaryPlace, StateHeader]],
) -> Mapping[bytes, Sequence[BoundaryPlace]]:
    found: defaultdict[bytes, list[BoundaryPlace]] = defaultdict(list)
    for place, header in states:
        for root in _list_roots(header):
            found[root].append(place)
    return dict(found)


def _list_roots(header: StateHeader) -> tuple[bytes, bytes, bytes]:
    return header.weights_root, header.first_moment_root, header.second_moment_root


@asynccontextmanager
async def _only_once(room: AuditRoom, place: AuditPlace) -> AsyncIterator[None]:
    """Allows one exchange at a time for each auditor and draw."""
    if room.locks[place].locked():
        raise _not_served("one request for an audit at a time", "another is being answered")
    async with room.locks[place]:
        yield


def _not_served(expected: str, actual: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="an audit is not served to you now",
        expected=expected,
        actual=actual,
        remedy="Ask as the drawn seat, once both nodes have read the chain equally far.",
    )


BODY_BYTES = {START: MAX_BYTES, SEAL: MAX_BYTES, VOTES: MAX_VOTES_BYTES, PUBLIC: MAX_BYTES}
"""The most bytes of a message to each handler of this room."""
_ANSWERS = {START: show_start, SEAL: take_seal, VOTES: take_votes, PUBLIC: show_segment}


class Audits:
    """The audits of the joined task. Only functions of this module use `room`."""

    def __init__(self, room: AuditRoom) -> None:
        self.room = room

    async def answer(self, handler: str, account: str, body: bytes) -> Message:
        """Returns the answer of a handler of this room to a peer. Raises ProtocolFault or
        EnvironmentFault."""
        return await _ANSWERS[handler](self.room, account, body)

    def list_answers(self) -> dict[str, Answer]:
        """Returns the function that answers each message of this room, by name."""
        return {name: partial(self.answer, name) for name in BODY_BYTES}

    def close(self) -> None:
        """Ends the processes that compute replays."""
        self.room.close()

    def may_read(self, account: str, kind: BlobKind, root: bytes) -> bool:
        """Does what `may_read` above says."""
        return may_read(self.room, account, kind, root)

    @property
    def known(self) -> KnownAudits:
        """Returns the records of the rounds' audits, as the chain has them now."""
        game = None
        with suppress(GateShut):
            game = self.room.get_game()
        return KnownAudits(self.room.book, game)
