"""The task that agents play, assumptions about the outside world, and the gas price of each call.

Windows are a fifth as long as those for blocks of 12 s. A round takes 36 blocks, and a seat that is disputed
in it plays 23 rounds more.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from hashlib import sha256

from touchstone.protocol.economics.amounts import derive_amounts, refuse_bad_money
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.economics.gas_costs import (
    ANSWER_GAS,
    CLAIM_GAS,
    CONTEST_GAS,
    CONTEST_LEVEL_GAS,
    LEAF_GAS,
    price_gas,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms, GameWindows
from touchstone.protocol.spec.params import LATE_RATE_ONE, TOKEN_WEI

LIMITS = BOUNDS_LOCAL
ROUNDS, SEGMENTS, DRAWS = 8, 10, 2
SOLVERS, VERIFIERS, WHISTLEBLOWERS = 5, 6, 6
TRAIN_BLOCKS = 30
"""Blocks from a round's beacon to the commitment of an honest claim."""
WINDOWS = GameWindows(
    delay=1, draw_grid=2, train_min=36, train_max=90, audit_max=20, post=5, respond=120, dispute=1_440,
    query=720,
)  # fmt: skip
GAS_PRICE = TOKEN_WEI // 10**7
"""Wei of the task's token for one gas."""
LOOK = 5 * TOKEN_WEI
"""The cost of the replay and the trace that prove a fault."""
FIGURES = Figures(
    cost=30 * TOKEN_WEI,
    gain=100 * TOKEN_WEI,
    round_blocks=TRAIN_BLOCKS + 6,
    gas=price_gas(GAS_PRICE, 1, LOOK, SOLVERS, DRAWS),
    withholding_gain=10 * TOKEN_WEI,
    owned=Fraction(1, 3),
)
"""The cost C of a round is 30 tokens. A false claim that is accepted gains 100 tokens (V), refusing to serve
gains 10 (V_r)."""
MODEL_WORTH = 150 * TOKEN_WEI
"""The worth of a right merged claim to the submitter."""
AUDIT_MARGIN = Fraction(5, 4)
"""An audit is paid this many times the least pay that the rules allow."""
REPLAY = FIGURES.cost // SEGMENTS
GAS: dict[type[GameCall], int] = {
    calls.CommitRound: 170_000, calls.PostRoot: 300_000, calls.JudgeVotes: 176_000, calls.JoinSeat: 150_000,
    calls.OpenContest: CONTEST_GAS, calls.AnswerContest: CONTEST_LEVEL_GAS, calls.NameChild: 95_000,
    calls.BringLeaf: LEAF_GAS + SOLVERS * CLAIM_GAS, calls.QueryVote: 138_000, calls.AnswerQuery: ANSWER_GAS,
    calls.ConvictSeat: 300_000, calls.DisputeStatement: 205_000, calls.EndDispute: 315_000,
}  # fmt: skip
"""Gas of each call (docs/decisions/0028, 0029). A solver's round includes its share of the calls that anybody
may send."""
OTHER_GAS, REFUSED_GAS = 80_000, 40_000


def make_word(*parts: object) -> bytes:
    """Returns a hash that nothing else has."""
    return sha256(repr(parts).encode()).digest()


@cache
def make_terms() -> GameTerms:
    """Returns the terms of the task. Amounts are the least that satisfy every rule; audits are paid a quarter
    more."""
    ones = replace(GameAmounts(*[1] * 11), solver_pay=100 * TOKEN_WEI)
    terms = GameTerms(
        submitter="", domain=make_word("economics"), root=make_word("root"), rounds=ROUNDS,
        segment_count=SEGMENTS, draws=DRAWS, late_chance=LATE_RATE_ONE // 2, solver_seats=SOLVERS,
        least_solvers=1, least_verifiers=VERIFIERS, least_whistleblowers=3, contest_levels=1, is_exact=False,
        windows=WINDOWS, amounts=ones,
    )  # fmt: skip
    terms = derive_amounts(terms, FIGURES)
    pays = {name: int(getattr(terms.amounts, name) * AUDIT_MARGIN) for name in ("audit_pay", "late_pay")}
    terms = replace(terms, amounts=replace(terms.amounts, **pays))
    refuse_bad_money(terms, FIGURES)
    return terms


def price_call(call: GameCall, is_refused: bool) -> int:
    """Returns what a call costs its sender in gas, in wei. The gas of votes is charged to their signers."""
    return (REFUSED_GAS if is_refused else GAS.get(type(call), OTHER_GAS)) * GAS_PRICE


def change_terms(terms: GameTerms, changes: dict[str, int]) -> GameTerms:
    """Returns the terms with other windows or amounts."""
    windows = {name: value for name, value in changes.items() if hasattr(terms.windows, name)}
    amounts = {name: value for name, value in changes.items() if hasattr(terms.amounts, name)}
    return replace(
        terms, windows=replace(terms.windows, **windows), amounts=replace(terms.amounts, **amounts)
    )
