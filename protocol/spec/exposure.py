"""Why stake is locked: the open exposures of one account, folded from the chain's events.

The vault knows an exposure by a hash only (`Hashing.sol`, of which the names here are the twin). What the
hash was made of stands in the event of the call that exposed the stake.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from protocol.spec import events, game_events
from protocol.spec.events import Event
from protocol.spec.hashing import hash_words
from protocol.spec.params import (
    TAG_AUDIT_EXPOSURE,
    TAG_DISPUTE_EXPOSURE,
    TAG_ENROLMENT_EXPOSURE,
    TAG_OUTER_EXPOSURE,
)

Cause = (
    events.Enrolled
    | events.ReplayCommitted
    | events.OuterPosted
    | game_events.Contested
    | game_events.DisputeOpened
)
"""The events of the calls that lock stake beyond their own transaction."""


@dataclass(frozen=True)
class OpenExposure:
    """Stake that is locked: how much of it is left, in wei, and the event that tells what for (None where no
    event does)."""

    name: bytes
    amount_wei: int
    cause: Cause | None


def list_exposures(history: Iterable[Event], account: str) -> list[OpenExposure]:
    """The exposures of `account` (lower case) that are open after all of `history`, oldest first."""
    amounts_wei: dict[bytes, int] = {}
    causes: dict[bytes, Cause] = {}
    for event in history:
        _take_money(amounts_wei, event, account)
        causes.update(_name_causes(event, account))
    return [OpenExposure(name, wei, causes.get(name)) for name, wei in amounts_wei.items()]


def _take_money(amounts_wei: dict[bytes, int], event: Event, account: str) -> None:
    match event:
        case game_events.Exposed() if event.account == account:
            amounts_wei[event.exposure] = event.amount_wei
        case game_events.FeeBurned() if event.account == account:
            amounts_wei[event.exposure] -= event.amount_wei
        case game_events.Released() | game_events.Slashed() | game_events.CreditMoved():
            amounts_wei.pop(event.exposure, None)


def _name_causes(event: Event, account: str) -> Iterator[tuple[bytes, Cause]]:
    """The exposure that a call of `account` opened, with the call's event."""
    match event:
        case events.Enrolled() if event.account == account:
            yield compute_enrolment_exposure(event.task, event.round, account), event
        case events.ReplayCommitted() if event.auditor == account:
            place = (event.task, event.round, event.slot, event.draw, event.rank)
            yield hash_words(TAG_AUDIT_EXPOSURE, *place), event
        case events.OuterPosted() if event.poster == account:
            yield _compute_outer_exposure(event, account), event
        case game_events.Contested() if event.rival == account:
            yield _compute_outer_exposure(event, account), event
        case game_events.DisputeOpened() if event.opener == account:
            yield hash_words(TAG_DISPUTE_EXPOSURE, event.dispute), event


def compute_enrolment_exposure(task: bytes, round: int, account: str) -> bytes:
    """The name of the stake that an account's seat in a round holds."""
    return hash_words(TAG_ENROLMENT_EXPOSURE, task, round, account)


def _compute_outer_exposure(event: events.OuterPosted | game_events.Contested, account: str) -> bytes:
    roots = (event.weights_root, event.momentum_root)
    return hash_words(TAG_OUTER_EXPOSURE, event.task, event.round, account, *roots)
