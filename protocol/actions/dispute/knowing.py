"""What this node knows of statements, and the forms in which the contracts take them."""

from collections.abc import Mapping
from typing import Any

from protocol.actions.dispute.casebook import Sentence
from protocol.actions.dispute.sources import KnownVote
from protocol.actions.merge.opening import get_finished
from protocol.actions.runtime.party import Party
from protocol.spec.containers import StateHeader
from protocol.spec.game.inner_dispute import InnerBook
from protocol.spec.game.machine import get_state_at
from protocol.spec.game.state import GameState
from protocol.spec.statements import Sealed, Vote


def get_inner(party: Party) -> InnerBook:
    """What is said inside the disputes and asks of the joined task."""
    return party.state.inner[party.task.task]


def get_now(party: Party) -> GameState:
    """The joined task as a call of the next block finds it: a round that the clock has closed is closed."""
    book, block = party.task.cases, party.state.head_block + 1
    if book.now is None or book.now[0] is not party.game or book.now[1] != block:
        book.now = (party.game, block, get_state_at(party.game, block))
    return book.now[2]


def find_vote(party: Party, sentence: Sentence) -> KnownVote | None:
    """The vote that a sentence is of; None for a claim's, and where the vote is not known."""
    votes = party.task.audits.list_votes(sentence.ref.round) if sentence.signature else ()
    return next((one for one in votes if one.signature == sentence.signature), None)


def list_own_boundaries(party: Party, index: int) -> Mapping[int, StateHeader]:
    """The boundaries of this node's own claim of a round; none where it has no claim."""
    try:
        return get_finished(party, index).boundaries
    except KeyError:
        return {}


def sign_form(vote: Vote, signature: bytes) -> dict[str, Any]:
    """A vote and its signature as the contracts take them (`SignedVote`)."""
    return {"vote": vote, "r": signature[:32], "vs": signature[32:]}


def seal_form(said: Sealed, signature: bytes) -> dict[str, Any]:
    """A seal and its signature as the contracts take them (`SignedSealed`)."""
    return {"said": said, "r": signature[:32], "vs": signature[32:]}
