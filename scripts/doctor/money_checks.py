"""Checks an account's money: gas for a round, and the stakes of its seats."""

from touchstone.node.kit.gas_factor import measure_gas_factor
from touchstone.protocol.adapters.chain.transactions import COIN_REMEDY
from touchstone.protocol.economics.gas_costs import price_gas
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake, get_stake
from touchstone.protocol.spec.game.state import Seat
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.task_names import show_seat, show_task
from touchstone.scripts.doctor.patient import NotTested, Patient

CONTEST_LEVELS = 12
"""The levels of a contest if no task is named; they do not change what a round costs."""
KEPT_GAS = 48_000_000
"""A seat's account keeps coin for so much gas at the present price: the answer that takes most, 12 million,
with its margin and at twice the price. The alert `CoinLow` has the same figure."""
TOLD_FACTOR = 1.1
"""Smaller differences are ignored, because versions may differ so much."""


async def check_gas(patient: Patient) -> str:
    """Checks that the account can pay the gas of a round."""
    chain, account = patient.get_chain(), patient.get_config().account
    head, factor = await chain.head(), await measure_gas_factor(chain)
    price_wei = head.base_fee_wei + await chain.connection.priority_fee()
    needed_wei = max(1, round(factor * _compute_round_wei(patient, account, price_wei)))
    coin_wei = await chain.connection.balance_of(account)
    if coin_wei < needed_wei:
        raise _no_gas_for_a_round(account, price_wei, needed_wei, coin_wei)
    said = f"{coin_wei / 1e18:.4f} coin, enough for {coin_wei // needed_wei} rounds"
    kept = round(KEPT_GAS * factor)
    if coin_wei < kept * price_wei:
        said += (
            f"; WARNING: at today's price that is {coin_wei / max(1, price_wei) / 1e6:.1f} million gas, "
            f"and a seat's account needs {kept / 1e6:.0f} million: {kept * price_wei / 1e18:.4f} coin in all"
        )
    if factor > TOLD_FACTOR:
        said += (
            f"; calls take {factor:.1f} times as much gas on this chain as on the one where tasks' figures "
            "were measured: multiply gas_price in [economics] by that"
        )
    return said


def _no_gas_for_a_round(account: str, price_wei: int, needed_wei: int, coin_wei: int) -> InvalidInput:
    return InvalidInput(
        what="the account cannot pay the gas of one round",
        expected=f"{needed_wei / 1e18:.9f} coin at {price_wei} wei for one gas",
        actual=f"{coin_wei / 1e18:.9f} coin",
        where=account,
        remedy=COIN_REMEDY,
    )


def _compute_round_wei(patient: Patient, account: str, price_wei: int) -> int:
    """Returns what a round costs in the role of the seat; a solver's if there is none."""
    try:
        _, game = patient.get_game()
    except NotTested:
        return price_gas(price_wei, CONTEST_LEVELS, 0).solver_round
    terms, seat = game.terms, find_seat(game, account)
    costs = price_gas(
        price_wei, terms.contest_levels, 0, terms.solver_seats, terms.draws, terms.least_solvers
    )
    return costs.solver_round if seat is None or seat.role == SeatRole.SOLVER else costs.vote


async def check_stake(patient: Patient) -> str:
    """Checks that the seats of this account have the stake to be in a round."""
    state, account = patient.get_state(), patient.get_config().account.lower()
    games = dict([patient.get_game()]) if patient.task is not None else state.games
    seats = [(task, game, seat) for task, game in games.items() if (seat := find_seat(game, account))]
    for task, game, seat in seats:
        has_wei, least_wei = get_stake(game, seat.number), get_required_stake(game, seat.role)
        if not game.is_closed and has_wei < least_wei:
            raise _small_stake(task, seat, has_wei, least_wei)
    if not seats:
        return await _describe_needed_tokens(patient)
    return f"{len(seats)} seat{'s' if len(seats) > 1 else ''}, with at least what the task asks for at stake"


async def _describe_needed_tokens(patient: Patient) -> str:
    """Describes the tokens that a seat of the named task needs, and the account's. Raises InvalidInput if
    those are too few."""
    try:
        _, game = patient.get_game()
    except NotTested:
        return "no seat yet"
    chain, account = patient.get_chain(), patient.get_config().account
    has_wei = await chain.vault.credit_of(account) + await chain.token.balance_of(account)
    solver_wei, auditor_wei = (get_required_stake(game, one) for one in (SeatRole.SOLVER, SeatRole.VERIFIER))
    needed = f"{format_tokens(solver_wei)} as a solver, {format_tokens(auditor_wei)} as an auditor"
    if has_wei < min(solver_wei, auditor_wei):
        raise _too_few_tokens(account, needed, has_wei)
    warning = "WARNING: too few for a seat in each role; " if has_wei < max(solver_wei, auditor_wei) else ""
    return f"no seat yet; {warning}a seat takes {needed}, the account has {format_tokens(has_wei)}"


def _too_few_tokens(account: str, needed: str, has_wei: int) -> InvalidInput:
    return InvalidInput(
        what="the account has too few tokens for a seat of this task",
        expected=f"{needed}, and some for bonds",
        actual=f"{format_tokens(has_wei)} in wallet and credit",
        where=account,
        remedy="Send it tokens of the deployment, or choose another task.",
    )


def _small_stake(task: bytes, seat: Seat, has_wei: int, least_wei: int) -> InvalidInput:
    return InvalidInput(
        what="a seat has less at stake than its task asks for: it will be in no further round",
        expected=f"at least {format_tokens(least_wei)}",
        actual=format_tokens(has_wei),
        where=f"{show_seat(seat)} of {show_task(task)}",
        remedy="Fill it up with `touchstone stake`, or leave with `touchstone leave`.",
    )
