"""An auditor's part of an audit: fetch the start, replay the segment, seal, fetch the end, compare, vote.

    journal  SealMade before the seal is sent      VoteMade before the vote is
    killed   before SealMade: it begins anew       after: the same seal      after VoteMade: the same vote

A word is chosen from everything at hand: a start that is wrong first, then the state, then the work leaf.
What is not served in time makes it UNSERVED, or ABSTAIN where the fee would be too much; what fails here,
ABSTAIN. A start with step numbers of another place is unserved: nobody can replay it as this segment. So is
one from which a step leaves the finite numbers: no training leads there, and where that cost nothing, claims
of such states alone would be a free try. So one step is taken also where nobody wants more than an UNSERVED.
"""

from protocol.actions.audit.asking import NotServed
from protocol.actions.audit.book import make_sealed
from protocol.actions.audit.comparing import fetch_openings, judge
from protocol.actions.audit.judging import Finding
from protocol.actions.audit.openings import compute_leaf
from protocol.actions.audit.records import EndsShown, SealMade, VoteMade
from protocol.actions.audit.room import AuditRoom
from protocol.actions.audit.sealing import Diverged, make_seal
from protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from protocol.spec.game.auditing import DrawnAudit, compute_ends_until, compute_serving_until
from protocol.spec.game.unserved import may_say_unserved
from protocol.spec.params import ZERO_WORD
from protocol.spec.statements import COMPARED, Vote, VoteWord


async def audit(room: AuditRoom, drawn: DrawnAudit) -> Vote | None:
    """The vote on an audit, in the journal; made once. None where nobody wants one any more. Raises
    EnvironmentFault for what fails here, as long as it can be tried again."""
    async with room.locks[drawn.place]:
        if drawn.place in room.book.votes:
            return room.book.votes[drawn.place].vote
        until = compute_serving_until(room.get_game(), drawn.place, room.block)
        try:
            made = room.book.seals.get(drawn.place) or await make_seal(room, drawn, until)
            if made is None:
                return None
            return await _compare(room, drawn, made)
        except (NotServed, Diverged) as fault:
            return _vote(room, drawn, Finding(_choose_unserved(room, drawn)), None, str(fault))
        except (EnvironmentFault, InvalidInput, ProtocolFault) as fault:
            if room.block <= until:
                raise
            return _vote(room, drawn, Finding(VoteWord.ABSTAIN), None, str(fault))


def _choose_unserved(room: AuditRoom, drawn: DrawnAudit) -> VoteWord:
    place, game = drawn.place, room.get_game()
    at, signed = (place.round, place.slot, place.draw), room.book.list_unserved()
    may_say = may_say_unserved(game, drawn.seat.number, at, room.block, signed)
    return VoteWord.UNSERVED if may_say else VoteWord.ABSTAIN


async def _compare(room: AuditRoom, drawn: DrawnAudit, made: SealMade) -> Vote:
    """Hands in the seal, fetches the end and says what was found."""
    until = compute_ends_until(room.get_game(), drawn.place, room.block)
    ends = await fetch_openings(room, drawn, made, until)
    try:
        finding = await judge(room, drawn, made, ends, until)
    except NotServed as fault:
        return _vote(room, drawn, Finding(_choose_unserved(room, drawn)), ends, str(fault))
    return _vote(room, drawn, finding, ends)


def _vote(
    room: AuditRoom, drawn: DrawnAudit, finding: Finding, ends: EndsShown | None, why: str = ""
) -> Vote:
    """Writes down a vote, on what was sealed."""
    place, made = drawn.place, room.book.seals.get(drawn.place)
    empty = make_sealed(place, drawn.segment, ZERO_WORD, ZERO_WORD)
    sealed = empty if made is None else made.sealed
    leaf = ZERO_WORD if ends is None else compute_leaf(drawn, drawn.segment + 1, ends.end)
    vote = Vote(**vars(sealed), end_leaf=leaf, word=finding.word, named_leaf=finding.leaf)
    assert finding.word not in COMPARED or (made is not None and ends is not None)
    room.book.write(VoteMade(room.about.task, vote, room.sign(vote), ends))
    where = f"round {place.round} slot {place.slot} draw {place.draw} segment {drawn.segment}"
    room.say(f"{where}: {finding.word.name}" + (f", {why}" if why else ""))
    return vote
