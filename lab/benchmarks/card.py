"""Checks exact programs on a graphics card: how fast are they, and is every bit right?

Single kernels are compared with PyTorch's operations, whole steps and recorded recipes with the processor.
Then steps are timed beside plain PyTorch, and one is profiled. Each result is printed at once; a part that
fails does not stop the others. All parts take about seven minutes. Writes build/card/report.json.
"""

import argparse
import os
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from lab.benchmarks.card_run.steps import (
    CPU,
    digest,
    make_decoder,
    make_subject,
    open_steps,
    run_on_card,
    run_on_cpu,
)
from lab.benchmarks.reports import write_report
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.card_choice import choose_kernels, take_card_kernels

DEVICE = "cuda"
ROWS, TOKENS = 8, 1024
BIT_STEPS = 3
FORMATS = ("exact15", "exact20", "exact8", "float32")
Found = dict[str, Any]


def compare_steps() -> Found:
    """Compares the states after each step on the card and on the processor, as a graph and kernel by
    kernel."""
    found: Found = {}
    for size, formats in (("0.2M", ("exact15", "exact20", "exact8")), ("1M", ("exact15", "exact20"))):
        subject = make_decoder(size, 2, 64, batches=BIT_STEPS)
        for name in formats:
            built = subject.build(name)
            right = [digest(end) for end in run_on_cpu(subject, built, name)]
            for kind in ("kernels", "graph"):
                steps = open_steps(built, name, DEVICE, kind == "graph")
                own = [digest(end) for end in run_on_card(subject, steps)]
                differ = sum(a != b for a, b in zip(own, right, strict=True))
                found[f"{size} {name} {kind}"] = {"differ": differ, "is_graph": steps.is_graph}
                print(size, name, kind, found[f"{size} {name} {kind}"], flush=True)
    return found


def compare_recipes() -> Found:
    """Compares two steps of each recorded recipe: equal bits in exact15, the largest relative distance in
    float32."""
    recipes = import_module("lab.benchmarks.recipes_run.recipe_list")
    found: Found = {}
    for name, recipe in recipes.RECIPES.items():
        try:
            found[name] = _compare_recipe(recipe, (recipes.ROWS, recipes.TOKENS), recipes.VOCABULARY)
        except Exception as error:
            found[name] = f"skipped: {type(error).__name__}: {str(error)[:200]}"
        print(name, found[name], flush=True)
    return found


def _compare_recipe(recipe: Any, shape: tuple[int, int], vocabulary: int) -> Found:
    torch.manual_seed(7)
    module = recipe.make().eval()
    subject = make_subject(module, shape, vocabulary, recipe.optimizer, batches=2, is_started=False)
    found: Found = {}
    for name in ("exact15", "float32"):
        built = subject.build(name, 512)
        right = run_on_cpu(subject, built, name)
        own = run_on_card(subject, open_steps(built, name, DEVICE, is_captured=True))
        if name == "exact15":
            found["differ"] = sum(digest(a) != digest(b) for a, b in zip(own, right, strict=True))
        else:
            found["distance"] = max(
                float((a - b).abs().max() / b.abs().max().clamp(min=1e-30))
                for ends in zip(own, right, strict=True)
                for a, b in zip(*ends, strict=True)
            )
    return found


def measure_large(turns: int) -> Found:
    """Profiles an exact15 step of 124 M parameters, then times exact15 and plain PyTorch in turn."""
    speeds = import_module("lab.benchmarks.card_run.speeds")
    started = time.monotonic()
    subject = make_decoder("124M", ROWS, TOKENS)
    built = subject.build("exact15")
    print(f"built in {time.monotonic() - started:.0f} s", flush=True)
    found: Found = {"profile": speeds.profile(subject, built, "exact15", DEVICE)}
    for line in (found["profile"]["step_ms"], found["profile"]["operations_ms"]):
        print(line, flush=True)
    print("\n".join(found["profile"]["dearest_ms"]), flush=True)
    torch.cuda.empty_cache()
    calls = {"exact15": speeds.make_program_step(subject, built, "exact15", DEVICE)}
    print("exact15 runs", flush=True)
    calls["plain"] = speeds.make_plain_step(subject, DEVICE)
    found["speed"] = speeds.format_rates(subject, speeds.time_turns(calls, turns))
    return found


def measure_speed(sizes: list[str], formats: list[str], turns: int, compiles: bool) -> Found:
    """Measures tokens a second by size and format."""
    speeds = import_module("lab.benchmarks.card_run.speeds")
    found: Found = {}
    for size in sizes:
        subject = make_decoder(size, ROWS, TOKENS)
        calls = {
            name: speeds.make_program_step(subject, subject.build(name), name, DEVICE) for name in formats
        }
        calls["plain"] = speeds.make_plain_step(subject, DEVICE)
        if compiles:
            calls["compiled"] = speeds.make_plain_step(subject, DEVICE, compiles=True)
        found[size] = speeds.format_rates(subject, speeds.time_turns(calls, turns))
        print(size, found[size], flush=True)
        del calls
        torch.cuda.empty_cache()
    return found


def list_parts(options: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Returns the parts by name, the most important first."""
    bits = import_module("lab.benchmarks.card_run.kernel_bits")
    sizes, formats = options.sizes.split(","), options.formats.split(",")
    return {
        "cases": lambda: bits.compare_cases(DEVICE, options.limit),
        "steps": compare_steps,
        "large": lambda: measure_large(options.turns),
        "shapes": lambda: bits.compare_large(DEVICE),
        "blocks": lambda: bits.time_blocks(DEVICE, options.limit),
        "functions": lambda: bits.compare_functions(DEVICE, options.patterns),
        "recipes": compare_recipes,
        "speed": lambda: measure_speed(sizes, formats, options.turns, options.compiles),
    }


def measure(options: argparse.Namespace) -> Found:
    """Returns the content of the report; for a part that fails, its error."""
    card = torch.device(DEVICE)
    report: Found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "kernels": choose_kernels(card).__name__,
    }
    print(report, flush=True)
    started = time.monotonic()
    parts = list_parts(options)
    for name in options.parts.split(","):
        begun = time.monotonic()
        try:
            report[name] = parts[name]()
        except Exception:
            report[name] = {"failed": traceback.format_exc()}
            traceback.print_exc()
        torch.cuda.empty_cache()
        now = time.monotonic()
        print(f"{now - started:6.0f} s  {name} ({now - begun:.0f} s): {report[name]}", flush=True)
        write_report("card", report)
    return report


def main() -> None:
    """Runs the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    names = "cases,steps,large,shapes,blocks,functions,recipes,speed"
    parser.add_argument("--parts", default=names, help=f"some of {names}")
    parser.add_argument("--sizes", default="1M,6M,30M", help="models of the part speed")
    parser.add_argument("--formats", default=",".join(FORMATS), help="formats of the part speed")
    parser.add_argument("--turns", type=int, default=5, help="runs of each timed step")
    parser.add_argument(
        "--limit", type=float, default=75, help="seconds for each of the parts cases and blocks"
    )
    parser.add_argument("--patterns", type=int, default=1 << 28, help="numbers that the part functions takes")
    parser.add_argument("--compiles", action="store_true", help="time compiled PyTorch too")
    parser.add_argument("--plain", action="store_true", help="without Triton's kernels")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("This machine has no graphics card that PyTorch can use: nothing was measured.")
        return
    pin_kernels(os.cpu_count() or 1, device=CPU)
    torch.backends.cuda.matmul.allow_tf32 = False
    take_card_kernels(not options.plain)
    measure(options)


if __name__ == "__main__":
    main()
