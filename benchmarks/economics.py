"""Does cheating pay, and does honest work? Rational and colluding agents play rounds against the real
contracts, and everybody's tokens are counted.

Each agent's outcomes (which segments and auditors the draws gave) are played one by one on Anvil; what it
gains or loses in each is measured: tokens, gas at a price, compute at a price. What the outcomes are worth
together is an expectation: their chances are counted over all draws, none is sampled. Writes
build/economics/report.json.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.economy.agent import RIVAL, SECOND, SOLVER, SUBMITTER, VERIFIER, WATCHER, Agent
from benchmarks.economy.agents import AGENTS
from benchmarks.economy.cards import VERIFIER_NAMES, WATCHER_NAMES, count_outcomes, read_draws, read_late
from benchmarks.economy.ground import make_market_terms
from benchmarks.economy.market import HONEST, Books, Market, Player, Plot
from benchmarks.setting import write_report
from protocol.spec.deterrence import Figures
from protocol.spec.economics import assume_figures, list_requirements, read_sampling
from protocol.spec.params import DEVNET, TOKEN_WEI
from protocol.spec.round import RoundState, get_claim, get_included, get_opening
from protocol.spec.statuses import ClaimStatus, Role
from tests.e2e.twin import make_account
from tests.e2e.twin_chain import open_twin_chain

ROLES = {
    **dict.fromkeys((SOLVER, RIVAL), Role.SOLVER),
    **dict.fromkeys(VERIFIER_NAMES, Role.VERIFIER),
    **dict.fromkeys(WATCHER_NAMES, Role.WHISTLEBLOWER),
}
ACCOUNTS = {name: make_account(name) for name in (*ROLES, SUBMITTER)}
NAMES = {account: name for name, account in ACCOUNTS.items()}
WORTH_WEI = 15 * TOKEN_WEI
"""What the work of one honest claim is worth to its submitter."""
MERGING = frozenset({"postOuter", "settleMerge"})
QUICK = (
    "honest solver",
    "honest whistleblower",
    "lazy solver",
    "dropper of unfavourable shards",
    "verifier handed a false root",
    "delayer: opens a dispute and never moves",
)


@dataclass(frozen=True)
class Result:
    """What an outcome came to, in wei, mean of its rounds. chance: of the outcome."""

    outcome: str
    chance: Fraction
    rounds: int
    profit: Fraction
    tokens: Fraction
    gas: Fraction
    work: Fraction
    status: str


def play_agent(market: Market, agent: Agent, figures: Figures, rounds: int | None) -> list[Result]:
    """Every outcome of an agent, measured."""
    chances = count_outcomes(agent.label_draws, agent.label_late, agent.accepted)
    return [
        play_outcome(market, agent, figures, labels, chance, rounds or agent.rounds)
        for labels, chance in sorted(chances.items())
    ]


def play_outcome(
    market: Market, agent: Agent, figures: Figures, labels: tuple[str, str], chance: Fraction, rounds: int
) -> Result:
    """Rounds in which the draws give just this."""
    found = [play_once(market, agent, labels, f"{agent.name} {labels} {i}") for i in range(rounds)]
    tokens = Fraction(mean(count_tokens(agent, one, figures) for one in found))
    zero = Fraction(0)
    gas = sum((one.gas.get(name, zero) for one in found for name in agent.members), zero) / rounds
    work = sum((one.work.get(name, zero) for one in found for name in agent.members), zero)
    cost = gas * figures.gas_price_wei + work / rounds * figures.cost_wei
    outcome = ", ".join(label for label in labels if label) or "any"
    statuses = sorted({get_claim(one.state, 0).status.name for one in found})
    return Result(outcome, chance, rounds, tokens - cost, tokens, gas, work / rounds, "/".join(statuses))


def play_once(market: Market, agent: Agent, labels: tuple[str, str], name: str) -> Books:
    """One round. Slot 1's draws are a plain deal: one primary of each half, no late audit."""

    def want_draw(state: RoundState) -> bool:
        mine, other = (read_draws(state, slot, NAMES) for slot in (0, 1))
        if mine and agent.label_draws(mine) != labels[0]:
            return False
        primaries = {draw.auditors[0] for draw in other}
        is_plain = not other or (SECOND in primaries and bool(primaries - {VERIFIER, SECOND}))
        is_absent = not any(VERIFIER in draw.auditors for draw in other)
        return is_plain and (is_absent or not agent.is_excluded)

    def want_late(state: RoundState) -> bool:
        return (
            agent.label_late(read_late(state, 0, NAMES)) == labels[1] and read_late(state, 1, NAMES) is None
        )

    players = [Player(one, ACCOUNTS[one], role, find_plot(agent, one)) for one, role in ROLES.items()]
    books = market.play(name, players, want_draw, want_late)
    is_accepted = get_claim(books.state, 0).accepted_block > 0
    assert is_accepted == agent.accepted(labels[0]), (agent.name, labels, get_claim(books.state, 0))
    return books


def find_plot(agent: Agent, name: str) -> Plot:
    """How an account plays. One account alone posts the outer root, so that its pay is no lottery here."""
    plot = agent.plots.get(name, HONEST)
    return plot if name == RIVAL else replace(plot, silent=plot.silent | MERGING)


def count_tokens(agent: Agent, books: Books, figures: Figures) -> int:
    """Tokens gained, and what the round was worth outside: a false claim that was merged, to whoever made it;
    honest work that was shown, to the submitter."""
    tokens = sum(books.wealth_wei[name] for name in agent.members)
    for slot, solver in enumerate((SOLVER, RIVAL)):
        is_false = bool(agent.plots.get(solver, HONEST).spoiled)
        is_merged = slot in get_included(books.state)
        if is_false and is_merged and solver in agent.members:
            tokens += figures.gain_wei
        if SUBMITTER in agent.members and not is_false and is_shown(books.state, slot):
            tokens += WORTH_WEI
    return tokens


def is_shown(state: RoundState, slot: int) -> bool:
    """Whether the solver showed its last state to its auditors: work that anybody can use, paid or not."""
    is_standing = get_claim(state, slot).status != ClaimStatus.CONVICTED
    return is_standing and get_opening(state, slot, 0).last is not None


def expect(agent: Agent, results: Sequence[Result]) -> Fraction:
    """The expected profit in wei. Over two slots an auditor's share of slot 0 counts twice; what a round
    without any audit costs it counts once."""
    total = sum((one.chance * one.profit for one in results), Fraction(0))
    if agent.slots == 1:
        return total
    idle = min(results, key=lambda one: one.work + (one.tokens != 0))
    return agent.slots * total - (agent.slots - 1) * idle.profit


# --- The report ---------------------------------------------------------------------------------------------
def run_economics(names: Sequence[str] | None = None, rounds: int | None = None) -> dict[str, Any]:
    """The report. names: only these agents; rounds: of each outcome, instead of what each asks for."""
    started, figures = time.monotonic(), assume_figures(DEVNET.amounts.solver_pay)
    chosen = [agent for agent in AGENTS if names is None or agent.name in names]
    with tempfile.TemporaryDirectory() as folder, open_twin_chain(Path(folder)) as chain:
        market, agents = Market(chain, ACCOUNTS), []
        for agent in chosen:
            before = time.monotonic()
            agents.append(describe(agent, play_agent(market, agent, figures, rounds)))
            print(
                f"{agents[-1]['profit']:>9.3f}  {agent.name} ({time.monotonic() - before:.0f} s)", flush=True
            )
    compare_with_honest(agents)
    terms = make_market_terms(ACCOUNTS[SUBMITTER], "figures")
    found = list_requirements(terms.amounts, read_sampling(terms), figures)
    return {
        "agents": agents,
        "falls_short": [one["name"] for one in agents if does_fall_short(one)],
        "figures": {
            "compute_cost": figures.cost_wei / TOKEN_WEI,
            "outside_gain": figures.gain_wei / TOKEN_WEI,
            "gas_price_wei": figures.gas_price_wei,
            "owned_share": float(figures.owned),
            "claim_worth": WORTH_WEI / TOKEN_WEI,
        },
        "requirements": [{**asdict(one), "holds": one.holds} for one in found],
        "seconds": time.monotonic() - started,
    }


def does_fall_short(one: dict[str, Any]) -> bool:
    """Whether honest work loses or a cheat earns. A submitter earns by what honest solvers do for it whatever
    it does itself: its cheat must earn less than its honest work."""
    if one["honest"]:
        return bool(one["profit"] <= 0)
    is_submitters = SUBMITTER in one["members"] and one["beyond_honest"] is not None
    return bool((one["beyond_honest"] if is_submitters else one["profit"]) > 0)


def describe(agent: Agent, results: Sequence[Result]) -> dict[str, Any]:
    """One agent: its expected profit in tokens a round, and what was measured for each outcome."""
    return {
        "name": agent.name,
        "honest": agent.honest,
        "profit": float(expect(agent, results) / TOKEN_WEI),
        "members": list(agent.members),
        "convicted_by": agent.convicted_by,
        "outcomes": [describe_result(one) for one in results],
    }


def describe_result(result: Result) -> dict[str, Any]:
    """What one outcome came to, in tokens; gas in gas, work in rounds of a solver."""
    return {
        "outcome": result.outcome,
        "chance": float(result.chance),
        "rounds": result.rounds,
        "profit": float(result.profit / TOKEN_WEI),
        "tokens": float(result.tokens / TOKEN_WEI),
        "gas": float(result.gas),
        "work": float(result.work),
        "claim": result.status,
    }


def compare_with_honest(agents: list[dict[str, Any]]) -> None:
    """Beside each profit that of the same accounts in honest work, where the honest roles were played."""
    honest = {
        one["members"][0]: one["profit"] for one in agents if one["honest"] and one["name"].count(" ") == 1
    }
    same = {RIVAL: SOLVER, SECOND: VERIFIER, WATCHER_NAMES[1]: WATCHER}
    for one in agents:
        roles = [same.get(name, name) for name in one["members"]]
        known = all(role in honest for role in roles)
        one["beyond_honest"] = one["profit"] - sum(honest[role] for role in roles) if known else None


def main() -> None:
    """Plays, prints a table and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="six agents, one round of each outcome")
    parser.add_argument("--only", action="append", help="this agent (several times for several)")
    options = parser.parse_args()
    report = run_economics(options.only or (QUICK if options.quick else None), 1 if options.quick else None)
    for one in report["agents"]:
        beyond = one["beyond_honest"]
        print(
            f"{'honest' if one['honest'] else 'cheat':<7}{one['profit']:>9.3f}"
            f"{'' if beyond is None else f'{beyond:.3f}':>10}  {one['name']}"
        )
    print("falls short: " + ("; ".join(report["falls_short"]) or "nothing"))
    print(write_report("economics", report))


if __name__ == "__main__":
    main()
