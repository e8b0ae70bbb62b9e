"""Judges whether anything in a run is wrong, whatever the machine. How long it took is not asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from touchstone.explorer.names import show_wei

Report = dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """One expectation of a run."""

    holds: bool
    statement_key: str


def judge_run(report: Report) -> list[Finding]:
    """Returns all expectations, and whether they hold."""
    parts = (_judge_task, _judge_roots, _judge_loss, _judge_cheats, _judge_honest, _judge_money)
    return [finding for part in parts for finding in part(report)]


def _judge_task(report: Report) -> Iterator[Finding]:
    done, rounds = len(report["rounds"]), report["task_rounds"]
    yield Finding(done == rounds, f"{done} of {rounds} rounds are merged")
    closed = report["is_closed"]
    yield Finding(closed, f"the task is {'closed, all seats paid out' if closed else 'not closed'}")


def _judge_roots(report: Report) -> Iterator[Finding]:
    others = [one["round"] for one in report["rounds"] if one["posted"] != one["own"]]
    said = f"differ in rounds {others}" if others else "are those that the claims' bytes give, bit by bit"
    yield Finding(not others, f"the posted roots {said}")
    yield Finding(
        report["exported_weights_root"] == report["final_weights_root"],
        "the exported model is the one behind the last root",
    )


def _judge_loss(report: Report) -> Iterator[Finding]:
    losses = [one["loss"] for one in report["loss"]] or [0.0]
    falls = len(losses) > 1 and losses[-1] < losses[0]
    yield Finding(falls, f"the held-out loss fell from {losses[0]:.3f} to {losses[-1]:.3f}")


def _judge_cheats(report: Report) -> Iterator[Finding]:
    for one in report["parties"]:
        name = one["name"]
        if one["is_honest"]:
            if one["is_convicted"]:
                yield Finding(False, f"{name} is honest and was convicted")
            continue
        yield Finding(one["is_convicted"], f"{name} was {'' if one['is_convicted'] else 'not '}convicted")
        number = report["convicted_numbers"].get(name, {"is_fault": False})
        yield Finding(number["is_fault"], f"{name} fell by one number that lies outside its bound")
        merged = [c["round"] for c in report["claims"] if c["solver"] == name and c["is_merged"]]
        yield Finding(not merged, f"nothing of {name} is in the model" if not merged else f"merged: {merged}")
        lost = -one["change"]
        yield Finding(lost > 0 and one["moved"].get("pay", 0) <= 0, f"{name} lost {show_wei(lost)}")


def _judge_honest(report: Report) -> Iterator[Finding]:
    honest = [p for p in report["parties"] if p["is_honest"] and p["role"] != "submitter"]
    losers = [f"{p['name']} {show_wei(p['change'])}" for p in honest if p["change"] + p["asked"] < 0]
    said = f"lost money: {', '.join(losers)}" if losers else "lost nothing"
    spent = [f"{p['name']} paid {show_wei(p['asked'])} for answered asks" for p in honest if p["asked"]]
    yield Finding(not losers, "; ".join([f"{len(honest)} honest parties {said}", *spent]))
    unpaid = [p["name"] for p in honest if p["role"] == "solver" and p["moved"].get("pay", 0) <= 0]
    yield Finding(not unpaid, f"every honest solver was paid{': not ' if unpaid else ''}{', '.join(unpaid)}")


def _judge_money(report: Report) -> Iterator[Finding]:
    parties = report["parties"]
    wrong = [p["name"] for p in parties if sum(p["moved"].values()) != p["change"]]
    said = f"do not explain the wallets of {', '.join(wrong)}" if wrong else "explain every wallet to the wei"
    yield Finding(not wrong, f"the chain's events {said}")
    rest = sum(p["change"] for p in parties) + report["burned"]
    said = f"{rest} wei are missing" if rest else "what some lost, others have, or it is burned"
    yield Finding(rest == 0, said)
