"""Utilisation from what the chain says: training time of accepted and merged claims by time in honest
seats.

A phase lasts from the close of the round before it (the opening of the first round) to the close of its last
round: then a solver trains for the next one, whatever is still being audited. So phases tile the time of the
run, and each has the training of its own rounds.

What the counting needs of the chain: events, who sent the claims, when blocks were made.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lab.benchmarks.utilisation_run.plan import Phase
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.event_logs import Event
from protocol.spec.game.inner_dispute import DisputeStage


@dataclass
class RoundTold:
    """Blocks in which a round was opened, closed (its closing block), drawn and given a root, None where that
    has not happened; block of its claim and slot by account; slots of the merged claims."""

    opened: int
    closed: int | None = None
    drawn: int | None = None
    ended: int | None = None
    claims: dict[str, int] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    merged_slots: int = 0

    @property
    def merged(self) -> frozenset[str]:
        """Accounts whose claims are in the model."""
        return frozenset(account for account, slot in self.slots.items() if self.merged_slots >> slot & 1)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Those whose time is wanted."""
        return tuple(one for one in (self.opened, self.closed, self.drawn, self.ended) if one is not None)


@dataclass(frozen=True)
class PhaseTold:
    """train_s: of merged claims of the honest; wall_s: of the phase; seats: how many are honest;
    until_posted: the share if a phase lasted from the opening of its first round to the root of its last."""

    train_s: float
    wall_s: float
    seats: int
    utilisation: float
    until_posted: float


def fold_rounds(events: Iterable[Event], senders: Mapping[bytes, str]) -> dict[int, RoundTold]:
    """Every round that was opened. senders: of each transaction that claims, by its hash."""
    rounds: dict[int, RoundTold] = {}
    for event in events:
        _take(rounds, event, senders)
    return rounds


def _take(rounds: dict[int, RoundTold], event: Event, senders: Mapping[bytes, str]) -> None:
    values, block = event.arguments, event.block_number
    match event.name:
        case "RoundOpened":
            rounds[values["round"]] = RoundTold(block)
        case "ClaimTaken":
            account = senders[event.transaction_hash]
            rounds[values["round"]].claims[account] = block
            rounds[values["round"]].slots[account] = values["slot"]
        case "RoundClosed":
            rounds[values["round"]].closed = values["closing_block"]
        case "AuditsDrawn":
            rounds[values["round"]].drawn = block
        case "RootPosted":
            rounds[values["round"]].ended = block
            rounds[values["round"]].merged_slots = values["merged"]
        case "RootStood":
            rounds[values["round"]].ended = block
        case "RootFell":
            for index in rounds:
                if index >= values["round"]:
                    rounds[index].merged_slots = 0


def cut_phase(rounds: Mapping[int, RoundTold], phase: Phase) -> Phase | None:
    """The rounds of a phase that are over; None where none is."""
    last = phase.first - 1
    while last < phase.last and last + 1 in rounds and rounds[last + 1].ended is not None:
        last += 1
    return None if last < phase.first else replace(phase, last=last)


def count_phase(
    rounds: Mapping[int, RoundTold], phase: Phase, train_s: Mapping[str, float], times: Mapping[int, float]
) -> PhaseTold:
    """What a phase came to whose rounds are over. train_s: training time of a round by account of the honest;
    times: seconds of every block that counts. Raises KeyError where a round is missing."""
    first, last, before = rounds[phase.first], rounds[phase.last], rounds.get(phase.first - 1)
    start = first.opened if before is None else before.closed
    assert start is not None and last.closed is not None and last.ended is not None
    trained_s = sum(
        train_s.get(account, 0.0)
        for index in range(phase.first, phase.last + 1)
        for account in rounds[index].merged
    )
    wall_s, posted_s = times[last.closed] - times[start], times[last.ended] - times[first.opened]
    seats = len(train_s)
    return PhaseTold(trained_s, wall_s, seats, trained_s / (seats * wall_s), trained_s / (seats * posted_s))


async def read_senders(connection: Connection, events: Sequence[Event]) -> dict[bytes, str]:
    """Lower-case sender of each transaction that claims."""
    hashes = {event.transaction_hash for event in events if event.name == "ClaimTaken"}
    found: dict[bytes, str] = {}
    for one in hashes:
        sent: Mapping[str, Any] = await connection.request("eth_getTransactionByHash", f"0x{one.hex()}")
        found[one] = str(sent["from"]).lower()
    return found


async def read_times(connection: Connection, rounds: Iterable[RoundTold]) -> dict[int, float]:
    """Seconds of the blocks in which rounds were opened, closed, drawn and ended. Raises EnvironmentFault."""
    wanted = {block for one in rounds for block in (*one.blocks, *one.claims.values())}
    heads = [await connection.block(block) for block in sorted(wanted)]
    return {head.number: float(head.timestamp_s) for head in heads if head is not None}


def list_disputes(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Each dispute: the blocks in which it was opened and ended, and how."""
    found: dict[bytes, dict[str, Any]] = {}
    for event in events:
        if event.name == "DisputeOpened":
            found[event.arguments["dispute"]] = {
                "seat": event.arguments["seat"], "opened": event.block_number, "ended": None, "outcome": None,
            }  # fmt: skip
        elif event.name == "DisputeEnded":
            found[event.arguments["dispute"]] |= {
                "ended": event.block_number,
                "outcome": DisputeStage(event.arguments["outcome"]).name,
            }
    return list(found.values())
