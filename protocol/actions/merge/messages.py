"""What this room's nodes ask each other, and how: signed requests with a small JSON body.

/outer   what stands behind an outer root          checked by its hash
/work    the work leaf of a claim, with its path   checked against the claim's root
/merge   a merge signature over these claims       checked against the seat's account
"""

from typing import Annotated, TypeVar

from msgspec import Meta

from protocol.actions.runtime.party import Party
from protocol.adapters.messages import Count, Form, Message, Signature, Word
from protocol.adapters.wire.session import Peer

OUTER, WORK, MERGE = "outer", "work", "merge"
"""Names of the desks."""
MAX_BYTES = 16 * 1024
CLAIMS_MAX = 64

ClaimRoots = Annotated[tuple[Word, ...], Meta(min_length=1, max_length=CLAIMS_MAX)]
ClaimSlots = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=CLAIMS_MAX)]
Answer = TypeVar("Answer")


class AskOuter(Message, frozen=True):
    """What stands behind this outer root of the task?"""

    task: Word
    root: Word


class OuterAnswer(Message, frozen=True):
    """The roots of the global model and of the outer momentum."""

    weights_root: Word
    momentum_root: Word


class AskWork(Message, frozen=True):
    """What does the work leaf of this claim say? The answer is `WorkSaid`, as an auditor gets it."""

    task: Word
    round: Count
    slot: Count
    claim_root: Word


class AskMerge(Message, frozen=True):
    """Please sign that merging the claims of these slots, in shard order, into the base root gives `root`."""

    task: Word
    round: Count
    base_root: Word
    slots: ClaimSlots
    claim_roots: ClaimRoots
    root: Word


class MergeAnswer(Message, frozen=True):
    """The signature of a `MergeSignature`."""

    signature: Signature


def make_form(kind: type[Answer]) -> Form[Answer]:
    """How a message of this kind is read."""
    return Form(kind, MAX_BYTES, f"the message {kind.__name__} is malformed")


def read_message(kind: type[Answer], body: bytes, culprit: str) -> Answer:
    """A stranger's message. Raises ProtocolFault for anything else."""
    return make_form(kind).decode(body, culprit)


async def ask_peer(party: Party, peer: Peer, desk: str, question: Message, kind: type[Answer]) -> Answer:
    """What a peer answers. Raises ProtocolFault for what no honest node says, EnvironmentFault where it does
    not answer now."""
    return await party.client.ask(peer, desk, question, make_form(kind))
