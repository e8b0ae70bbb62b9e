"""Subcommands about limits: `calibrate` measures this machine, `policy` merges what operators measured."""

import argparse
import asyncio
import tempfile
from pathlib import Path

from node.submit import build_task
from protocol.actions.runtime.joining import catch_up, fetch_dataset, read_spec
from protocol.actions.runtime.opening import open_party
from protocol.adapters.profiles import read_profile, write_profile
from protocol.compute.determinism import pin_kernels
from protocol.spec.containers import Limits, TaskSpec
from protocol.spec.game.posted import make_spec
from protocol.spec.params import TAU_FRACTION_BITS, UNIT_EXPONENT
from protocol.spec.policy import MARGIN, QUANTITIES
from protocol.spec.profile import Profile, compute_maxima, merge_profiles
from protocol.spec.task_rules import find_training_malformations, refuse_broken
from scripts.calibration import list_segments, measure
from scripts.console import Console
from scripts.home import unlock_key
from scripts.role_commands import open_config
from scripts.task_file import read_task_file
from scripts.tasks import find_game


def run_calibrate(options: argparse.Namespace) -> None:
    """Measure a task on this machine's kernels and write the signed profile."""
    console, key = Console(), unlock_key(options.home, options.password_file)
    operator = key.address.lower()
    if Path(options.task).is_file():
        spec, data = _read_task(Path(options.task), operator)
    else:
        spec, data = asyncio.run(_fetch_task(options, console))
    pin_kernels(1)
    segments = list_segments(spec, options.segments, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        profile = measure(Path(folder), spec, data, segments, operator, console.say)
    write_profile(options.out, profile, key)
    for name, value in zip(QUANTITIES, compute_maxima(profile), strict=True):
        console.say(f"largest distance of {name}: {float(value):.3g}")
    console.say(f"signed by {operator}: {options.out}")


def _read_task(path: Path, operator: str) -> tuple[TaskSpec, bytes]:
    """What a task file would post; the limits in it have no part in the measurement."""
    file = read_task_file(path)
    data = file.dataset.read_bytes()
    return make_spec(*build_task(file.plan, data, operator, bytes(32))), data


async def _fetch_task(options: argparse.Namespace, console: Console) -> tuple[TaskSpec, bytes]:
    """A posted task and its dataset."""
    async with open_party(open_config(options, console)) as party:
        await catch_up(party)
        task, _ = find_game(party.state, options.task)
        spec = read_spec(party, task)
        refuse_broken(find_training_malformations(spec))
        return spec, await fetch_dataset(party, task, spec)


def run_policy(options: argparse.Namespace) -> None:
    """Merge signed profiles into limits, in the form of a task file."""
    profiles = [read_profile(path) for path in options.profiles]
    text = render_policy(profiles, merge_profiles(profiles))
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    print(text, end="")


def render_policy(profiles: list[Profile], limits: Limits) -> str:
    """The table `[limits]`, and above it what it rests on."""
    subject, lines = profiles[0].subject, []
    lines.append(f"# {MARGIN} times the largest honest distance of these profiles")
    lines.append(f"# training {subject.training}, {subject.numeric_format}, k = {subject.segment_steps}")
    for profile in profiles:
        maxima = ", ".join(f"{float(value):.3g}" for value in compute_maxima(profile))
        counts = f"{profile.segments} segments, {len(profile.configurations)} configurations"
        lines.append(f"# {profile.operator}: {counts}, maxima {maxima} ({profile.machine})")
    lines += ["", "[limits]", *_render_limits(limits)]
    return "\n".join(lines) + "\n"


def _render_limits(limits: Limits) -> list[str]:
    """As integers in the units of docs/spec.md, section 6, where nothing is rounded; a comment says how much
    that is. TOML's integers have 64 bits with the sign, Python's reader takes them of any size."""
    return [
        f"{name} = {value}  # {value * 2.0 ** _get_unit(name):.3g}" for name, value in vars(limits).items()
    ]


def _get_unit(name: str) -> int:
    return -TAU_FRACTION_BITS if name.startswith("tau_") else UNIT_EXPONENT
