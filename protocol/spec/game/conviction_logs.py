"""Applies events of convictions: of a seat, for a statement, and payments from the slash."""

from dataclasses import replace

from touchstone.protocol.spec.game.compensation import burn_lost_pay
from touchstone.protocol.spec.game.convicting import keep_rest, take_stakes
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.events import PayHeld, PayRestored, RootFell, SeatConvicted
from touchstone.protocol.spec.game.log_values import Values, read_statement
from touchstone.protocol.spec.game.logged_game import Ledger
from touchstone.protocol.spec.game.state import Fall
from touchstone.protocol.spec.game.vault import HELD, RESTITUTION, SLASHED, credit_of, stake_of


def apply_seat_convicted(ledger: Ledger, values: Values) -> None:
    """Applies SeatConvicted: takes the stake. The next event splits it."""
    ledger.state = replace(ledger.game, finder=values["finder"])
    ledger.emit(SeatConvicted(int(values["seat"]), ProofKind(int(values["proof"])), None))
    ledger.move(stake_of(int(values["seat"])), SLASHED, values["stake_wei"])


def apply_statement_convicted(ledger: Ledger, values: Values) -> None:
    """Applies StatementConvicted, which names the convicted statement."""
    ref, proof = read_statement(values["statement"]), ProofKind(int(values["proof"]))
    ledger.emit(SeatConvicted(int(values["seat"]), proof, ref))
    take_stakes(ledger, (), ledger.game.finder)
    keep_rest(ledger)


def apply_pay_restored(ledger: Ledger, values: Values) -> None:
    """Applies PayRestored: a claim's pay comes out of the part of the slash that would be held."""
    index, slot, account = int(values["round"]), int(values["slot"]), values["account"]
    ledger.move(HELD, credit_of(account), values["wei_"])
    burn_lost_pay(ledger, ledger.state.rounds[index], slot)
    ledger.emit(PayRestored(index, slot, account, values["wei_"]))


def apply_root_fell(ledger: Ledger, values: Values) -> None:
    """Applies RootFell, the first event of a fall."""
    ledger.emit(RootFell(values["round"]))


def apply_restitution_held(ledger: Ledger, values: Values) -> None:
    """Applies RestitutionHeld, the last event of a fall."""
    number, held = int(values["fall"]), int(values["held_wei"])
    owed = int(values["owed_wei"])
    take_stakes(ledger, (), ledger.game.finder)
    keep_rest(ledger)
    ledger.emit(PayHeld(Fall(number, int(values["first_round"]), int(values["last_round"]), owed, held)))
    ledger.move(HELD, RESTITUTION, held)
