"""Finds wrong starts, pseudo-gradients and votes about them, as cases for one transaction."""

from collections.abc import Iterator

from touchstone.node.kit.party import Party
from touchstone.node.kit.view import View
from touchstone.node.models.own_openings import list_own_boundaries
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.spec.game.state import GameRound, StatementRef
from touchstone.protocol.spec.statements import COMPARED, VoteWord
from touchstone.whistleblower.evidence import Case
from touchstone.whistleblower.known_statements import find_accused, find_solver, get_now, is_provable
from touchstone.whistleblower.work_proofs import prove_claim, prove_vote, prove_wrong_start

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
