"""Did the run show what it set out to? Each expectation, whether it holds, and the figure it rests on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from protocol.compute.digest import tensor_root
from protocol.compute.export import SAFETENSORS_NAME
from protocol.compute.model import parameter_layout
from protocol.spec.containers import ModelConfig
from tests.e2e.luck import HIGHEST_LUCK


@dataclass(frozen=True)
class Finding:
    """One expectation of a run."""

    holds: bool
    sentence: str


Report = dict[str, Any]


def judge_run(report: Report, rounds: int, solver_pay_wei: int) -> list[Finding]:
    """All expectations of a run, from its joined report."""
    return [
        *_judge_cheats(report),
        *_judge_honest(report),
        *_judge_rejected(report, solver_pay_wei),
        *_judge_training(report, rounds),
        *_judge_luck(report),
    ]


def _judge_cheats(report: Report) -> Iterator[Finding]:
    cheats = [party for party in report["parties"] if not party["honest"]]
    for cheat in cheats:
        yield Finding(cheat["slashed"] > 0, f"{cheat['name']} cheated and was slashed")
    if not cheats:
        yield Finding(report["slashes"] == 0, f"nobody cheated, {report['slashes']} slashes")
        yield Finding(report["fees"] == 0, f"nobody was late, {report['fees']} fees burned")


def _judge_honest(report: Report) -> Iterator[Finding]:
    honest = [party for party in report["parties"] if party["honest"]]
    harmed = [p["name"] for p in honest if p["slashed"] or p["fees"] or p["stake_after"] != p["stake_before"]]
    names = ", ".join(harmed) or "none lost anything"
    yield Finding(not harmed, f"{len(honest)} honest parties are whole: {names}")


def _judge_rejected(report: Report, solver_pay_wei: int) -> Iterator[Finding]:
    claims = report["claims"]
    rejected = [claim for claim in claims if not claim["was_accepted"]]
    merged = [claim for claim in rejected if claim["is_merged"]]
    yield Finding(not merged, f"{len(rejected)} rejected claims, {len(merged)} of them merged")
    paid = {p["account"]: p["earned_for"].get("solver", 0) for p in report["parties"]}
    for account, amount_wei in paid.items():
        accepted = sum(c["account"] == account and c["status"] == "ACCEPTED" for c in claims)
        if amount_wei != accepted * solver_pay_wei:
            yield Finding(False, f"{account} has {accepted} accepted claims and was paid {amount_wei} wei")
    for cheat in (p for p in report["parties"] if not p["honest"] and p["role"] == "solver"):
        count = sum(claim["account"] == cheat["account"] for claim in claims)
        sentence = f"{cheat['name']} went on after its slash: {count} claims in {report['rounds']} rounds"
        yield Finding(count == report["rounds"], sentence)


def _judge_training(report: Report, rounds: int) -> Iterator[Finding]:
    losses = report["loss_per_round"]
    pairs = list(zip(losses, losses[1:], strict=False))
    falls = all(later < earlier for earlier, later in pairs)
    yield Finding(
        falls and len(pairs) == rounds,
        f"held-out loss falls every round: {losses[0]:.3f} to {losses[-1]:.3f}",
    )
    yield Finding(report["is_closed"], "all rounds are settled and the task is closed")
    trained = report["exported_weights_root"] == report["final_weights_root"]
    yield Finding(trained, "the exported model is the one that the chain's claims give, bit by bit")


def _judge_luck(report: Report) -> Iterator[Finding]:
    luck = report["luck"]
    yield Finding(
        luck < HIGHEST_LUCK,
        f"a run like this one fails by luck once in {round(1 / luck)}" if luck else "luck has no part in it",
    )


def compute_exported_root(folder: Path, model: ModelConfig) -> str:
    """The tree root of the exported weights, in canonical order; empty where nothing was exported."""
    path = folder / SAFETENSORS_NAME
    if not path.is_file():
        return ""
    tensors = load_file(path)
    return tensor_root(torch.cat([tensors[p.name].reshape(-1) for p in parameter_layout(model)])).hex()
