"""After the seal: hand it in, fetch the end, and find what the claim is."""

import asyncio
from functools import partial

from protocol.actions.audit.asking import ask_until
from protocol.actions.audit.judging import Finding, is_start_right, judge_ends, judge_work
from protocol.actions.audit.messages import SEAL, EndShown, SealHanded, make_form, say_sealed
from protocol.actions.audit.openings import read_boundary, read_work
from protocol.actions.audit.records import EndsShown, SealMade
from protocol.actions.audit.room import AuditRoom
from protocol.adapters.blobs import refer_delta, refer_tensor
from protocol.spec.claim_tree import compute_carried_root
from protocol.spec.codec import compute_outer_root
from protocol.spec.containers import OuterHeader, StateHeader
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.game.auditing import DrawnAudit, find_last_merged
from protocol.spec.params import ZERO_WORD
from protocol.spec.statements import VoteWord

END_FORM = make_form(EndShown)


async def fetch_openings(room: AuditRoom, drawn: DrawnAudit, made: SealMade, until: int) -> EndsShown:
    """Hands in the seal and gets the openings of the end for it. Raises NotServed."""
    return await ask_until(room, partial(_ask_ends, room, drawn, made), until, "the end of the segment")


async def _ask_ends(room: AuditRoom, drawn: DrawnAudit, made: SealMade) -> EndsShown:
    """The openings of the end. The seal is in the journal by now, and the same whenever it is sent."""
    handed = SealHanded(say_sealed(made.sealed), room.sign(made.sealed))
    shown = await room.client.ask(room.find_peer(drawn.solver), SEAL, handed, END_FORM)
    end = read_boundary(drawn, drawn.segment + 1, shown.end)
    last = read_boundary(drawn, drawn.segments, shown.last)
    return EndsShown(end, last, read_work(drawn, shown.work))


async def judge(room: AuditRoom, drawn: DrawnAudit, made: SealMade, ends: EndsShown, until: int) -> Finding:
    """What the claim is, from everything at hand. Raises NotServed, and EnvironmentFault for what no solver
    owes."""
    base = await _load_base(room, drawn)
    carried = await _find_carried(room, drawn)
    if not is_start_right(room.about, made, base.weights_root, carried):
        return Finding(VoteWord.REJECT_START)
    await ask_until(room, partial(_fetch_ends, room, drawn, made, ends), until, "the end state")
    place, is_exact = (drawn.place.round, drawn.segment), room.get_game().terms.is_exact
    pair = (made.own_end, ends.end.header)
    found = await asyncio.to_thread(
        judge_ends, room.about, room.states, place, *pair, is_exact=is_exact
    ) or await asyncio.to_thread(judge_work, room.states, base.weights_root, ends)
    return found or Finding(VoteWord.ACCEPT)


async def _fetch_ends(room: AuditRoom, drawn: DrawnAudit, made: SealMade, ends: EndsShown) -> None:
    """Have the end state, the final weights and the pseudo-gradient in the store. Raises ProtocolFault or
    EnvironmentFault; then the seal was handed in again: a solver that was restarted has forgotten to whom it
    shows what."""
    peers, count = [room.find_peer(drawn.solver)], room.about.parameter_count
    try:
        if ends.end.header != made.own_end:
            await room.states.fetch(room.client, peers, ends.end.header)
        await room.client.fetch_from_any(peers, refer_tensor(ends.last.header.weights_root, count))
        await room.client.fetch_from_any(peers, refer_delta(ends.work.delta_root, count))
    except EnvironmentFault:
        await _ask_ends(room, drawn, made)
        raise


async def _load_base(room: AuditRoom, drawn: DrawnAudit) -> OuterHeader:
    """What the round started from, in the store. Raises EnvironmentFault: no solver owes it."""
    base = await room.models.load_base(drawn.place.base_root)
    if compute_outer_root(base) != drawn.place.base_root:
        raise ProtocolFault(
            what="another model than the round started from",
            expected=drawn.place.base_root.hex(),
            actual=compute_outer_root(base).hex(),
            remedy="Fetch the model of the round before again.",
        )
    return base


async def _find_carried(room: AuditRoom, drawn: DrawnAudit) -> bytes | None:
    """The carried root that boundary 0 must have; None where the round that says so is forgotten."""
    zero = room.about.zero_root
    nothing = compute_carried_root(StateHeader(ZERO_WORD, zero, zero, 0, 0))
    if not room.about.carry_moments:
        return nothing
    try:
        before = find_last_merged(room.get_game(), drawn.place)
    except KeyError:
        return None
    return nothing if before is None else await room.models.find_carried(*before)
