"""Spot asks: some ACCEPTs are asked for a leaf although nothing speaks against them.

A lone auditor could seal noise instead of a replay, say ACCEPT and be paid: where noise of hardware is
allowed, its own end may differ from the claim's, and nobody can see from two roots how far. Asked for a leaf
of its end, it cannot show one inside the limits, and loses its seat. An auditor whose end is the claim's has
replayed, or was handed the right root by the solver; it is never asked.

Whistleblowers ask; where a task has none, verifiers do. Each throws its own dice, which nobody else can know
before the vote is opened, and together they ask about one of SPOT_ASKS such votes
(`protocol/spec/game/money.py` makes a stake large enough for it).
"""

import hashlib

from protocol.actions.dispute.sources import KnownVote
from protocol.spec.game.enums import SeatRole, SeatStatus
from protocol.spec.game.state import GameState
from protocol.spec.params import SPOT_ASKS
from protocol.spec.statements import VoteWord


def find_spot_leaf(
    game: GameState, account: str, dice: bytes, known: KnownVote, leaf_count: int
) -> int | None:
    """The leaf for which `account` asks the signer of a vote; None where it does not. dice: 32 random bytes
    that it tells nobody."""
    opening = known.opening
    if known.vote.word != VoteWord.ACCEPT or opening is None:
        return None
    askers = count_askers(game, account)
    thrown = hashlib.sha256(dice + known.signature).digest()
    is_hit = askers > 0 and int.from_bytes(thrown[:8]) % (SPOT_ASKS * askers) == 0
    is_shared = opening.own_end_root == opening.claim_end_root
    return int.from_bytes(thrown[8:16]) % leaf_count if is_hit and not is_shared else None


def count_askers(game: GameState, account: str) -> int:
    """How many seats share the asking; 0 where `account` has none of them."""
    seated = [one for one in game.seats.values() if one.status == SeatStatus.OPEN]
    for role in (SeatRole.WHISTLEBLOWER, SeatRole.VERIFIER):
        asking = [one.account for one in seated if one.role == role]
        if asking:
            return len(asking) if account in asking else 0
    return 0
