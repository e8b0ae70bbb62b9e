"""An auditor's part of an audit: replay, seal, fetch the end, compare, vote.

    journal  SealMade before the seal is sent      VoteMade before the vote is
    killed   before SealMade: it begins anew       after: the same seal      after VoteMade: the same vote

The verdict (`judging.py`) rests on everything that was fetched: first a wrong start, then the state, then the
work leaf. If the solver does not serve in time, the auditor votes UNSERVED, or ABSTAIN if fees could cost it
too much (`may_vote_unserved`). After any failure that is not the solver's it votes ABSTAIN, and also if
nobody else answers it either (`own_network`).

A start with wrong step counters counts as unserved, because no auditor can replay it as this segment. From
every other start, training reaches an end state, because all results of a program are finite
(`program_rules.py`). If only an UNSERVED still counts, an auditor that was served sends no vote.
"""

import asyncio
from functools import partial

from touchstone.node.records.audit_records import EndsShown, SealMade, VoteMade, make_sealed
from touchstone.node.serving.audit_messages import (
    SEAL,
    EndShown,
    SealHanded,
    compute_leaf,
    format_sealed,
    make_form,
    read_boundary,
    read_work,
)
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.store.blobs import refer_delta, refer_tensor
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedEnd
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.game.audit_deadlines import compute_ends_until, compute_serving_until
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit, find_drawn
from touchstone.protocol.spec.game.unserved_votes import may_vote_unserved
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import COMPARED, Vote, VoteWord
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.verifier.judging import Finding, find_carried, is_start_right, judge_ends, judge_work
from touchstone.verifier.own_network import ReachesNobody
from touchstone.verifier.sealing import NotServed, ask_until, hold, make_seal

END_FORM = make_form(EndShown)


async def fetch_openings(room: AuditRoom, drawn: DrawnAudit, made: SealMade, until: int) -> EndsShown:
    """Hands in the seal and returns the openings of the end, which the solver shows in exchange. Raises
    NotServed."""
    handed = await sign_seal(room, made)
    ask = partial(_ask_ends, room, drawn, handed)
    return await ask_until(room, drawn.solver, ask, until, "the end of the segment")


async def sign_seal(room: AuditRoom, made: SealMade) -> SealHanded:
    """Returns the signed seal that is handed in for an end. It is signed before the solver's time starts to
    run, so that a refusal of this node's own signer cannot count against the solver. Raises GateShut."""
    return SealHanded(format_sealed(made.sealed), await room.sign(made.sealed))


async def _ask_ends(room: AuditRoom, drawn: DrawnAudit, handed: SealHanded) -> EndsShown:
    """Returns the openings of the end. The seal is already in the journal, so each attempt sends the same
    one."""
    shown = await room.client.ask(room.find_peer(drawn.solver), SEAL, handed, END_FORM)
    end = read_boundary(drawn, drawn.segment + 1, shown.end)
    last = read_boundary(drawn, drawn.segments, shown.last)
    return EndsShown(end, last, read_work(drawn, shown.work))


async def judge(room: AuditRoom, drawn: DrawnAudit, made: SealMade, ends: EndsShown, until: int) -> Finding:
    """Returns the finding on a claim: start, then state, then work leaf. Raises NotServed, or
    EnvironmentFault for a failure that is not the solver's."""
    base = await _load_base(room, drawn)
    carried = await find_carried(room.about, room.get_game(), drawn.place, room.models.find_carried)
    index, first = drawn.place.round, made.first.header
    if not is_start_right(room.about, index, first, base.weights_root, carried):
        return Finding(VoteWord.REJECT_START)
    handed = await sign_seal(room, made)
    fetch = partial(_fetch_ends, room, drawn, made, ends, handed)
    await ask_until(room, drawn.solver, fetch, until, "the end state")
    rate_sum = room.about.get_rate_sum(drawn.place.round, drawn.segment)
    end = ClaimedEnd(ends.end.header, made.own_end, room.states.open, rate_sum)
    found = await asyncio.to_thread(judge_ends, room.about, end)
    found = found or await asyncio.to_thread(judge_work, room.states, base.weights_root, ends)
    return found or Finding(VoteWord.ACCEPT)


async def _fetch_ends(
    room: AuditRoom, drawn: DrawnAudit, made: SealMade, ends: EndsShown, handed: SealHanded
) -> None:
    """Fetches the end state, the final weights and the pseudo-gradient into the store. In an exact task the
    root of the end is enough. Raises ProtocolFault or EnvironmentFault. Before it raises EnvironmentFault, it
    hands in the seal again, because a restarted solver has forgotten which auditors it serves."""
    peers, count = [room.find_peer(drawn.solver)], room.about.parameter_count
    hold(room, drawn, ends.end.header, ends.last.header)
    try:
        if ends.end.header != made.own_end and room.about.tolerance.reads_states:
            await room.states.fetch(room.client, peers, ends.end.header)
        await room.client.fetch_from_any(peers, refer_tensor(ends.last.header.weights_root, count))
        await room.client.fetch_from_any(peers, refer_delta(ends.work.delta_root, count))
    except EnvironmentFault:
        await _ask_ends(room, drawn, handed)
        raise


async def _load_base(room: AuditRoom, drawn: DrawnAudit) -> OuterHeader:
    """Returns the model that the round started from, and puts it into the store. Raises EnvironmentFault if
    nobody serves it; the solver is not to blame for that."""
    base = await room.models.load_base(drawn.place.base_root)
    if compute_outer_root(base) != drawn.place.base_root:
        raise ProtocolFault(
            what="the fetched model is not the one that the round started from",
            expected=drawn.place.base_root.hex(),
            actual=compute_outer_root(base).hex(),
            remedy="Fetch the model of the previous round again.",
        )
    return base


async def audit(room: AuditRoom, drawn: DrawnAudit) -> Vote | None:
    """Audits a segment, once, and returns the vote, which is in the journal then. Returns None if a vote
    would no longer count. Raises EnvironmentFault after a failure that is not the solver's, while there is
    time to try again."""
    async with room.locks[drawn.place]:
        if drawn.place in room.book.votes:
            return room.book.votes[drawn.place].vote
        since = room.tried_since.setdefault(drawn.place, room.block)
        try:
            made = room.book.seals.get(drawn.place)
            if made is None:
                until = compute_serving_until(room.get_game(), drawn.place, room.block)
                made = await make_seal(room, drawn, until)
                if made is None:
                    return None
                # The time for the end starts after the seal, because the replay may have taken long.
                since = room.tried_since[drawn.place] = room.block
            return await _compare(room, drawn, made)
        except GateShut:
            raise
        except NotServed as fault:
            return await _vote(room, drawn, Finding(_choose_unserved(room, drawn)), None, str(fault))
        except (EnvironmentFault, InvalidInput, ProtocolFault) as fault:
            # Nothing to retry if nobody was reached: the solver's time is already over.
            if not isinstance(fault, ReachesNobody) and _may_try_again(room, drawn, since):
                raise
            return await _vote(room, drawn, Finding(VoteWord.ABSTAIN), None, str(fault))
        finally:
            room.book.held.pop(drawn.place, None)


def _may_try_again(room: AuditRoom, drawn: DrawnAudit, since: int) -> bool:
    """Returns whether an audit that failed on this machine is tried again. It is, for as long as a solver
    that was first asked in block `since` would have to answer. It always is if a reorg has removed the
    draw."""
    game = room.get_game()
    return find_drawn(game, drawn.place) is None or room.block <= compute_ends_until(game, drawn.place, since)


def _choose_unserved(room: AuditRoom, drawn: DrawnAudit) -> VoteWord:
    place, game = drawn.place, room.get_game()
    at, signed = (place.round, place.slot, place.draw), room.book.list_unserved()
    may_say = may_vote_unserved(game, drawn.seat.number, at, room.block, signed)
    return VoteWord.UNSERVED if may_say else VoteWord.ABSTAIN


async def _compare(room: AuditRoom, drawn: DrawnAudit, made: SealMade) -> Vote:
    """Hands in the seal, fetches the end, compares and returns the vote."""
    until = compute_ends_until(room.get_game(), drawn.place, room.block)
    ends = await fetch_openings(room, drawn, made, until)
    try:
        finding = await judge(room, drawn, made, ends, until)
    except NotServed as fault:
        return await _vote(room, drawn, Finding(_choose_unserved(room, drawn)), ends, str(fault))
    return await _vote(room, drawn, finding, ends)


async def _vote(
    room: AuditRoom, drawn: DrawnAudit, finding: Finding, ends: EndsShown | None, why: str = ""
) -> Vote:
    """Writes a vote into the journal and returns it. `why` goes into the message."""
    place, made = drawn.place, room.book.seals.get(drawn.place)
    empty = make_sealed(place, drawn.segment, ZERO_WORD, ZERO_WORD)
    sealed = empty if made is None else made.sealed
    leaf = ZERO_WORD if ends is None else compute_leaf(drawn, drawn.segment + 1, ends.end)
    vote = Vote(**vars(sealed), end_leaf=leaf, word=finding.word, named_leaf=finding.leaf)
    assert finding.word not in COMPARED or (made is not None and ends is not None)
    room.book.write(VoteMade(room.about.task, vote, await room.sign(vote), ends))
    where = f"round {place.round} slot {place.slot} draw {place.draw} segment {drawn.segment}"
    if finding.word is VoteWord.UNSERVED:
        fee = format_tokens(room.get_game().terms.amounts.unserved_fee)
        why += f" If a second auditor of the draw also says so, the solver and both auditors pay {fee} each."
    room.notify(f"{where}: {finding.word.name}" + (f", {why}" if why else ""))
    return vote
