"""What is asked about steps: the states of a segment, by their headers.

    desk    anybody with stake -> claimant    claimant ->
    steps   StepsAsked                        StepsShown: k + 1 states

The answer is checked against the roots that the statement has, or that were posted. W, m and v are then
fetched by their roots.
"""

from typing import Annotated

from msgspec import Meta

from protocol.adapters.messages import Form, Message, Word
from protocol.spec.codec import STATE_BYTES

STEPS = "steps"
"""Name of the desk."""
ASK_BYTES = 1024
SHOW_BYTES = 96 * 1024
STATES_MAX = 256
"""k is at most 255: the contract keeps a step in a byte."""

Number = Annotated[int, Meta(ge=0, lt=1 << 32)]
State = Annotated[bytes, Meta(min_length=STATE_BYTES, max_length=STATE_BYTES)]


class StepsAsked(Message, frozen=True):
    """What are the states of this segment, of your claim or of your replay?"""

    task: Word
    round: Number
    slot: Number
    segment: Number


class StepsShown(Message, frozen=True):
    """The k + 1 states, as `encode_state` writes them."""

    states: Annotated[tuple[State, ...], Meta(max_length=STATES_MAX)]


ASKED_FORM = Form(StepsAsked, ASK_BYTES, "a question for steps is malformed")
SHOWN_FORM = Form(StepsShown, SHOW_BYTES, "an answer about steps is malformed")
