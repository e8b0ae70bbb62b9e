"""From a suspicion to a dispute: find false statements, judge the claimant's steps, open it once.

A suspicion is a statement beyond the limits of what this node itself found. It is a claim, a vote that
stands by such a claim, or a vote that rejects what this node stands by. A suspicion convicts no seat: over a
segment two honest machines may part by a million limits. So the claimant's steps are judged one by one
before a dispute is opened.

    own replay beyond the limits -> the claimant's steps -> all inside: dropped, it may be drift
                                         |               -> one beyond: a case
                                         '-> not shown in time: a case

A case is in the journal before its dispute is opened.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.defending.step_serving import start_waiting
from touchstone.node.kit.party import Party, fund_bonds
from touchstone.node.kit.view import View
from touchstone.node.models.claim_openings import list_own_boundaries
from touchstone.node.records.dispute_records import (
    CLAIM,
    NO_STEP,
    CaseDropped,
    CaseMade,
    KnownVote,
    Sentence,
    list_fields,
    name_vote,
    to_sentence,
)
from touchstone.protocol.compute.audit.compare import Verdict
from touchstone.protocol.spec.codec import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.disputes import count_open_disputes
from touchstone.protocol.spec.game.fates import find_seat
from touchstone.protocol.spec.game.inner_dispute import InnerDispute, is_pursued
from touchstone.protocol.spec.game.state import SeatRole, StatementRef
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.game.timing import get_statement_until
from touchstone.protocol.spec.statements import VoteWord
from touchstone.whistleblower.known_statements import (
    are_steps_shown,
    find_accused,
    find_solver,
    find_vote,
    get_inner,
    get_now,
    is_counted,
    is_disputable,
    is_withheld,
    list_provable_rounds,
    sign_form,
)
from touchstone.whistleblower.step_judging import Claimed, ask_headers, find_false_step, judge_steps


@dataclass(frozen=True)
class Suspicion:
    """A statement that may be false. ends: roots of the segment's first and last state as the statement has
    them; empty where this node does not know them: then the vote's hashes bind what is shown. denied: the
    claim's end, of which the statement says that it is another one than its own; empty where it does not."""

    sentence: Sentence
    ends: tuple[bytes, bytes]
    denied: bytes = b""


def list_suspicions(view: View, index: int) -> Iterator[Suspicion]:
    """What this node's own replays and claim of a round show to be false or drifted."""
    votes = list(view.audits.list_votes(index))
    for replay in view.audits.list_replays(index):
        if replay.claimed_end is None:
            continue
        start, end = (compute_state_root(one.header) for one in (replay.start, replay.claimed_end))
        here = [
            one for one in votes if (one.vote.slot, one.vote.segment) == (replay.ref.slot, replay.segment)
        ]
        if replay.beyond_leaf is not None:
            ref = StatementRef(index, replay.ref.slot)
            yield Suspicion(Sentence(ref, replay.segment), (start, end))
            yield from _list_followers(view, here, start, end)
        else:
            yield from _list_slanders(view, here, start, end, compute_state_root(replay.own_end))
    yield from _list_own_slanders(view, index, votes)
    yield from _list_supporters(view, index, votes)


def _list_supporters(view: View, index: int, votes: list[KnownVote]) -> Iterator[Suspicion]:
    """Votes that stand by a claim which was convicted, for whistleblowers. An auditor may have accepted a
    right segment of a false claim: its own steps tell."""
    seat = find_seat(get_now(view), view.account)
    if seat is None or seat.role != SeatRole.WHISTLEBLOWER:
        return
    claims = get_now(view).rounds[index].claims
    for known in votes:
        claim = claims.get(known.vote.slot)
        is_fallen = claim is not None and claim.is_convicted and known.vote.word == VoteWord.ACCEPT
        if is_fallen and (known.opening is not None or is_counted(get_now(view), known)):
            yield Suspicion(name_vote(known), (b"", _get_own_end(known)))


def _list_followers(view: View, votes: list[KnownVote], start: bytes, end: bytes) -> Iterator[Suspicion]:
    """Votes whose own replay came to the very end that is suspected. In an exact task each ACCEPT says so,
    also one that is never opened: its signer may have the right end, and no ask shows that."""
    for known in votes:
        is_accept = view.game.terms.is_exact and known.vote.word == VoteWord.ACCEPT
        is_hidden = is_accept and known.opening is None and is_counted(get_now(view), known)
        if is_hidden or _get_own_end(known) == end:
            yield Suspicion(name_vote(known), (start, end))


def _list_slanders(
    view: View, votes: list[KnownVote], start: bytes, end: bytes, own: bytes
) -> Iterator[Suspicion]:
    """Rejections by a replay that came to another end than those that this node stands by (of the claim, its
    own), or whose end is withheld: an ask shows one leaf of it, and a liar seals an end that is false there
    alone. In an exact task there are no asks, and the withheld end may be the claim's."""
    for known in votes:
        is_told = known.opening is not None or is_withheld(view, known)
        if known.vote.word == VoteWord.REJECT_STATE and is_told and _get_own_end(known) not in (end, own):
            denied = end if view.game.terms.is_exact else b""
            yield Suspicion(name_vote(known), (start, _get_own_end(known)), denied)


def _get_own_end(known: KnownVote) -> bytes:
    """Empty where the vote is not opened."""
    return b"" if known.opening is None else known.opening.own_end_root


def _list_own_slanders(view: View, index: int, votes: list[KnownVote]) -> Iterator[Suspicion]:
    boundaries = list_own_boundaries(view, index)
    for known in votes:
        segment, solver = known.vote.segment, find_solver(get_now(view), index, known.vote.slot)
        if solver == view.account and segment + 1 < len(boundaries):
            start, end = (compute_state_root(boundaries[segment + at]) for at in (0, 1))
            yield from _list_slanders(view, [known], start, end, end)


ASKED_SHARE = 6
"""A claimant has `audit_max` divided by this to show its steps, besides the time to compute them."""
OPENING_BLOCKS = 12
"""Kept for an opening of one's own after the end of another's dispute."""


# --- Judging ------------------------------------------------------------------------------------------------
def is_open(view: View, sentence: Sentence, block: int) -> bool:
    """Whether a statement can be disputed in `block`, and its claimant owes a look at its steps."""
    known = find_vote(view, sentence)
    if sentence.signature and known is None:
        return False
    accused = find_accused(get_now(view), sentence.ref, known)
    return is_disputable(get_now(view), sentence.ref, accused, view.account, block)


def list_unjudged(view: View, block: int) -> Iterator[Suspicion]:
    """Suspicions about which nothing is decided yet."""
    book = view.cases
    for game_round in list_provable_rounds(get_now(view), block):
        for found in list_suspicions(view, game_round.index):
            ref, segment = found.sentence.ref, found.sentence.segment
            is_new = found.sentence not in book.cases and found.sentence not in book.dropped
            are_shown = are_steps_shown(get_now(view), game_round, ref.slot, segment, block)
            if is_new and are_shown and is_open(view, found.sentence, block):
                yield found


async def judge_case(party: Party, found: Suspicion) -> None:
    """Judge the claimant's steps one by one; write down a case, or that there is none. Raises ProtocolFault
    or EnvironmentFault while they are not shown and there is time."""
    book, sentence = party.task.cases, found.sentence
    since = book.first_seen.setdefault(sentence, party.state.head_block)
    until = since + compute_patience(party.game.terms) + 1
    try:
        step, around = await _find_false_step(party, found, start_waiting(party.view, until))
    except (ProtocolFault, EnvironmentFault):
        if party.state.head_block < until:
            raise
        step, around = NO_STEP, (b"", b"")
    name, fields = format_place(sentence), list_fields(sentence)
    if step is None:
        party.say(f"{name}: each step lies inside the limits, so its end may be drift: not disputed")
        book.write(CaseDropped(party.task.task, *fields))
        return
    said = "its steps are not shown" if step == NO_STEP else f"step {step} lies beyond the limits"
    party.say(f"{name}: {said}: to be disputed")
    book.write(CaseMade(party.task.task, *fields, step, *around, secrets.token_bytes(32)))


def compute_patience(terms: GameTerms) -> int:
    """Blocks in which a claimant shows its steps before it is disputed unseen: the slowest machine that the
    task admits trains the segment again meanwhile, beside another one of its own claim."""
    segment_blocks = -(-terms.windows.train_min // terms.segment_count)
    return terms.windows.audit_max // ASKED_SHARE + 2 * segment_blocks


async def _find_false_step(
    party: Party, found: Suspicion, until: int
) -> tuple[int | None, tuple[bytes, bytes]]:
    """The step, None where all lie inside, and the roots of the states around it. until: as of `Claimed`."""
    ref = found.sentence.ref
    vote = find_vote(party.view, found.sentence)
    accused = find_accused(get_now(party.view), ref, vote)
    assert accused is not None
    peer = party.state.network.find(accused.account)
    claimed = Claimed(peer, ref.round, ref.slot, found.sentence.segment, until)
    steps = party.task.spec.terms.segment_steps
    known = {step: root for step, root in zip((0, steps), found.ends, strict=True) if root}
    headers = await ask_headers(party, claimed, known, None if all(found.ends) else vote)
    _require_other(claimed, found, compute_state_root(headers[-1]))
    verdicts: list[Verdict] = []
    await judge_steps(party, claimed, headers, verdicts)
    step = find_false_step(verdicts)
    if step is None:
        return None, (b"", b"")
    return step, (compute_state_root(headers[step]), compute_state_root(headers[step + 1]))


def _require_other(claimed: Claimed, found: Suspicion, end: bytes) -> None:
    """Raises ProtocolFault where a vote rejects the very end that its steps come to."""
    if end == found.denied:
        raise ProtocolFault(
            what="the steps of a rejection end where the claim does",
            expected="another state",
            actual=end.hex(),
            culprit=claimed.peer.account,
            remedy="Dispute the vote: on chain its signer can post no such roots.",
        )


# --- Opening ------------------------------------------------------------------------------------------------
def list_unopened(view: View, block: int) -> Iterator[CaseMade]:
    """Cases that nothing pursues as this node itself would."""
    for sentence, case in view.cases.cases.items():
        if sentence.ref.round in get_now(view).rounds and is_open(view, sentence, block):
            known = list_disputes_on(view, sentence)
            is_own = any(one.opener == view.account for one in known)
            if not is_own and not any(_is_pursued(view, case, one) for one in known):
                yield case


def list_disputes_on(view: View, sentence: Sentence) -> list[InnerDispute]:
    """All disputes that were opened on a statement and a segment of it."""
    book, place = get_inner(view), (sentence.ref, sentence.segment)
    return [one for one in book.disputes.values() if (one.statement, one.segment) == place]


def _is_pursued(view: View, case: CaseMade, dispute: InnerDispute) -> bool:
    until = get_statement_until(get_now(view), dispute.statement)
    step = None if case.step == NO_STEP else case.step
    return is_pursued(dispute, step, until, OPENING_BLOCKS, view.game.terms.windows.respond)


async def open_case(party: Party, case: CaseMade) -> None:
    """Open the dispute; the k-th open one on a seat costs k bonds."""
    known = find_vote(party.view, to_sentence(case))
    draw = None if case.draw == CLAIM else case.draw
    accused = find_accused(get_now(party.view), StatementRef(case.round, case.slot, draw, case.rank), known)
    assert accused is not None
    async with party.task.locks["credit", None]:
        count = count_open_disputes(get_now(party.view), accused.number)
        limit_wei = await fund_bonds(party, count, party.game.terms.amounts.dispute_bond)
        await _send(party, case, known, limit_wei)


async def _send(party: Party, case: CaseMade, known: KnownVote | None, limit_wei: int) -> None:
    disputes, task = party.chain.disputes, party.task.task
    if known is None:
        place = (case.round, case.slot, case.segment)
        await disputes.dispute_claim(task, *place, limit_wei, case.salt)
    else:
        await disputes.dispute_vote(task, sign_form(known.vote, known.signature), limit_wei, case.salt)


def format_place(sentence: Sentence) -> str:
    """For people: which segment of whom."""
    ref = sentence.ref
    who = "the claim" if ref.draw is None else f"the vote of rank {ref.rank} on draw {ref.draw}"
    return f"round {ref.round} slot {ref.slot} segment {sentence.segment}, {who}"
