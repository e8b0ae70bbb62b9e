"""Is every act within the gas that the money rules price it at (`protocol/analysis/amounts.py`)?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.gas_bounds import measure_answer, measure_vote
from benchmarks.gas_contest import measure_contests
from benchmarks.gas_dispute import measure_dispute
from benchmarks.gas_play import DRAWS, Case
from protocol.analysis.amounts import price_gas
from protocol.spec.game.refusing import GasCosts
from tests.rounds.chain import RoundChain

CONTEST_LEVELS = 7
"""of 2^31 parameters."""
VOTE_CASES = (Case(4, 24), Case(16, 96))
"""Pools of which all places are dealt."""


@dataclass(frozen=True)
class Priced:
    """An act: what it was measured to cost, and what it is priced at."""

    name: str
    measured: int
    priced: int

    @property
    def holds(self) -> bool:
        """Whether the price covers it."""
        return self.measured <= self.priced


def price(solvers: int) -> GasCosts:
    """Of a task with so many seats, all taken, in units of gas."""
    return price_gas(1, CONTEST_LEVELS, 0, solvers, DRAWS, solvers)


def list_question_prices(chain: RoundChain) -> Iterator[Priced]:
    """Asks and disputes."""
    with chain.undone():
        yield Priced("answer", measure_answer(chain)["answer"], price(1).answer)
    with chain.undone():
        found = measure_dispute(chain)
        print(found, flush=True)
        yield Priced("defence", found["defence"], price(1).defence)
        yield Priced("conviction", found["conviction"], price(1).conviction)


def list_contest_prices(chain: RoundChain, solvers: int) -> Iterator[Priced]:
    """All answers to a contest of a right root; all moves of the contester of a wrong one."""
    with chain.undone():
        found = measure_contests(chain, solvers)
        print(found, flush=True)
    right, wrong = found["right"], found["wrong"]
    answers = sum(right["answers"]) + right["last"]
    yield Priced(f"contest of {solvers}", answers, price(solvers).contest)
    moves = wrong["contest"] + sum(wrong["names"]) + wrong["last"]
    yield Priced(f"fall of {solvers}", moves, price(solvers).fall)


def list_vote_prices(chain: RoundChain) -> Iterator[Priced]:
    """Votes that are handed in alone."""
    for case in VOTE_CASES:
        with chain.undone():
            yield Priced(f"vote of {case.solvers}", measure_vote(chain, case), price(case.solvers).vote)


def list_round_prices(cases: list[dict[str, Any]]) -> Iterator[Priced]:
    """Solver-rounds of the first lap, where storage is new."""
    for case in cases:
        solvers = case["solvers"]
        yield Priced(f"round of {solvers}", case["first_lap"]["total"], price(solvers).solver_round)


def list_prices(chain: RoundChain, sizes: tuple[int, ...], cases: list[dict[str, Any]]) -> list[Priced]:
    """All of them, contests and rounds with so many solvers."""
    contests = [one for size in sizes for one in list_contest_prices(chain, size)]
    return [
        *list_round_prices(cases),
        *list_vote_prices(chain),
        *list_question_prices(chain),
        *contests,
    ]
