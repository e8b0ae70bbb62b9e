"""How the tests' only claim ends, as the chain tells it."""

from protocol.spec import events
from protocol.spec.statuses import ClaimStatus
from tests.protocol.actions.audits import Audited
from tests.protocol.actions.facts import TASK


def accept_claim(audited: Audited) -> None:
    """The claim has its final verdict."""
    audited.take(
        events.ClaimJudged(
            block_number=20, task=TASK, round=0, slot=0, status=ClaimStatus.ACCEPTED, reason=b"accepted"
        )
    )


def post_outer(audited: Audited, weights_root: bytes, momentum_root: bytes, poster: str) -> None:
    """Somebody posted an outer root."""
    audited.take(
        events.OuterPosted(
            block_number=21, task=TASK, round=0, poster=poster, weights_root=weights_root,
            momentum_root=momentum_root, included=1,
        )
    )  # fmt: skip
