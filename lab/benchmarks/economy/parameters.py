"""The task that agents play, what the world outside is assumed to be, and what a call costs in gas.

Windows are those for blocks of 12 s, a fifth as long: a round takes 36 blocks, a seat that is disputed in it
plays 23 rounds more.
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
from touchstone.protocol.spec.game.presets import LIMITS_LOCAL
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms, GameWindows
from touchstone.protocol.spec.params import LATE_RATE_ONE, TOKEN_WEI

LIMITS = LIMITS_LOCAL
ROUNDS, SEGMENTS, DRAWS = 8, 10, 2
SOLVERS, VERIFIERS, WHISTLEBLOWERS = 5, 6, 6
TRAIN_BLOCKS = 30
"""From when a round has its beacon until an honest claim is committed."""
WINDOWS = GameWindows(
    delay=1, draw_grid=2, train_min=36, train_max=90, audit_max=20, post=5, respond=120, dispute=1_440,
    ask=720,
)  # fmt: skip
GAS_PRICE = TOKEN_WEI // 10**7
"""wei of the task's token for one gas."""
LOOK = 5 * TOKEN_WEI
"""Replay and trace that it takes to prove a fault."""
FIGURES = Figures(
    cost=30 * TOKEN_WEI,
    gain=100 * TOKEN_WEI,
    round_blocks=TRAIN_BLOCKS + 6,
    gas=price_gas(GAS_PRICE, 1, LOOK, SOLVERS, DRAWS),
    withholding_gain=10 * TOKEN_WEI,
    owned=Fraction(1, 3),
)
"""C 30, V 100, where a solver refuses to serve the task states to bear 10."""
MODEL_WORTH = 150 * TOKEN_WEI
"""What a right claim that is merged is worth to the submitter."""
AUDIT_MARGIN = Fraction(5, 4)
"""Pay of an audit over its least."""
REPLAY = FIGURES.cost // SEGMENTS
GAS: dict[type[GameCall], int] = {
    calls.CommitRound: 170_000, calls.PostRoot: 300_000, calls.JudgeVotes: 176_000, calls.JoinSeat: 150_000,
    calls.OpenContest: CONTEST_GAS, calls.AnswerContest: CONTEST_LEVEL_GAS, calls.NameChild: 95_000,
    calls.BringLeaf: LEAF_GAS + SOLVERS * CLAIM_GAS, calls.AskSigner: 138_000, calls.AnswerAsk: ANSWER_GAS,
    calls.ConvictSeat: 300_000, calls.DisputeStatement: 205_000, calls.EndDispute: 315_000,
}  # fmt: skip
"""By kind (docs/decisions/0028, 0029); a solver's round has its share of what anybody may send."""
OTHER_GAS, REFUSED_GAS = 80_000, 40_000


def make_word(*parts: object) -> bytes:
    """A word that nothing else has."""
    return sha256(repr(parts).encode()).digest()


@cache
def make_terms() -> GameTerms:
    """The task: its amounts are the least that satisfy every rule, and audits are paid a quarter more."""
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
    """What a call costs its sender in gas, in wei. Votes are priced by who signed them."""
    return (REFUSED_GAS if is_refused else GAS.get(type(call), OTHER_GAS)) * GAS_PRICE


def change_terms(terms: GameTerms, changes: dict[str, int]) -> GameTerms:
    """Other windows or amounts."""
    windows = {name: value for name, value in changes.items() if hasattr(terms.windows, name)}
    amounts = {name: value for name, value in changes.items() if hasattr(terms.amounts, name)}
    return replace(
        terms, windows=replace(terms.windows, **windows), amounts=replace(terms.amounts, **amounts)
    )
