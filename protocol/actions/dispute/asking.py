"""ASK: whose word this node knows to be wrong shows the leaf of both ends on chain, or loses its seat.

An ACCEPT is asked for the leaf that this node found beyond the limits, a REJECT for the leaf that it names;
an ACCEPT now and then for any leaf (`spotting.py`). A
vote whose replay is known to have come to the claim's own end needs another proof: an ACCEPT of that kind
would pass any ask, so it is disputed; a REJECT of that kind is false whatever the leaf holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from protocol.actions.dispute.casebook import Sentence
from protocol.actions.dispute.knowing import find_vote, get_inner, get_now, list_own_boundaries, sign_form
from protocol.actions.dispute.sources import KnownVote, OwnReplay
from protocol.actions.dispute.spotting import find_spot_leaf
from protocol.actions.dispute.standing import find_accused, find_solver, list_provable_rounds
from protocol.actions.runtime.credit import fund_bonds
from protocol.actions.runtime.party import Party
from protocol.spec.game.asks import ASKED_WORDS
from protocol.spec.game.enums import SeatStatus
from protocol.spec.game.fates import get_votes
from protocol.spec.game.inner_dispute import AskEnding
from protocol.spec.game.state import StatementRef
from protocol.spec.game.statement_refs import count_open_asks
from protocol.spec.game.timing import get_ask_until
from protocol.spec.merkle import count_tensor_leaves
from protocol.spec.statements import VoteWord

TELLING = frozenset({AskEnding.OPEN, AskEnding.CLEARED})
"""An ask that others opened and that is open, or was answered, needs no second one."""


@dataclass(frozen=True)
class Doubt:
    """A vote and the leaf that its signer is to show."""

    statement: StatementRef
    signature: bytes
    leaf: int


# --- What to ask --------------------------------------------------------------------------------------------
def list_doubts(party: Party, block: int) -> Iterator[Doubt]:
    """Votes of others that this node's own knowledge contradicts and that can be asked about in `block`."""
    if party.game.terms.is_exact:
        return
    for game_round in list_provable_rounds(get_now(party), block):
        for known in party.task.audits.list_votes(game_round.index):
            leaf = _find_leaf(party, known)
            if leaf is not None and _is_askable(party, known, block) and not _is_asked(party, known, leaf):
                yield Doubt(known.ref, known.signature, leaf)


def _is_askable(party: Party, known: KnownVote, block: int) -> bool:
    seat, until = find_accused(get_now(party), known.ref, known), get_ask_until(get_now(party), known.ref)
    is_open = seat is not None and seat.status != SeatStatus.CLOSED and seat.account != party.account
    if not is_open or until is None or known.vote.word not in ASKED_WORDS:
        return False
    # Before votes stop counting nobody has to answer, and the opening may still tell more.
    is_ripe = known.opening is not None or block > until - party.game.terms.windows.ask
    return is_ripe and block <= until


def _is_asked(party: Party, known: KnownVote, leaf: int) -> bool:
    """Whether this node has asked it, or anybody whose answer tells the same: of this very vote and seat. A
    liar may sign another vote for the same place, and so may any auditor that was not drawn for it."""
    seat = find_accused(get_now(party), known.ref, known)
    asks = [one for one in get_inner(party).asks.values() if (one.vote, one.leaf) == (known.vote, leaf)]
    here = [one for one in asks if seat is not None and one.seat == seat.number]
    return any(one.asker == party.account or one.ending in TELLING for one in here)


def _find_leaf(party: Party, known: KnownVote) -> int | None:
    """For which leaf to ask; None where nothing speaks against the vote, or an ask would not show it."""
    vote = known.vote
    replays = party.task.audits.list_replays(vote.round)
    here = [one for one in replays if (one.ref.slot, one.segment) == (vote.slot, vote.segment)]
    leaf_count = count_tensor_leaves(party.task.spec.terms.parameter_count)
    if vote.word == VoteWord.ACCEPT:
        beyond = next((one.beyond_leaf for one in here if one.beyond_leaf is not None), None)
        if beyond is None:
            return find_spot_leaf(get_now(party), party.account, party.task.cases.dice, known, leaf_count)
        return None if _is_copied(known) else beyond
    if vote.word != VoteWord.REJECT_STATE:
        return None
    is_leaf = vote.named_leaf < leaf_count
    return vote.named_leaf if is_leaf and _is_false_rejection(party, known, here) else None


def _is_copied(known: KnownVote) -> bool:
    """Whether the auditor's own end is known to be the claim's."""
    opening = known.opening
    return opening is not None and opening.own_end_root == opening.claim_end_root


def _is_false_rejection(party: Party, known: KnownVote, here: list[OwnReplay]) -> bool:
    """Whether the rejected end is one that this node stands by and nothing shows that the auditor came to
    another: where it did, its own steps are what is to be looked at."""
    if known.opening is not None:
        return _is_copied(known)
    counted = get_votes(get_now(party).rounds[known.vote.round], known.vote.slot, known.vote.draw)
    if known.vote.rank not in counted:  # It harms nobody, and an honest one may have drifted.
        return False
    is_own = find_solver(get_now(party), known.vote.round, known.vote.slot) == party.account
    has_claim = is_own and known.vote.segment + 1 in list_own_boundaries(party, known.vote.round)
    return has_claim or any(one.claimed_end is not None and one.beyond_leaf is None for one in here)


# --- Asking -------------------------------------------------------------------------------------------------
async def ask(party: Party, doubt: Doubt) -> None:
    """Ask the signer. The k-th open ask on a seat costs k bonds."""
    known = _find(party, doubt.statement.round, doubt.signature)
    if known is None:
        return
    accused, ref = find_accused(get_now(party), known.ref, known), known.ref
    assert accused is not None
    async with party.task.locks["credit", None]:
        count = count_open_asks(get_now(party), accused.number)
        limit_wei = await fund_bonds(party, count, party.game.terms.amounts.ask_bond)
        form = sign_form(known.vote, known.signature)
        await party.chain.asks.ask(party.task.task, form, doubt.leaf, limit_wei)
    party.say(f"round {ref.round} slot {ref.slot}: asked {known.auditor} to show leaf {doubt.leaf}")


def _find(party: Party, index: int, signature: bytes) -> KnownVote | None:
    return find_vote(party, Sentence(StatementRef(index, 0), 0, signature))
