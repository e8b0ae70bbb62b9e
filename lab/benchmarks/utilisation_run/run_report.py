"""Counts utilisation from what the chain says, and reports a run as JSON.

Utilisation is the training time of accepted and merged claims over the time in honest seats. A phase lasts
from the close of the round before it (the opening of the first round) to the close of its last round; then a
solver trains for the next round, whatever is still being audited. So phases together cover the time of the
run, and each has the training of its own rounds. The count needs the chain's events, the senders of the
claims, and the times of blocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lab.benchmarks.utilisation_run.network import FALSE_SOLVER, STOPPED, Network
from lab.benchmarks.utilisation_run.plan import DRAWS, MODEL, SEGMENTS, Phase
from lab.benchmarks.utilisation_run.plan import FALSE_SOLVER as FALSE_PHASE
from tests.task_models import parameter_count
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.inner_dispute import DisputeStage


@dataclass
class RoundTold:
    """A round on the chain: the blocks in which it was opened, closed, drawn and given a root, None for what
    has not happened; the block of the claim and the slot by account; the slots of the merged claims."""

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
        """The blocks whose time is needed."""
        return tuple(one for one in (self.opened, self.closed, self.drawn, self.ended) if one is not None)


@dataclass(frozen=True)
class PhaseTold:
    """The result of a phase. `train_s` is the training of honest merged claims, `wall_s` the time of the
    phase, `seats` the number of honest ones. `until_posted` is the share if a phase lasted from the opening
    of its first round to the root of its last."""

    train_s: float
    wall_s: float
    seats: int
    utilisation: float
    until_posted: float


def fold_rounds(events: Iterable[Event], senders: Mapping[bytes, str]) -> dict[int, RoundTold]:
    """Returns every round that was opened. `senders` has the sender of each claim's transaction, by its
    hash."""
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
    """Returns a phase cut to its rounds that are over; None if there are none."""
    last = phase.first - 1
    while last < phase.last and last + 1 in rounds and rounds[last + 1].ended is not None:
        last += 1
    return None if last < phase.first else replace(phase, last=last)


def count_phase(
    rounds: Mapping[int, RoundTold], phase: Phase, train_s: Mapping[str, float], times: Mapping[int, float]
) -> PhaseTold:
    """Returns the result of a phase whose rounds are over. `train_s` is the training time of a round by
    honest account, `times` the seconds of every block that counts. Raises KeyError if a round is missing."""
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
    """Returns the sender (lower case) of each claim's transaction."""
    hashes = {event.transaction_hash for event in events if event.name == "ClaimTaken"}
    found: dict[bytes, str] = {}
    for one in hashes:
        sent: Mapping[str, Any] = await connection.request("eth_getTransactionByHash", f"0x{one.hex()}")
        found[one] = str(sent["from"]).lower()
    return found


async def read_times(connection: Connection, rounds: Iterable[RoundTold]) -> dict[int, float]:
    """Returns the seconds of the blocks in which rounds were opened, closed, drawn and ended. Raises
    EnvironmentFault."""
    wanted = {block for one in rounds for block in (*one.blocks, *one.claims.values())}
    heads = [await connection.block(block) for block in sorted(wanted)]
    return {head.number: float(head.timestamp_s) for head in heads if head is not None}


def list_disputes(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Returns each dispute: the blocks in which it was opened and ended, and its outcome."""
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


Json = dict[str, Any]
LEAST = {"honest": 0.96, "silent_verifier": 0.93, "false_solver": 0.88}
"""The least utilisation that is wanted in each phase; nothing here fails on a machine that is too slow for
it."""
LATE_AUDITS = "off (c = 0): the terms need three whistleblowers for them, and one takes part"


async def make_report(network: Network) -> Json:
    """Returns the report of the run; a phase of which no round ended within the limit is None."""
    head = await network.chain.head()
    events = await network.chain.read_events(network.devnet.deployment.deploy_block, head.number)
    rounds = fold_rounds(events, await read_senders(network.chain.connection, events))
    times = await read_times(network.chain.connection, rounds.values())
    names = {key.address.lower(): name for name, key in network.keys.items()}
    return {
        **show_phases(network, rounds, times),
        "rounds": {str(i): show_round(one, times, names) for i, one in rounds.items()},
        "train_s": network.play.train_s,
        "block_s": network.play.block_s,
        "measured_block_s": compute_block_s(times),
        "disputes": list_disputes(events),
        **show_setting(network),
    }


def compute_block_s(times: Mapping[int, float]) -> float | None:
    """Returns the seconds between blocks, over all blocks that count."""
    if len(times) < 2:
        return None
    first, last = min(times), max(times)
    return round((times[last] - times[first]) / (last - first), 3)


def list_solvers(network: Network, *, with_false: bool) -> dict[str, float]:
    """Returns the training time of a round by account, for the honest solvers."""
    return {
        network.keys[member.name].address.lower(): network.get_train_s(member.name)
        for member in network.members
        if member.role == SeatRole.SOLVER and (with_false or member.name != FALSE_SOLVER)
    }


def show_phases(network: Network, rounds: Mapping[int, RoundTold], times: Mapping[int, float]) -> Json:
    """Returns the share of each phase over its rounds that were over in time, and its parts."""
    shares: Json = {}
    parts: Json = {}
    for phase in network.play.phases:
        over = cut_phase(rounds, phase)
        honest = list_solvers(network, with_false=phase.name != FALSE_PHASE)
        told = None if over is None else count_phase(rounds, over, honest, times)
        shares[phase.name] = None if told is None else round(told.utilisation, 4)
        if over is not None and told is not None:
            parts[phase.name] = asdict(told) | {"rounds": [over.first, over.last]}
    return {**shares, "phases": parts, "least": LEAST}


def show_round(told: RoundTold, times: Mapping[int, float], names: Mapping[str, str]) -> Json:
    """Returns the seconds from the opening of a round to its claims, its close, draw and root."""
    start = times[told.opened]

    def since(block: int | None) -> float | None:
        return None if block is None or block not in times else times[block] - start

    return {
        "opened_block": told.opened,
        "claims_s": {names.get(account, account): since(block) for account, block in told.claims.items()},
        "closed_s": since(told.closed),
        "drawn_s": since(told.drawn),
        "ended_s": since(told.ended),
        "merged": sorted(names.get(account, account) for account in told.merged),
    }


def show_setting(network: Network) -> Json:
    """Returns who took part, and how. `slowest_step_share` is the longest computation of a step over the time
    given to a step; above 1 the machine was too slow for the setting."""
    steps = SEGMENTS * network.play.segment_steps
    slowest = {
        name: round(seconds * steps / network.get_train_s(name), 3)
        for name, seconds in sorted(network.slowest_step_s.items())
    }
    return {
        "params": parameter_count(MODEL),
        "k": network.play.segment_steps,
        "H": steps,
        "q": DRAWS,
        "late_audits": LATE_AUDITS,
        "seat_train_s": {m.name: round(network.get_train_s(m.name), 3) for m in network.members},
        "slowest_step_share": slowest,
        "stopped": {"name": STOPPED, "after_block": network.stopped},
        "false_solver_name": FALSE_SOLVER,
    }
