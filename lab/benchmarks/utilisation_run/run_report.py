"""What a run came to, as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lab.benchmarks.utilisation_run.counting import (
    RoundTold,
    count_phase,
    cut_phase,
    fold_rounds,
    list_disputes,
    read_senders,
    read_times,
)
from lab.benchmarks.utilisation_run.network import FALSE_SOLVER, STOPPED, Network
from lab.benchmarks.utilisation_run.plan import DRAWS, MODEL, SEGMENTS
from lab.benchmarks.utilisation_run.plan import FALSE_SOLVER as FALSE_PHASE
from protocol.compute.model.reference_model import parameter_count
from protocol.spec.game.state import SeatRole

Json = dict[str, Any]
LEAST = {"honest": 0.96, "silent_verifier": 0.93, "false_solver": 0.88}
"""What is asked of each phase; nothing here fails where a machine is too slow for it."""
LATE_AUDITS = "off (c = 0): the terms need three whistleblowers for them, and one takes part"


async def make_report(network: Network) -> Json:
    """Everything that the run tells; a phase of which no round ended within the limit is None."""
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
    """Seconds from block to block, between the first and the last that count."""
    if len(times) < 2:
        return None
    first, last = min(times), max(times)
    return round((times[last] - times[first]) / (last - first), 3)


def list_solvers(network: Network, *, with_false: bool) -> dict[str, float]:
    """Training time of a round by account, of the solvers that are honest."""
    return {
        network.keys[member.name].address.lower(): network.get_train_s(member.name)
        for member in network.members
        if member.role == SeatRole.SOLVER and (with_false or member.name != FALSE_SOLVER)
    }


def show_phases(network: Network, rounds: Mapping[int, RoundTold], times: Mapping[int, float]) -> Json:
    """The share of each phase, of those of its rounds that were over in time, and what it is made of."""
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
    """Seconds from the opening of a round to its claims, its close, draw and root."""
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
    """Who took part, and how. slowest_step_share: longest computation of a step over the time that a step is
    given; above 1 the machine was too slow for the setting."""
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
