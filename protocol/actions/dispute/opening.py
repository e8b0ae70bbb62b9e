"""From a suspicion to a dispute: the claimant's steps are judged first, then the dispute is opened once.

    own replay beyond the limits -> the claimant's steps -> all inside: dropped, it may be drift
                                         |               -> one beyond: a case
                                         '-> not shown in time: a case

A case is in the journal before it is opened.
"""

import secrets
from collections.abc import Iterator

from protocol.actions.dispute.casebook import Sentence, list_fields, to_sentence
from protocol.actions.dispute.judging import Claimed, ask_headers, find_false_step, judge_steps
from protocol.actions.dispute.knowing import find_vote, get_inner, get_now, sign_form
from protocol.actions.dispute.records import CLAIM, NO_STEP, CaseDropped, CaseMade
from protocol.actions.dispute.sources import KnownVote
from protocol.actions.dispute.standing import (
    are_steps_shown,
    find_accused,
    is_disputable,
    list_provable_rounds,
)
from protocol.actions.dispute.suspecting import Suspicion, list_suspicions
from protocol.actions.runtime.credit import fund_bonds
from protocol.actions.runtime.party import Party
from protocol.compute.compare import Verdict
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.game.inner_dispute import InnerDispute
from protocol.spec.game.inner_moves import is_pursued
from protocol.spec.game.state import StatementRef
from protocol.spec.game.statement_refs import count_open_disputes
from protocol.spec.game.timing import get_statement_until

ASKED_SHARE = 6
"""A claimant shows its steps within `audit_max` divided by this, or it is disputed unseen."""
OPENING_BLOCKS = 12
"""Kept for an opening of one's own after the end of another's dispute."""


# --- Judging ------------------------------------------------------------------------------------------------
def is_open(party: Party, sentence: Sentence, block: int) -> bool:
    """Whether a statement can be disputed in `block`, and its claimant owes a look at its steps."""
    known = find_vote(party, sentence)
    if sentence.signature and known is None:
        return False
    accused = find_accused(get_now(party), sentence.ref, known)
    return is_disputable(get_now(party), sentence.ref, accused, party.account, block)


def list_unjudged(party: Party, block: int) -> Iterator[Suspicion]:
    """Suspicions about which nothing is decided yet."""
    book = party.task.cases
    for game_round in list_provable_rounds(get_now(party), block):
        for found in list_suspicions(party, game_round.index):
            ref, segment = found.sentence.ref, found.sentence.segment
            is_new = found.sentence not in book.cases and found.sentence not in book.dropped
            are_shown = are_steps_shown(get_now(party), game_round, ref.slot, segment, block)
            if is_new and are_shown and is_open(party, found.sentence, block):
                yield found


async def judge_case(party: Party, found: Suspicion) -> None:
    """Judge the claimant's steps one by one; write down a case, or that there is none. Raises ProtocolFault
    or EnvironmentFault while they are not shown and there is time."""
    book, sentence = party.task.cases, found.sentence
    since = book.first_seen.setdefault(sentence, party.state.head_block)
    try:
        step = await _find_false_step(party, found)
    except (ProtocolFault, EnvironmentFault):
        if party.state.head_block <= since + party.game.terms.windows.audit_max // ASKED_SHARE:
            raise
        step = NO_STEP
    name, fields = format_place(sentence), list_fields(sentence)
    if step is None:
        party.say(f"{name}: each step lies inside the limits, so its end may be drift: not disputed")
        book.write(CaseDropped(party.task.task, *fields))
        return
    said = "its steps are not shown" if step == NO_STEP else f"step {step} lies beyond the limits"
    party.say(f"{name}: {said}: to be disputed")
    book.write(CaseMade(party.task.task, *fields, step, secrets.token_bytes(32)))


async def _find_false_step(party: Party, found: Suspicion) -> int | None:
    ref = found.sentence.ref
    accused = find_accused(get_now(party), ref, find_vote(party, found.sentence))
    assert accused is not None
    peer = party.state.network.find(accused.account)
    claimed = Claimed(peer, ref.round, ref.slot, found.sentence.segment)
    steps = party.task.spec.terms.segment_steps
    known = {step: root for step, root in zip((0, steps), found.ends, strict=True) if root}
    headers = await ask_headers(party, claimed, known)
    verdicts: list[Verdict] = []
    await judge_steps(party, claimed, headers, verdicts)
    return find_false_step(verdicts)


# --- Opening ------------------------------------------------------------------------------------------------
def list_unopened(party: Party, block: int) -> Iterator[CaseMade]:
    """Cases that nothing pursues as this node itself would."""
    for sentence, case in party.task.cases.cases.items():
        if sentence.ref.round in get_now(party).rounds and is_open(party, sentence, block):
            known = list_disputes_on(party, sentence)
            is_own = any(one.opener == party.account for one in known)
            if not is_own and not any(_is_pursued(party, case, one) for one in known):
                yield case


def list_disputes_on(party: Party, sentence: Sentence) -> list[InnerDispute]:
    """All disputes that were opened on a statement and a segment of it."""
    book, place = get_inner(party), (sentence.ref, sentence.segment)
    return [one for one in book.disputes.values() if (one.statement, one.segment) == place]


def _is_pursued(party: Party, case: CaseMade, dispute: InnerDispute) -> bool:
    until = get_statement_until(get_now(party), dispute.statement)
    step = None if case.step == NO_STEP else case.step
    return is_pursued(dispute, step, until, OPENING_BLOCKS, party.game.terms.windows.respond)


async def open_case(party: Party, case: CaseMade) -> None:
    """Open the dispute; the k-th open one on a seat costs k bonds."""
    known = find_vote(party, to_sentence(case))
    draw = None if case.draw == CLAIM else case.draw
    accused = find_accused(get_now(party), StatementRef(case.round, case.slot, draw, case.rank), known)
    assert accused is not None
    async with party.task.locks["credit", None]:
        count = count_open_disputes(get_now(party), accused.number)
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
