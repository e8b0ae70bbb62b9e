"""Lists what the contracts hold for an account, and until when: stakes, bonds, escrows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from touchstone.protocol.economics.duty_ends import find_release
from touchstone.protocol.spec.game.pools import get_stake
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.vault import ESCROW, bond_of


class LockKind(StrEnum):
    """The purpose of locked money."""

    STAKE = "stake"
    ESCROW = "escrow"
    ASK = "ask"
    DISPUTE = "dispute"
    CONTEST = "contest"


@dataclass(frozen=True)
class Lock:
    """Money that the contracts hold for an account. `number` is the seat's or the bond's. `until` is the
    first block in which the money can come back; None if it comes back only after the task (an escrow), or
    never (a convicted seat)."""

    kind: LockKind
    number: int
    wei: int
    until: int | None


def list_locks(state: GameState, block: int, seats: Iterable[Seat]) -> Iterator[tuple[str, Lock]]:
    """Yields (account, lock) for each stake of `seats`, each open bond and the escrow."""
    for seat in seats:
        if stake := get_stake(state, seat.number):
            until = find_release(state, seat, block)
            yield seat.account, Lock(LockKind.STAKE, seat.number, stake, until)
    opened = (
        *((ask.asker, LockKind.ASK, ask.number, ask.clock) for ask in state.queries.values()),
        *((one.opener, LockKind.DISPUTE, one.number, one.clock) for one in state.disputes.values()),
        *((one.contester, LockKind.CONTEST, one.number, one.clock) for one in state.contests.values()),
    )
    for account, kind, number, clock in opened:
        yield account, Lock(kind, number, state.vault.get_wei(bond_of(number)), clock + 1)
    if escrow := state.vault.get_wei(ESCROW):
        yield state.terms.submitter, Lock(LockKind.ESCROW, 0, escrow, None)
