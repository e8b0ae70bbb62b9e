"""Reads an operator's figures, by which a task's amounts are judged, from the table [economics].

A submitter writes it into the task file, an operator that joins a task into its `config.toml`. Missing
figures follow from the task.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.economics.gas_costs import price_gas
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.params import CHEAT_VERIFIER_SHARE_PERCENT
from touchstone.scripts.command_line.typed_amounts import parse_tokens
from touchstone.scripts.tasks.toml_tables import build_container, malformed, refuse_long

COST_SHARE = Fraction(3, 10)
"""The cost of computing a round as a share of a solver's pay, if the operator states none."""
WITHHOLDING_SHARE = Fraction(1, 10)
"""What a solver gains by refusing to serve its auditors, as a share of the gain from a false claim, if the
operator states none."""
GAS_PRICE_WEI = 10**11
"""Wei of the task's token for one gas: a million gas costs a tenth of a token."""
MONEY = ("compute_cost", "outside_gain", "withholding_gain", "drift_gain", "proof_cost")
"""Keys that may be in whole tokens, in quotes. Without quotes a number is wei; 0 is never quoted."""

BOUNDS: Mapping[str, tuple[int, int | None]] = {
    "owned_percent": (0, 99),
    "detected_percent": (1, 100),
    "voided_percent": (0, 99),
    "round_blocks": (1, None),
}
"""The least and the greatest value of a key; for all other keys the least value is 0."""


@dataclass(frozen=True)
class Stated:
    """The table [economics], money in wei. Symbols and meanings are in `protocol/economics/assumptions.py`.
    `proof_cost` is the replay and the trace that prove a fault."""

    compute_cost: int
    outside_gain: int
    withholding_gain: int
    drift_gain: int
    proof_cost: int
    gas_price: int
    owned_percent: int
    detected_percent: int
    voided_percent: int
    round_blocks: int


def assume(terms: GameTerms) -> Stated:
    """Returns the assumptions about a task if nothing is stated."""
    pay = terms.amounts.solver_pay
    return Stated(
        compute_cost=int(pay * COST_SHARE),
        outside_gain=pay,
        withholding_gain=int(pay * WITHHOLDING_SHARE),
        drift_gain=0,
        proof_cost=0,
        gas_price=GAS_PRICE_WEI,
        owned_percent=CHEAT_VERIFIER_SHARE_PERCENT,
        detected_percent=100,
        voided_percent=0,
        round_blocks=terms.windows.train_min,
    )


def read_figures(table: Any, terms: GameTerms, path: Path) -> Figures:
    """Returns the figures for a task from a table [economics], perhaps empty, of the file at `path`. Raises
    InvalidInput, naming the key."""
    if not isinstance(table, Mapping):
        raise malformed(path, "economics", "a table", repr(table))
    refuse_long(path, table, "economics.")
    whole = {**asdict(assume(terms)), **table}
    stated = build_container(Stated, whole, path, "economics.", _to_wei)
    for name, value in asdict(stated).items():
        least, most = BOUNDS.get(name, (0, None))
        if value < least or (most is not None and value > most):
            bounds = f"{least} or more" if most is None else f"{least} to {most}"
            raise malformed(path, f"economics.{name}", bounds, str(value))
    try:
        return _make_figures(stated, terms)
    except InvalidInput as refusal:
        raise malformed(path, "economics", str(refusal.expected), repr(dict(table))) from refusal


def _to_wei(kind: type, table: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        name: parse_tokens(value) if name in MONEY and isinstance(value, str) else value
        for name, value in table.items()
    }


def _make_figures(stated: Stated, terms: GameTerms) -> Figures:
    sizes = (terms.solver_seats, terms.draws, terms.least_solvers)
    return Figures(
        cost=stated.compute_cost,
        gain=stated.outside_gain,
        round_blocks=stated.round_blocks,
        gas=price_gas(stated.gas_price, terms.contest_levels, stated.proof_cost, *sizes),
        withholding_gain=stated.withholding_gain,
        drift_gain=stated.drift_gain,
        voided_share=Fraction(stated.voided_percent, 100),
        owned=Fraction(stated.owned_percent, 100),
        detection=Fraction(stated.detected_percent, 100),
    )
