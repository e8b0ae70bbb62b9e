"""Plays agents for money: does cheating pay, and does honest work?

All tokens are counted. Each agent plays in memory, with the chosen number of seeds; a single false claim is
weighed exactly, over all outcomes of its draw. Then each plays a shorter task on the real contracts and in
memory at once. Writes build/economics/report.json.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from lab.benchmarks.economy.contracts_table import play_contracts
from lab.benchmarks.economy.parameters import FIGURES, LIMITS, MODEL_WORTH, REPLAY, ROUNDS, make_terms
from lab.benchmarks.economy.strategy import Agent
from lab.benchmarks.economy.worth import AGENTS, Worth, weigh
from lab.benchmarks.reports import BUILD, write_report
from tests.rounds.chain import open_round_chain
from touchstone.protocol.spec.params import TOKEN_WEI

SEEDS, CHAIN_ROUNDS = 8, 3
Json = dict[str, Any]


def describe(agent: Agent, worth: Worth) -> Json:
    """Returns an agent's line of the report. `profit` is in tokens a round: what an honest role earns, or
    what a cheat earns beyond honest work of the same seats."""
    return {
        "name": agent.name, "honest": agent.is_honest, "play": agent.play,
        "profit": worth.net if agent.is_honest else worth.beyond, "known": agent.known, **asdict(worth),
    }  # fmt: skip


def does_fall_short(one: Json) -> bool:
    """Returns whether an honest role earns nothing, or a cheat loses nothing."""
    return bool(one["profit"] <= 0 if one["honest"] else one["profit"] >= 0)


def run_agents(agents: Iterable[Agent], seeds: int) -> list[Json]:
    """Plays all agents in memory."""
    found = []
    for agent in agents:
        found.append(describe(agent, weigh(agent, range(seeds))))
        mark = "  falls short" if does_fall_short(found[-1]) else ""
        print(f"{agent.name:52}{found[-1]['profit']:>12.3f}{mark}", flush=True)
    return found


def run_contracts(agents: Iterable[Agent], found: list[Json]) -> None:
    """Plays them on the contracts, which must agree with the game in memory after every call."""
    lines = {one["name"]: one for one in found}
    with open_round_chain(BUILD / "economics", LIMITS) as chain:
        for agent in agents:
            lines[agent.name]["contracts"] = played = play_contracts(chain, agent, CHAIN_ROUNDS)
            print(f"{agent.name:52} {played['calls']} calls on the contracts", flush=True)


def summarise(found: list[Json], seeds: int) -> Json:
    """Returns the summary: the agents that fall short, and the entries under which that is known. `mended`
    are agents that such an entry names although they do not fall short any more."""
    short = [one for one in found if does_fall_short(one)]
    amounts = {name: float(Fraction(wei, TOKEN_WEI)) for name, wei in asdict(make_terms().amounts).items()}
    prices = {"cost": FIGURES.cost, "gain": FIGURES.gain, "replay": REPLAY, "model": MODEL_WORTH}
    return {
        "rounds": ROUNDS, "seeds": seeds, "amounts": amounts,
        "figures": {name: wei / TOKEN_WEI for name, wei in prices.items()},
        "agents": found,
        "known": {one["name"]: one["known"] for one in short if one["known"]},
        "falls_short": [one["name"] for one in short if not one["known"]],
        "mended": [one["name"] for one in found if one["known"] and one not in short],
    }  # fmt: skip


def main() -> int:
    """Returns 1 if an agent falls short that no entry of "Known and open" names, or if an entry names one
    that does not."""
    parser = argparse.ArgumentParser(description="Does cheating pay, and does honest work?")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"plays of each agent ({SEEDS})")
    parser.add_argument("--only", default="", help="agents with this in their names")
    parser.add_argument("--machine", action="store_true", help="leave the contracts out")
    options = parser.parse_args()
    agents = [agent for agent in AGENTS if options.only in agent.name]
    found = run_agents(agents, options.seeds)
    if not options.machine:
        run_contracts(agents, found)
    report = summarise(found, options.seeds)
    print(write_report("economics", report))
    return 1 if report["falls_short"] or report["mended"] else 0


if __name__ == "__main__":
    sys.exit(main())
