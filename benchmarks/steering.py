"""How far can a solver steer the model while every element of its trace stays inside its bound?

Not by chance but the worst that is found: derivatives through the whole step say to which side each element
is pushed, to the edge of its bound. Per chunk length (the longest sum): one weight in units of lr, the whole
update, a poison over many steps, and what the chunk length costs. Beside it, for scale, what another order of
the same sums does. Writes build/steering/report.json and, with --plot, docs/steering.svg.
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.bending.attacks import (
    MODELS,
    Moment,
    Setting,
    Steerer,
    add_by_kind,
    build_setting,
    build_steerer,
    choose_weights,
    compare_weights,
    count_outside,
    estimate_reach,
    move_update,
    move_weight,
)
from benchmarks.bending.chart import Panel, write_chart
from benchmarks.bending.poison import Poison, build_poison, measure_many_steps
from benchmarks.setting import write_report
from protocol.compute.determinism import pin_kernels
from protocol.compute.interpreter import Interpreter
from protocol.compute.model import parameter_count
from protocol.compute.plain import StepResult
from protocol.compute.program import build_program, describe_program
from protocol.compute.step import TrainingState, compute_scalars
from protocol.spec.program import CHUNK_TERMS
from protocol.spec.referee import FORMATS

STAGES = (0, 20, 100)
"""Honest steps before the one that is bent: none, just warmed up, later."""
WORST_WEIGHTS = 4
"""Weights with the largest estimated reach that are attacked one by one."""
UPDATE_ROUNDS = 4
SVG = Path(__file__).resolve().parents[1] / "docs" / "steering.svg"


# --- One step -----------------------------------------------------------------------------------------------
def measure_stage(
    setting: Setting,
    steerer: Steerer,
    chunk: int,
    state: TrainingState,
    poison: Poison,
    ordinary: int | None = None,
) -> dict[str, Any]:
    """All attacks on the step from `state`. ordinary: the weight that stands for most, by default one."""
    spec, step = setting.with_chunk(chunk), state.local_step
    scalars = compute_scalars(spec, step, state.global_step)
    moment = steerer.begin(state, setting.get_batch(step), scalars)
    reach = estimate_reach(steerer, moment)
    median, worst = choose_weights(reach, WORST_WEIGHTS)
    ordinary = median if ordinary is None else ordinary
    moved = [move_weight(steerer, moment, weight) for weight in worst]
    return {
        "chunk_terms": chunk,
        "step": step + 1,
        "ordinary_weight": ordinary,
        "ordinary_weight_lr": move_weight(steerer, moment, ordinary),
        "worst_weight_lr": max(moved),
        "worst_weights_lr": moved,
        "worst_weights_estimated_lr": reach.weights[worst].tolist(),
        "weights_estimated_above_a_tenth_lr": int((reach.weights > 0.1).sum()),
        "update_norm": move_update(steerer, moment, reach, UPDATE_ROUNDS),
        **measure_poison_step(steerer, moment, poison),
        "other_order": measure_other_order(setting, chunk, moment),
    }


def measure_poison_step(steerer: Steerer, moment: Moment, poison: Poison) -> dict[str, Any]:
    """One step towards the poison: real and first-order gain in nats per token, a random push's beside it,
    shares of operations, elements that the checker finds outside."""
    slope = poison.compute_gradient(moment.honest.weights)

    def gain(result: StepResult) -> float:
        return -float(compare_weights(moment, result, steerer.optimizer) @ slope.double())

    steered, gains = steerer.steer({steerer.weights: -slope})
    outside = count_outside(steerer)
    scattered = [gain(steerer.scatter(seed)) for seed in range(3)]
    honest = float((moment.state.weights - moment.honest.weights).double() @ slope.double())
    return {
        "poison_gain_nats": gain(steered),
        "poison_gain_first_order_nats": sum(gains.values()),
        "poison_gain_of_random_signs_nats": max(map(abs, scattered)),
        "poison_change_of_the_honest_step_nats": honest,
        "share_by_operation": add_by_kind(steerer.program, gains),
        "elements_outside": outside,
    }


def measure_other_order(setting: Setting, chunk: int, moment: Moment) -> dict[str, float]:
    """The same step with its sums in other chunks: an honest machine's difference."""
    other = next(terms for terms in CHUNK_TERMS if terms != chunk)
    stepped = setting.advance(moment.state, other)
    result = StepResult(stepped.weights, stepped.first_moment, stepped.second_moment, moment.honest.loss)
    change = compare_weights(moment, result, setting.spec.optimizer)
    length = (moment.honest.weights - moment.state.weights).norm()
    return {
        "chunk_terms": other,
        "largest_weight_lr": float(change.abs().max()) / moment.rate,
        "update_norm": float(change.norm() / length),
    }


def measure_single_steps(
    setting: Setting, chunks: Sequence[int], stages: Sequence[int] = STAGES
) -> Iterator[dict[str, Any]]:
    """Every stage at every chunk length, from the same states."""
    poison = build_poison(setting.corpus, setting.spec)
    states = collect_states(setting, max(chunks), stages)
    ordinary: dict[int, int] = {}
    for chunk in chunks:
        steerer = build_steerer(setting.with_chunk(chunk))
        for state in states:
            known = ordinary.get(state.local_step)
            row = measure_stage(setting, steerer, chunk, state, poison, known)
            ordinary[state.local_step] = row["ordinary_weight"]
            yield row


def collect_states(setting: Setting, chunk: int, stages: Sequence[int]) -> list[TrainingState]:
    """Honest states after so many steps."""
    state, states = setting.begin(), []
    for step in range(max(stages) + 1):
        if step in stages:
            states.append(state)
        state = setting.advance(state, chunk)
    return states


# --- Cost ---------------------------------------------------------------------------------------------------
def measure_cost(setting: Setting, chunks: Sequence[int], rounds: int) -> dict[str, Any]:
    """Median step time at each chunk length over the longest's, taken in turns."""
    state, batch = setting.begin(), setting.get_batch(0)
    vectors = (state.weights, state.first_moment, state.second_moment)
    runs = []
    for chunk in chunks:
        spec = setting.with_chunk(chunk)
        built = build_program(describe_program(spec))
        runs.append((Interpreter(built.program, built.constants), compute_scalars(spec, 0, 0)))
    times: list[list[float]] = []
    for _ in range(rounds + 2):
        times.append([])
        for interpreter, scalars in runs:
            started = time.perf_counter()
            interpreter.run(vectors, *batch, scalars)
            times[-1].append(time.perf_counter() - started)
    ratios = [[seconds / row[-1] for seconds in row] for row in times[2:]]
    columns = range(len(chunks))
    return {
        "milliseconds": {
            str(chunks[n]): 1e3 * statistics.median(row[n] for row in times[2:]) for n in columns
        },
        "over_longest": {str(chunks[n]): statistics.median(row[n] for row in ratios) for n in columns},
    }


# --- Plot ---------------------------------------------------------------------------------------------------
def plot(report: dict[str, Any], path: Path) -> None:
    """One step by chunk length, and the poison over many steps."""
    panels = []
    if report["single_steps"]:
        panels.append(_plot_single(next(iter(report["single_steps"].values()))))
    if report.get("many_steps"):
        panels.append(_plot_many(report["many_steps"]["runs"]))
    write_chart(path, panels)


def _plot_single(rows: Sequence[dict[str, Any]]) -> Panel:
    last = max(row["step"] for row in rows)
    names = {
        "worst_weight_lr": "worst weight, in lr",
        "ordinary_weight_lr": "ordinary weight, in lr",
        "update_norm": "update, over its norm",
        "poison_gain_nats": "poison gain, nats per token",
    }
    chosen = sorted((row for row in rows if row["step"] == last), key=lambda row: int(row["chunk_terms"]))
    lines = {
        text: [(float(row["chunk_terms"]), float(row[name])) for row in chosen]
        for name, text in names.items()
    }
    lines["another order: update, over its norm"] = [
        (float(row["chunk_terms"]), row["other_order"]["update_norm"]) for row in chosen
    ]
    ticks = tuple(float(row["chunk_terms"]) for row in chosen)
    dashed = frozenset({"another order: update, over its norm"})
    title = f"one bent step (step {last})"
    return Panel(title, "longest sum, terms", "", lines, ticks if len(ticks) > 1 else (), True, dashed)


def _plot_many(runs: Sequence[dict[str, Any]]) -> Panel:
    """Bent runs against the honest one of their chunk length, honest ones against the first."""
    honest = {run["chunk_terms"]: run["curve"] for run in runs if run["kind"] == "honest"}
    first = next(iter(honest.values()))
    lines = {}
    for run in sorted(runs, key=lambda run: (run["kind"], run["chunk_terms"])):
        is_honest = run["kind"] == "honest"
        base = first if is_honest else honest[run["chunk_terms"]]
        if run["curve"] is not base:
            name = f"{'another order' if is_honest else run['kind']}, {run['chunk_terms']} terms"
            lines[name] = [
                (a["step"], a["poison_loss"] - b["poison_loss"])
                for a, b in zip(run["curve"], base, strict=True)
            ]
    dashed = frozenset(name for name in lines if not name.startswith("poison"))
    title = "poison loss, less that of honest training"
    return Panel(title, "steps", "nats per token", lines, (), False, dashed)


# --- Report -------------------------------------------------------------------------------------------------
def parse() -> argparse.Namespace:
    """Options; the defaults are the whole question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="steering", help="of the report's folder")
    parser.add_argument("--format", default="float32", choices=FORMATS, help="whose bounds hold")
    parser.add_argument("--stages", nargs="+", type=int, default=list(STAGES), help="honest steps before")
    parser.add_argument("--models", nargs="*", default=["small"], choices=MODELS, help="for single steps")
    parser.add_argument("--poison-model", default="small", choices=MODELS, help="for many steps")
    parser.add_argument("--chunks", nargs="+", type=int, default=list(CHUNK_TERMS), choices=CHUNK_TERMS)
    parser.add_argument("--steps", type=int, default=1000, help="of the poisoned training; 0: none")
    parser.add_argument("--random", action="store_true", help="also many steps with random signs")
    parser.add_argument("--sequences", type=int, default=8, help="of a batch")
    parser.add_argument("--cost-rounds", type=int, default=30)
    parser.add_argument("--plot", action="store_true", help=f"write docs/{SVG.name}")
    return parser.parse_args()


def main() -> None:
    """Measures, writing the report after each part."""
    options = parse()
    pin_kernels(1)
    torch.set_grad_enabled(False)
    report: dict[str, Any] = {"format": options.format, "cost": {}, "single_steps": {}}
    total = max(options.steps, *options.stages) + 1

    def note() -> None:
        print(time.strftime("%H:%M:%S"), write_report(options.name, report), flush=True)

    for name in options.models:
        setting = build_setting(MODELS[name], total, options.sequences, options.format)
        report["cost"][name] = {
            "params": parameter_count(MODELS[name]),
            **measure_cost(setting, sorted(options.chunks), options.cost_rounds),
        }
        rows = report["single_steps"].setdefault(name, [])
        for row in measure_single_steps(setting, options.chunks, options.stages):
            rows.append(row)
            note()
    if options.steps:
        setting = build_setting(MODELS[options.poison_model], total, options.sequences, options.format)
        report["many_steps"] = {"model": options.poison_model, "steps": options.steps, "runs": []}
        for run in measure_many_steps(setting, options.chunks, options.steps, options.random):
            report["many_steps"]["runs"].append(run)
            note()
    if options.plot:
        plot(report, SVG)
        print(SVG)


if __name__ == "__main__":
    main()
