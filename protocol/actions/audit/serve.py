"""A solver's part of an audit: it shows the start to the drawn auditors, and the end to who has sealed.

What it shows to whom is kept in memory. After a restart an auditor asks again, with the same seal, and is
shown the same. Another auditor's seal opens nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocol.actions.audit.messages import (
    EndShown,
    PlaceSaid,
    SealHanded,
    StartAsked,
    StartShown,
    WorkSaid,
    make_form,
    read_sealed,
    say_boundary,
)
from protocol.actions.audit.openings import compute_leaf
from protocol.actions.audit.records import SealTaken
from protocol.actions.audit.room import AuditRoom, WorkOpening
from protocol.adapters.blobs import BlobKind
from protocol.adapters.chain.types import BoundaryProof
from protocol.spec.containers import StateHeader
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.game.auditing import AuditPlace, DrawnAudit, find_drawn, get_heard_until
from protocol.spec.params import ZERO_WORD
from protocol.spec.statements import Sealed

START_FORM, SEAL_FORM = make_form(StartAsked), make_form(SealHanded)
KEPT_ROUNDS = 16
"""Rounds of which it is remembered what was shown to whom."""


async def show_start(room: AuditRoom, account: str, body: bytes) -> StartShown:
    """Boundary 0 and the start of the segment, to an auditor that is drawn for it; from now on it may fetch
    the start state. Raises ProtocolFault or EnvironmentFault."""
    drawn = _require_drawn(room, account, START_FORM.decode(body, account).place)
    async with _only_once(room, drawn.place):
        first, start = await asyncio.to_thread(_open_start, room, drawn)
    _grant(room, drawn, *_list_roots(start.header))
    return StartShown(say_boundary(first), say_boundary(start))


async def take_seal(room: AuditRoom, account: str, body: bytes) -> EndShown:
    """The end of the segment, the last boundary and the work leaf, to an auditor that has sealed. Its seal is
    in the journal before. Raises ProtocolFault or EnvironmentFault."""
    handed = SEAL_FORM.decode(body, account)
    drawn, sealed = _require_drawn(room, account, handed.sealed), read_sealed(handed.sealed)
    async with _only_once(room, drawn.place):
        await asyncio.to_thread(_require_start_leaf, room, drawn, sealed, account)
        _keep_seal(room, drawn, SealTaken(room.about.task, sealed, handed.signature))
        end, last, work = await asyncio.to_thread(_open_ends, room, drawn)
    _grant(room, drawn, *_list_roots(end.header), last.header.weights_root)
    shown = WorkSaid(work.delta_root, work.carried_root, tuple(work.path))
    return EndShown(say_boundary(end), say_boundary(last), shown)


def may_read(room: AuditRoom, account: str, kind: BlobKind, root: bytes) -> bool:
    """Whether a tensor was shown to this account in an audit."""
    return kind is BlobKind.TENSOR and any((account, root) in shown for shown in room.grants.values())


# --- Who may ask --------------------------------------------------------------------------------------------
def _require_drawn(room: AuditRoom, account: str, said: PlaceSaid) -> DrawnAudit:
    """The audit of an own claim that the chain drew this account for, while anybody needs it."""
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
    """Journals a seal once. Raises ProtocolFault for one that its auditor did not sign, or that is not the
    first of its place: the second is kept as well, as evidence."""
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


# --- What is shown ------------------------------------------------------------------------------------------
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


def _list_roots(header: StateHeader) -> tuple[bytes, bytes, bytes]:
    return header.weights_root, header.first_moment_root, header.second_moment_root


@asynccontextmanager
async def _only_once(room: AuditRoom, place: AuditPlace) -> AsyncIterator[None]:
    """One exchange at a time for each auditor and draw."""
    if room.locks[place].locked():
        raise _not_served("one request at a time of an audit", "another is being answered")
    async with room.locks[place]:
        yield


def _not_served(expected: str, actual: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="an audit is not served to you now",
        expected=expected,
        actual=actual,
        remedy="Ask again once both have read the chain as far; ask as the drawn seat.",
    )
