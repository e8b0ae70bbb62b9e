"""Measures what a round costs on the chain, and whether every act fits the gas that the money rules assume.

    ./dev bench gas [--quick]

Whole transactions run on a real Anvil with its newest rules (calldata floor of EIP-7623, transaction limit of
EIP-7825); base and calldata are included. They use the contracts of the round, real keys and signatures, two
draws a claim, late audits of half the claims by three whistleblowers, and all votes with their openings
beside the root that they allow.

Rounds are measured in the first lap of the ring, where storage is written for the first time, and in later
laps, which give the main figures. All payments are checked to the wei. Queries, answers and disputes are
those of a task that has had some before. `settle` is for one solver's round. Answers, defences, proofs,
contests and votes are measured at the bounds that terms allow (`gas_bounds.py`); it is an error if one costs
more than the money rules assume. Writes build/gas/report.json.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from lab.benchmarks.gas_bounds.gas_bounds import measure_answer, measure_contests, measure_vote
from lab.benchmarks.gas_bounds.gas_dispute import measure_dispute
from lab.benchmarks.gas_bounds.gas_play import DRAWS, EPOCH_ROUNDS, Case, Play
from lab.benchmarks.reports import BUILD, write_report
from tests.rounds.chain import RoundChain, Sent, open_round_chain
from touchstone.protocol.economics.assumptions import GasCosts
from touchstone.protocol.economics.gas_costs import price_gas
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL

ORDINARY_DISPUTE_GAS = 1_500_000
"""The aim for all moves of both sides of a dispute about a step of ordinary size."""
CONTEST_LEVELS = 7
"""The levels of a contest with 2^31 parameters."""
VOTE_CASES = (Case(4, 24), Case(16, 96))
"""Cases in which every position of the pool is drawn."""


@dataclass(frozen=True)
class Priced:
    """An act: its measured gas, and the gas that the money rules assume."""

    name: str
    measured: int
    priced: int

    @property
    def holds(self) -> bool:
        """Whether the assumed gas covers the measured gas."""
        return self.measured <= self.priced


def price(solvers: int) -> GasCosts:
    """Returns the assumed costs, in gas, of a task with this number of solver seats, all taken."""
    return price_gas(1, CONTEST_LEVELS, 0, solvers, DRAWS, solvers)


def list_question_prices(chain: RoundChain) -> Iterator[Priced]:
    """Yields queries and disputes."""
    with chain.undone():
        yield Priced("answer", measure_answer(chain)["answer"], price(1).answer)
    with chain.undone():
        found = measure_dispute(chain)
        print(found, flush=True)
        yield Priced("ordinary dispute", found["ordinary"], ORDINARY_DISPUTE_GAS)
        yield Priced("defence", found["defence"], price(1).defence)
        yield Priced("conviction", found["conviction"], price(1).conviction)


def list_contest_prices(chain: RoundChain, solvers: int) -> Iterator[Priced]:
    """Yields all answers to a contest of a right root, and all moves of the contester of a wrong one."""
    with chain.undone():
        found = measure_contests(chain, solvers)
        print(found, flush=True)
    right, wrong = found["right"], found["wrong"]
    answers = sum(right["answers"]) + right["last"]
    yield Priced(f"contest of {solvers}", answers, price(solvers).contest)
    moves = wrong["contest"] + sum(wrong["names"]) + wrong["last"]
    yield Priced(f"fall of {solvers}", moves, price(solvers).fall)


def list_vote_prices(chain: RoundChain) -> Iterator[Priced]:
    """Yields votes that are handed in alone."""
    for case in VOTE_CASES:
        with chain.undone():
            yield Priced(f"vote of {case.solvers}", measure_vote(chain, case), price(case.solvers).vote)


def list_round_prices(cases: list[dict[str, Any]]) -> Iterator[Priced]:
    """Yields a solver's rounds in the first lap, where storage is new."""
    for case in cases:
        solvers = case["solvers"]
        yield Priced(f"round of {solvers}", case["first_lap"]["total"], price(solvers).solver_round)


def list_prices(chain: RoundChain, sizes: tuple[int, ...], cases: list[dict[str, Any]]) -> list[Priced]:
    """Returns all acts; contests and rounds for each number of solvers."""
    contests = [one for size in sizes for one in list_contest_prices(chain, size)]
    return [
        *list_round_prices(cases),
        *list_vote_prices(chain),
        *list_question_prices(chain),
        *contests,
    ]


Json = dict[str, Any]
RING_ROUNDS = 128
MEASURED_CLAIMS = 256
"""The number of late audits in a round is random. The mean over fewer claims than this varies by thousands of
gas."""
Shares = dict[str, int]
TARGETS = {
    "commit": 75_000,
    "challenge": 200_000,
    "query": 120_000,
    "per_solver": 200_000,
    "third_rejecting": 230_000,
    "dearest": {"gas": 12_000_000, "bytes": 120 * 1024},
}


# Measuring
@dataclass
class Dearest:
    """The most expensive call of all."""

    call: str = ""
    gas: int = 0
    bytes: int = 0

    def note(self, name: str, sent: Sent) -> None:
        """Notes a call if it costs more than all before. The longest data may belong to another call."""
        self.bytes = max(self.bytes, sent.size)
        if sent.gas > self.gas:
            self.call, self.gas = name, sent.gas


def measure_case(chain: RoundChain, case: Case, dearest: Dearest) -> Json:
    """Returns gas for each solver by call: means of the last rounds of the first lap and of the next ones."""
    play, laps = Play(chain, case), {"first_lap": list[Shares](), "later": list[Shares]()}
    play.start()
    measured = -(-MEASURED_CLAIMS // (case.solvers * EPOCH_ROUNDS)) * EPOCH_ROUNDS
    measured = min(measured, RING_ROUNDS // 2)
    for number in range(RING_ROUNDS + measured):
        sent = play.play(number)
        for name, some in sent.items():
            for one in some:
                dearest.note(name, one)
        if number >= RING_ROUNDS - measured:
            laps["later" if number >= RING_ROUNDS else "first_lap"].append(count_shares(sent, case.solvers))
    found: Json = {**asdict(case), "measured_rounds": measured}
    found |= {name: average(shares) for name, shares in laps.items()}
    if not case.is_refusing and case.solvers > 1:
        questions = play.measure_questions(RING_ROUNDS + measured - 1)
        found["questions"] = {name: [one.gas for one in some] for name, some in questions.items()}
    return found


def average(shares: list[Shares]) -> Shares:
    """Returns the mean of each call, and the largest value of each maximum."""
    names = dict.fromkeys(name for one in shares for name in one)
    mean = {name: round(sum(one.get(name, 0) for one in shares) / len(shares)) for name in names}
    return mean | {name: max(one[name] for one in shares) for name in names if name.startswith("dearest")}


def count_shares(sent: dict[str, list[Sent]], solvers: int) -> Shares:
    """Returns the gas for each solver of a round."""
    shares = {name: round(sum(one.gas for one in some) / solvers) for name, some in sent.items()}
    shares["total"] = sum(shares.values())
    shares["dearest_commit"] = max(one.gas for one in sent["commit"])
    return shares


def summarise(cases: list[Json], dearest: Dearest) -> Json:
    """Returns the main figures: of later laps, and of the last of several queries."""
    plain = [case for case in cases if not case["is_refusing"] and case["solvers"] > 1]
    asked = {name: gas[-1] for name, gas in plain[0]["questions"].items()}
    totals = {
        is_refusing: {
            str(case["solvers"]): case["later"]["total"]
            for case in cases
            if case["is_refusing"] == is_refusing and case["solvers"] > 1
        }
        for is_refusing in (False, True)
    }
    return {
        "commit": max(case["later"]["dearest_commit"] for case in cases),
        "challenge": max(asked["dispute_vote"], asked["dispute_claim"]),
        "query": asked["query"],
        "answer": asked["answer"],
        "settle": max(case["later"]["settle"] for case in cases),
        "per_solver": totals[False],
        "third_rejecting": totals[True],
        "dearest": asdict(dearest),
        "targets": TARGETS,
        "cases": cases,
    }


def main() -> None:
    """Measures all sizes, with `--quick` one and four solvers only. It is an error if an act costs more than
    assumed."""
    parser = argparse.ArgumentParser(description="What does a round cost on the chain?")
    parser.add_argument("--quick", action="store_true", help="one and four solvers only")
    is_quick = parser.parse_args().quick
    sizes = (1, 4) if is_quick else (1, 4, 10, 64)
    cases, dearest = list[Json](), Dearest()
    with open_round_chain(BUILD / "gas", replace(BOUNDS_LOCAL)) as chain:
        for size in sizes:
            for is_refusing in (False, True):
                with chain.undone():
                    cases.append(measure_case(chain, Case(size, max(size, 8), is_refusing), dearest))
                print(cases[-1], flush=True)
        prices = list_prices(chain, (1, 2, 8) if is_quick else (1, 2, 8, 16, 64), cases)
    report = {**summarise(cases, dearest), "prices": [asdict(one) for one in prices]}
    print(write_report("gas", report))
    short = [one for one in prices if not one.holds]
    if short:
        raise SystemExit(f"dearer than `protocol/economics/gas_costs.py` prices them: {short}")


if __name__ == "__main__":
    main()
