"""Makes the report of a run as JSON: losses, money, utilisation, gas, claims, the convicted number."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from touchstone.demo.gas_use import QUESTION_CONTRACTS, ROUND_CONTRACTS, Gas
from touchstone.demo.observer import Recomputed
from touchstone.demo.roster import SUBMITTER, Member
from touchstone.demo.what_if import WithCheat
from touchstone.explorer.convicted_number import ConvictedNumber
from touchstone.protocol.adapters.reports.model_progress import ModelLoss, format_loss
from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.spec.game.claim_status import get_claim_status
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.money_reasons import PAID, MoneyKind, MoneyReason
from touchstone.protocol.spec.game.vault import PotKind

Json = dict[str, Any]


class TrainedLoss(NamedTuple):
    """The loss that a solver reports of steps of a round, up to step `step` of the task, in nats."""

    name: str
    round: int
    step: int
    loss: float


COLUMNS = ("pay", "shares", "locked", "lost", "spent")
"""Of a table of money; shares are those of slashes and bonds."""
PAY = PAID | {MoneyReason.RESTITUTION, MoneyReason.RESTORED_PAY}


@dataclass
class Pace:
    """Seconds by the demo's clock: `trained` by account and round; `end` is when the last root was posted."""

    trained: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    end: float = 0.0


@dataclass(frozen=True)
class Run:
    """All that is known of a run that is over. `accounts` are by name, `money` by account. `changes` are of
    wallets, in wei. `seated` is when an account took its seat. `cpu_s` is processor time by name."""

    members: Sequence[Member]
    accounts: Mapping[str, str]
    game: LoggedGame
    block: int
    money: Mapping[str, AccountMoney]
    changes: Mapping[str, int]
    gas: Gas
    pace: Pace
    seated: Mapping[str, float]
    cpu_s: Mapping[str, float]
    losses: Sequence[ModelLoss]
    recomputed: Sequence[Recomputed]
    numbers: Mapping[str, ConvictedNumber]
    trained: Sequence[TrainedLoss]
    with_cheat: WithCheat | None


def make_report(run: Run) -> Json:
    """Returns the report but for how long the run took. Amounts are in wei."""
    claims = list_claims(run)
    return {
        "unit": "wei",
        "rounds": [_show_round(one) for one in run.recomputed],
        "loss": [vars(one) for one in run.losses],
        "trained": [one._asdict() for one in run.trained],
        "with_cheat": _show_with_cheat(run.with_cheat),
        "parties": [_show_party(run, name) for name in (SUBMITTER, *(m.name for m in run.members))],
        "burned": sum(run.game.money.burned.values()),
        "burned_from": list_burned(run.game.money.burned),
        "claims": claims,
        "convicted_numbers": {_name(run, account): n.to_json() for account, n in run.numbers.items()},
        "utilisation": show_utilisation(run, claims),
        "gas": _show_gas(run.gas, len(claims)),
        "is_closed": run.game.is_closed,
        "task_rounds": run.game.terms.rounds,
        "blocks": run.block,
        "cpu_s": dict(run.cpu_s),
    }


def _show_round(one: Recomputed) -> Json:
    return {"round": one.round, "posted": one.posted.hex(), "own": one.own.hex()}


def _show_with_cheat(found: WithCheat | None) -> Json | None:
    if found is None:
        return None
    loss = found.loss if isfinite(found.loss) else None
    return {"round": found.round, "loss": loss, "shown": format_loss(found.loss)}


def _name(run: Run, account: str) -> str:
    return next((name for name, one in run.accounts.items() if one == account), account)


def _show_party(run: Run, name: str) -> Json:
    account = run.accounts[name]
    member = next((one for one in run.members if one.name == name), None)
    money = run.money.get(account, AccountMoney(account))
    everybody = {**run.game.former, **run.game.seats}.values()
    closed = {seat.account for seat in everybody if seat.status == SeatStatus.CONVICTED}
    return {
        "name": name,
        "role": SUBMITTER if member is None else member.role.name.lower(),
        "is_honest": member is None or member.is_honest,
        "account": account,
        "moved": list_moved(money),
        "change": run.changes[account],
        "asked": money.sums.get(MoneyReason.ANSWERED_QUERY, 0),
        "is_convicted": account in closed,
    }


def list_moved(money: AccountMoney) -> dict[str, int]:
    """Returns what came and went, in wei by column; all together is what the wallet has more."""
    pay = sum(wei for reason, wei in money.sums.items() if reason in PAY)
    moved = {"pay": pay, "shares": money.sum_settled(MoneyKind.SETTLED) - pay, "locked": -money.locked}
    moved |= {kind.value: -money.sum_settled(kind) for kind in (MoneyKind.LOST, MoneyKind.SPENT)}
    return {column: wei for column, wei in moved.items() if wei}


def list_burned(burned: Mapping[PotKind, int]) -> dict[str, int]:
    """Returns what of the losses and of the escrow nobody has any more, in wei."""
    spent = burned.get(PotKind.ESCROW, 0)
    return {"lost": sum(burned.values()) - spent, "spent": spent}


# Claims and their training
def list_claims(run: Run) -> list[Json]:
    """Returns what became of each claim."""
    found = []
    for game_round in run.game.rounds.values():
        for slot, claim in sorted(game_round.claims.items()):
            status = get_claim_status(run.game, game_round, slot, run.block)
            is_merged = game_round.phase == RoundPhase.POSTED and slot in game_round.merged
            found.append(
                {
                    "round": game_round.index,
                    "solver": _name(run, claim.account),
                    "status": status.name,
                    "is_merged": is_merged,
                    "is_convicted": claim.is_convicted,
                    "train_s": round(run.pace.trained.get((claim.account, game_round.index), 0.0), 3),
                }
            )
    return found


def show_utilisation(run: Run, claims: Sequence[Json]) -> Json:
    """Returns the training time of merged claims by the time that their solvers sat, from taking the seat to
    the last root; for honest solvers, and all together."""
    solvers = {}
    for member in run.members:
        if member.role != SeatRole.SOLVER or not member.is_honest:
            continue
        useful = sum(c["train_s"] for c in claims if c["solver"] == member.name and c["is_merged"])
        sat = run.pace.end - run.seated[run.accounts[member.name]]
        solvers[member.name] = {"train_s": round(useful, 3), "seat_s": round(sat, 3), "share": useful / sat}
    total = sum(one["train_s"] for one in solvers.values()) / sum(one["seat_s"] for one in solvers.values())
    return {"solvers": solvers, "all": total}


def _show_gas(gas: Gas, claims: int) -> Json:
    return {
        "per_solver_round": gas.get_per_solver_round(claims),
        "of_rounds": gas.get_sum(ROUND_CONTRACTS),
        "of_questions": gas.get_sum(QUESTION_CONTRACTS),
        "claims": claims,
        "by_contract": dict(gas.used),
        "transactions": dict(gas.transactions),
    }
