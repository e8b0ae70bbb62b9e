"""Plays how honest parties act against false statements: queries, disputes, proofs, contests, answers."""

from collections.abc import Iterator
from dataclasses import replace

from lab.benchmarks.economy.play import Play
from lab.benchmarks.economy.strategy import PROOFS, Audit
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.claim_status import get_claim_status
from touchstone.protocol.spec.game.enums import (
    ClaimStatus,
    ContestTurn,
    GameOutcome,
    ProofKind,
    RoundPhase,
    SeatRole,
    SeatStatus,
)
from touchstone.protocol.spec.game.open_questions import count_open_disputes, count_open_queries
from touchstone.protocol.spec.game.queries import QUERIED_WORDS
from touchstone.protocol.spec.game.state import RunningDispute, StatementRef
from touchstone.protocol.spec.statements import VoteWord

Sends = Iterator[tuple[str, GameCall]]
AUDITORS = (SeatRole.VERIFIER, SeatRole.WHISTLEBLOWER)


def list_duties(play: Play) -> Sends:
    """Yields all these calls."""
    for kind in (_list_accusations, _list_verdicts, _list_asks, _list_answers, _list_contests):
        yield from kind(play)


# False claims
def _list_accusations(play: Play) -> Sends:
    """Yields a dispute of each known false claim, or a proof if one call is enough."""
    for ref, seer in play.seen.items():
        claim, game_round = play.get_claim(ref), play.table.state.rounds[ref.round]
        seat = play.get_seat(claim.owner)
        status = get_claim_status(play.now, game_round, ref.slot, play.block)
        is_decided = status in (ClaimStatus.ACCEPTED, ClaimStatus.VOID)
        if seat is None or seat.status == SeatStatus.CONVICTED or seat.settled > ref.round or not is_decided:
            continue
        if ref in play.given_up:
            continue
        if claim.fault in PROOFS:
            yield from prove(play, seer, ref, PROOFS[claim.fault])
        elif not any(one.statement == ref and _is_pursued(play, one) for one in play.now.disputes.values()):
            play.given_up |= {ref} if claim.is_untraced else set()
            yield seer, make_dispute(play, ref, seat.number)


def _is_pursued(play: Play, dispute: RunningDispute) -> bool:
    """Returns whether a dispute already pursues the claim; a dishonest opener's does not count (H1)."""
    return play.is_honest(play.name_of(dispute.opener))


def make_dispute(play: Play, ref: StatementRef, seat: int) -> calls.DisputeStatement:
    """Returns a dispute with the bond that it costs now."""
    count = 1 + count_open_disputes(play.table.state, seat)
    return calls.DisputeStatement(ref, count * play.table.state.terms.amounts.dispute_bond)


def prove(play: Play, name: str, ref: StatementRef, kind: ProofKind) -> Sends:
    """Commits to a proof, and sends it in a later block."""
    digest = play.table.make_digest(name, ref, kind)
    sealed = play.table.state.seals.get((play.table.get_address(name), digest))
    if sealed is None:
        yield name, calls.CommitProof(digest)
    elif sealed < play.block:
        yield name, calls.ConvictSeat(ref, kind, digest)


def _list_verdicts(play: Play) -> Sends:
    """Yields the ends of honest disputes of false claims, in the last block of the clock; the claimant has no
    defence."""
    for number, dispute in play.table.state.disputes.items():
        opener = play.name_of(dispute.opener)
        is_due = dispute.clock - 8 <= play.block <= dispute.clock and play.is_honest(opener)
        is_due = is_due and play.is_up(opener)
        if is_due and is_dispute_right(play, dispute.statement):
            yield opener, calls.EndDispute(number, outcome=GameOutcome.CONVICTED)


def is_dispute_right(play: Play, ref: StatementRef) -> bool:
    """Returns whether a dispute would convict: the claim has false steps that can be found, or its owner does
    not defend itself."""
    claim = play.get_claim(ref)
    is_silent = not play.get_strategy(claim.owner).is_answering(play, claim.owner)
    return (bool(claim.spoiled) and not claim.is_untraced) or is_silent


# False votes
def _list_asks(play: Play) -> Sends:
    """Yields a query for each vote that an honest party knows to be false."""
    for ref in play.lies:
        audit, word = play.get_audit(ref), play.words[ref]
        assert audit is not None and word is not None
        knower = _find_knower(play, audit, word)
        seat = play.get_seat(audit.auditor)
        if knower is None or seat is None or seat.status == SeatStatus.CONVICTED or seat.settled > ref.round:
            continue
        if word in QUERIED_WORDS:
            if not any(one.statement == ref for one in play.table.state.queries.values()):
                yield knower, make_ask(play, ref, word, seat.number)
        else:
            yield from prove(play, knower, ref, ProofKind.FALSE_WORD)


def make_ask(play: Play, ref: StatementRef, word: VoteWord, seat: int) -> calls.QueryVote:
    """Returns a query with the bond that it costs now."""
    count = 1 + count_open_queries(play.table.state, seat)
    return calls.QueryVote(ref, word, 0, count * play.table.state.terms.amounts.query_bond)


def _find_knower(play: Play, audit: Audit, word: VoteWord) -> str | None:
    """Returns an honest party whose replay or claim contradicts a vote, or None."""
    claim, truth = play.get_claim(audit.ref), play.find_truth(audit)
    if word == truth or audit.segment in claim.drifted or play.is_honest(audit.auditor):
        return None
    if word != VoteWord.ACCEPT and not claim.is_false and play.is_honest(claim.owner):
        return claim.owner if play.is_up(claim.owner) else None
    for rank in range(RANKS):
        other = play.get_audit(replace(audit.ref, rank=rank))
        is_known = other is not None and play.words.get(other.ref) == truth
        if other is not None and is_known and play.is_honest(other.auditor):
            return other.auditor
    return None


# Answers
def _list_answers(play: Play) -> Sends:
    """Yields answers to queries. A signer answers if its vote was right, else it stays silent."""
    _note_steps(play)
    for number, query in play.table.state.queries.items():
        name, audit = play.get_name(query.seat), play.get_audit(query.statement)
        is_true = audit is not None and play.find_truth(audit) == query.word and _has_replayed(play, audit)
        is_open = (
            play.table.state.seats[query.seat].status != SeatStatus.CONVICTED and play.block <= query.clock
        )
        if is_true and is_open and play.is_up(name) and play.get_strategy(name).is_answering(play, name):
            yield name, calls.AnswerQuery(number, exceeds_limits=query.word != VoteWord.ACCEPT)


def _note_steps(play: Play) -> None:
    """Notes that a disputed claimant shows its step roots once, right or invented ones."""
    for number, dispute in play.table.state.disputes.items():
        name, is_claim = play.get_name(dispute.seat), dispute.statement.draw is None
        strategy = play.get_strategy(name)
        is_false = is_claim and bool(play.get_claim(dispute.statement).spoiled)
        is_shown = strategy.is_stepping(play, name) if is_false else strategy.is_answering(play, name)
        if is_shown and number not in play.shown:
            play.shown.add(number)
            play.note(name, "shows step roots", number, is_false)


def _has_replayed(play: Play, audit: Audit) -> bool:
    return play.get_strategy(audit.auditor).has_replayed(play, audit)


# Contests
def _list_contests(play: Play) -> Sends:
    """Yields moves in contests: honest whistleblowers contest wrong roots, honest solvers defend right
    ones."""
    state, watchers = play.table.state, play.list_honest(*AUDITORS[::-1])
    for game_round in state.rounds.values():
        is_there = any(one.round == game_round.index for one in state.contests.values())
        is_open = game_round.phase == RoundPhase.POSTED and play.block <= game_round.root_until
        if game_round.root in play.wrong and is_open and not is_there and watchers:
            bond = state.terms.amounts.contest_bond * (1 + len(state.contests))
            yield watchers[0], calls.OpenContest(game_round.index, bond)
    for number, contest in state.contests.items():
        solvers, is_right = play.list_honest(SeatRole.SOLVER), contest.root not in play.wrong
        if not solvers or not is_right or play.block > contest.clock:
            continue
        if contest.turn == ContestTurn.ANSWER:
            yield solvers[0], calls.AnswerContest(number)
        elif contest.turn == ContestTurn.LEAF:
            yield solvers[0], calls.BringLeaf(number)
