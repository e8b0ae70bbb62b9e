"""What machine and contracts must have alike after a call, as words of 32 bytes: money, shares, seats,
rounds, votes.

Twin: `Observer.sol` in tests/contracts/plays, which reads the same from the contracts' views, in this order.
"""

from collections.abc import Iterator, Sequence

from eth_utils.crypto import keccak

from tests.kit.played_task import Sent
from tests.kit.share_book import PARTS, ShareBook
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.assignments import list_draws
from touchstone.protocol.spec.game.claim_status import get_claim_status, get_votes, list_mergeable
from touchstone.protocol.spec.game.enums import ClaimStatus, RoundPhase
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import CountedVote, GameRound, GameState
from touchstone.protocol.spec.game.terms import EPOCH_ROUNDS
from touchstone.protocol.spec.game.timing import get_duty_until, get_live_round, is_over
from touchstone.protocol.spec.game.vault import (
    BURNED,
    ESCROW,
    HELD,
    RESTITUTION,
    REVENUE,
    PotKind,
    credit_of,
    stake_of,
)
from touchstone.protocol.spec.statements import VoteWord

ROUNDS_SEEN = 3
"""The newest rounds are looked at."""
VOTE_CODES = {
    VoteWord.ACCEPT: 1, VoteWord.REJECT_STATE: 2, VoteWord.REJECT_DELTA: 2, VoteWord.REJECT_START: 2,
    VoteWord.UNSERVED: 3, VoteWord.ABSTAIN: 4,
}  # fmt: skip
PAID = 4
"""is added to the code of a vote that was opened."""
NEVER = (1 << 256) - 1
Words = Iterator[tuple[str, int]]
"""What a word is, and the word."""


def compute_digest(one: Sent, accounts: Sequence[str], seats: Sequence[int]) -> bytes:
    """Returns the hash of all words of what a call left, as another call of its block would find it."""
    words = (word for _, word in list_words(one, accounts, seats))
    return bytes(keccak(b"".join(word.to_bytes(32) for word in words)))


def list_words(one: Sent, accounts: Sequence[str], seats: Sequence[int]) -> Words:
    """Yields what is compared. accounts, seats: all that the play ever has."""
    block, state = one.block, get_state_at(one.state, one.block)
    yield from _list_money(state, accounts)
    yield from _list_shares(state, one.shares, accounts)
    for number in seats:
        yield from _list_seat(state, number)
    yield from _list_task(state, block)
    first = max(state.next_round - ROUNDS_SEEN, EPOCH_ROUNDS * state.freed_epochs, 0)
    for index in range(first, state.next_round):
        yield from _list_round(state, state.rounds[index], block)


def _list_money(state: GameState, accounts: Sequence[str]) -> Words:
    wei = state.vault.wei
    for account in accounts:
        yield f"credit of {account}", state.vault.get_wei(credit_of(account))
    yield "burned", state.vault.get_wei(BURNED)
    yield "escrow", state.vault.get_wei(ESCROW)
    yield "stakes", sum(held for pot, held in wei.items() if pot.kind == PotKind.STAKE)
    yield "bonds", sum(held for pot, held in wei.items() if pot.kind == PotKind.BOND)
    yield "held", state.vault.get_wei(HELD)
    yield "restitution", state.vault.get_wei(RESTITUTION)


def _list_shares(state: GameState, book: ShareBook, accounts: Sequence[str]) -> Words:
    yield "shares", book.supply
    yield "revenue", book.revenue_wei
    yield "revenue not claimed", state.vault.get_wei(REVENUE)
    yield "shares that vote", book.votes
    yield "majority since", book.since
    if book.since:
        yield "majority until round", book.until_round
    for account in accounts if book.supply else ():
        one = book.get(account)
        yield f"shares of {account}", one.shares
        yield f"claimable of {account}", one.earned // PARTS
        yield f"votes of {account}", one.votes


def _list_seat(state: GameState, number: int) -> Words:
    seat = state.seats.get(number)
    yield f"status of seat {number}", 0 if seat is None else int(seat.status)
    if seat is not None:
        yield f"account of seat {number}", int(seat.account, 16)
        yield f"stake of seat {number}", state.vault.get_wei(stake_of(number))
        yield f"settled of seat {number}", seat.settled
        yield f"joined of seat {number}", seat.joined


def _list_task(state: GameState, block: int) -> Words:
    live = get_live_round(state)
    yield "next round", state.next_round
    yield "live", 0 if live is None else live.index + 1
    yield "start block", 0 if state.start is None else state.start.beacon_block
    yield "freed epochs", state.freed_epochs
    yield "halted", int(state.is_halted)
    yield "closed", int(state.is_closed)
    yield "contested until", state.contested_until
    yield "root", int.from_bytes(state.root if live is None else live.base_root)
    yield "over", int(is_over(state, block))
    if live is None:
        yield "paused since", state.paused_since


def _bits(slots: Sequence[int]) -> int:
    return sum(1 << slot for slot in slots)


def _list_round(state: GameState, game_round: GameRound, block: int) -> Words:
    name = f"of round {game_round.index}"
    yield f"phase {name}", int(game_round.phase)
    yield f"pool {name}", _bits([number & 0xFFFF for number in game_round.pool.solvers])
    yield f"opened {name}", game_round.opened
    yield f"base {name}", int.from_bytes(game_round.base_root)
    yield f"beacon {name}", int.from_bytes(game_round.beacon or b"")
    yield f"claims {name}", _bits(list(game_round.claims))
    if game_round.phase == RoundPhase.UNDONE:
        return
    yield f"closed {name}", game_round.closed or 0
    yield f"seed {name}", int.from_bytes(game_round.seed or b"")
    yield f"late from {name}", game_round.late_from or 0
    yield f"late slots {name}", _bits(list(game_round.late_slots))
    duty_until = get_duty_until(state, game_round)
    yield f"duty until {name}", NEVER if duty_until is None else duty_until
    if game_round.phase == RoundPhase.POSTED:
        yield f"merged {name}", _bits(game_round.merged)
        yield f"signers {name}", _bits([number & 0xFFFF for number in game_round.signers])
        yield f"root until {name}", game_round.root_until
        yield f"root {name}", int.from_bytes(game_round.root or b"")
    if game_round.closed is not None:
        yield from _list_statuses(state, game_round, block, name)
    yield from _list_votes(state, game_round, name)


def _list_statuses(state: GameState, game_round: GameRound, block: int, name: str) -> Words:
    statuses = {slot: get_claim_status(state, game_round, slot, block) for slot in game_round.claims}
    undecided = [slot for slot, status in statuses.items() if status == ClaimStatus.UNDECIDED]
    late = [slot for slot, status in statuses.items() if status == ClaimStatus.LATE_UNDECIDED]
    yield f"accepted {name}", _bits([s for s, status in statuses.items() if status == ClaimStatus.ACCEPTED])
    yield f"mergeable {name}", _bits(list_mergeable(state, game_round, block))
    yield f"undecided {name}", _bits(undecided)
    yield f"open {name}", _bits([*undecided, *late])


def _list_votes(state: GameState, game_round: GameRound, name: str) -> Words:
    for slot in range(len(game_round.pool.solvers)):
        for draw in range(state.terms.draws + 1):
            is_drawn = (slot, draw) in list_draws(state, game_round)
            votes = get_votes(game_round, slot, draw) if is_drawn else {}
            codes = [_code(votes[rank]) if rank in votes else 0 for rank in range(RANKS)]
            yield f"votes {slot} {draw} {name}", sum(code << 3 * rank for rank, code in enumerate(codes))


def _code(vote: CountedVote) -> int:
    return VOTE_CODES[vote.word] + PAID * vote.is_opened
