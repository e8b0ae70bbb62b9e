"""Spot asks: some ACCEPTs are asked for a leaf although nothing speaks against them.

A lone auditor could seal noise instead of a replay, say ACCEPT and be paid: where noise of hardware is
allowed, its own end may differ from the claim's, and nobody can see from two roots how far. Asked for a leaf
of its end, it cannot show one inside the limits, and loses its seat. An auditor whose end is the claim's has
replayed, or was handed the right root by the solver; it is never asked.

Whistleblowers ask; where a task has none, verifiers do. Each throws its own dice, which nobody else knows,
for the place of each vote, and together they ask about one of SPOT_ASKS such votes
(`protocol/spec/game/money.py` makes a stake large enough for it). What they ask about they read from the
chain first: auditors hand their votes to solvers alone.
"""

import hashlib
from collections.abc import Iterator

from protocol.actions.dispute.sources import KnownVote
from protocol.spec.game.enums import SeatRole, SeatStatus
from protocol.spec.game.state import GameRound, GameState, StatementRef
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
    is_shared = opening.own_end_root == opening.claim_end_root
    is_asked = is_spot(game, account, dice, known.ref) and not is_shared
    return int.from_bytes(_throw(dice, known.ref)[8:16]) % leaf_count if is_asked else None


def is_spot(game: GameState, account: str, dice: bytes, ref: StatementRef) -> bool:
    """Whether the dice of `account` say that it asks about an ACCEPT in this place."""
    askers = count_askers(game, account)
    return askers > 0 and int.from_bytes(_throw(dice, ref)[:8]) % (SPOT_ASKS * askers) == 0


def list_spot_slots(game: GameState, account: str, dice: bytes, game_round: GameRound) -> Iterator[int]:
    """Slots of a round with a vote that `account` may have to ask about, once it has read it."""
    for (slot, draw), votes in game_round.votes.items() if not game.terms.is_exact else ():
        for rank, counted in votes.items():
            ref = StatementRef(game_round.index, slot, draw, rank)
            is_accept = counted.is_opened and counted.word == VoteWord.ACCEPT
            if is_accept and is_spot(game, account, dice, ref):
                yield slot


def _throw(dice: bytes, ref: StatementRef) -> bytes:
    place = (ref.round, ref.slot, ref.draw or 0, ref.rank)
    return hashlib.sha256(dice + b"".join(one.to_bytes(8) for one in place)).digest()


def count_askers(game: GameState, account: str) -> int:
    """How many seats share the asking; 0 where `account` has none of them."""
    seated = [one for one in game.seats.values() if one.status == SeatStatus.OPEN]
    for role in (SeatRole.WHISTLEBLOWER, SeatRole.VERIFIER):
        asking = [one.account for one in seated if one.role == role]
        if asking:
            return len(asking) if account in asking else 0
    return 0
