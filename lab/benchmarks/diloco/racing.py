"""Runs the same training by nodes, by torchft and by hivemind in turn, and measures all alike.

    python -m lab.benchmarks.diloco.racing PLAN

It runs the members of one plan. If the system allows it, they get a network with nothing but a loopback, so
that all bytes on it are theirs.
"""

import ctypes
import fcntl
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from lab.benchmarks.diloco.verifiable import CHUNK_TERMS, HELDOUT_ROWS, SHAPES, make_beacon
from lab.benchmarks.reports import BUILD
from tests.training_setting import (
    HELDOUT_BYTES,
    OUTER_LEARNING_RATE,
    OUTER_MOMENTUM,
    PEAK_LEARNING_RATE,
    read_standard_library,
)
from touchstone.protocol.spec.schedule import compute_learning_rate
from touchstone.protocol.spec.shard_draws import assign_shards, draw_sample_start
from touchstone.protocol.spec.task_spec import ScheduleConfig

ROOT = BUILD.parent
PEERS = {"torchft": "torchft==0.2.0", "hivemind": "hivemind==1.1.12"}
OURS = "touchstone"
FORMAT = "float32"
LIMIT_S = 900.0
SAID = 3000
"""Characters of a failed member's output that are shown."""
MODEL_FIELDS = (
    "vocabulary_size", "hidden_size", "intermediate_size", "layer_count", "head_count", "kv_head_count",
    "context_tokens",
)  # fmt: skip
"""The first fields of `DecoderConfig`; the others keep their defaults."""
LIGHTHOUSE = "127.0.0.1:29510"
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


# Environments
def install_peer(name: str) -> Path:
    """Returns the interpreter of the peer's environment. The environment is made the first time, and again if
    PyTorch's version changes. Raises CalledProcessError if that fails."""
    folder = BUILD / "training" / name
    python, stamp = folder / "bin" / "python", folder / "installed"
    wanted = [f"torch=={torch.__version__.split('+')[0]}", "numpy", PEERS[name]]
    if not stamp.exists() or stamp.read_text() != " ".join(wanted):
        # Minutes, and gigabytes where pip takes PyTorch's CUDA build.
        print(f"installing {', '.join(wanted)} below {folder}, once", file=sys.stderr, flush=True)
        make = [sys.executable, "-m", "venv", "--clear", str(folder)]
        subprocess.run(make, check=True, capture_output=True, text=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *wanted]
        subprocess.run(install, check=True, capture_output=True, text=True)
        stamp.write_text(" ".join(wanted))
    return python


def explain(fault: Exception) -> str:
    """Returns why a kind was left out: the error, and the end of the output of a failed command."""
    said = (fault.stderr or fault.stdout or "") if isinstance(fault, subprocess.CalledProcessError) else ""
    return f"{fault} {said[-SAID:]}".strip()


# One run
@dataclass(frozen=True)
class Race:
    """The runs of a model. `rounds` counts the measured rounds; one more comes before them. `repeats` counts
    the runs of each kind, each with its own seed."""

    size: str
    rounds: int
    inner_steps: int
    segment_steps: int
    repeats: int
    members: int = 2
    rows: int = 8


@dataclass(frozen=True)
class Result:
    """The result of a run. `tokens_s` is a member's rate in training. `outer_s` is the time of an outer step
    at the member that reached it last, so that it includes no waiting. `outer_bytes` are those that a member
    sends and receives for it, None if members share a network with others. `peak_bytes` is the memory of the
    largest member, `heldout` the held-out loss in nats."""

    tokens_s: float
    outer_s: float
    outer_bytes: float | None
    peak_bytes: int
    heldout: float


def write_plan(race: Race, kind: str, seed: int, folder: Path) -> dict[str, Any]:
    """Writes and returns the plan that the members read; data and draws are the same for all kinds."""
    data, model, rounds = read_standard_library(), SHAPES[race.size], race.rounds + 1
    (folder / "data").write_bytes(data)
    schedule = ScheduleConfig(PEAK_LEARNING_RATE, race.inner_steps, rounds * race.inner_steps)
    trained, tokens = len(data) - HELDOUT_BYTES, model.context_tokens
    room = HELDOUT_BYTES - tokens - 1
    plan = {
        **asdict(race),
        "kind": kind,
        "seed": seed,
        "rounds": rounds,
        "folder": str(folder),
        "data": str(folder / "data"),
        "model": [getattr(model, name) for name in MODEL_FIELDS],
        "tokens": tokens,
        "format": FORMAT,
        "chunk_terms": CHUNK_TERMS[FORMAT],
        "peak_rate": PEAK_LEARNING_RATE,
        "warmup_steps": race.inner_steps,
        "rates": [compute_learning_rate(schedule, step) for step in range(schedule.total_steps)],
        "outer_rate": OUTER_LEARNING_RATE,
        "outer_momentum": OUTER_MOMENTUM,
        "heldout_tokens": HELDOUT_BYTES,
        "heldout": [trained + room * row // (HELDOUT_ROWS - 1) for row in range(HELDOUT_ROWS)],
        "starts": [_draw(race, seed, rounds, slot, trained, tokens) for slot in range(race.members)],
        "lighthouse": f"http://{LIGHTHOUSE}",
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    return plan


def _draw(race: Race, seed: int, rounds: int, slot: int, trained: int, tokens: int) -> list[list[list[int]]]:
    """Returns the first token of each row, by round and step, drawn as nodes draw them."""
    found = []
    for beacon in (make_beacon(seed, index) for index in range(rounds)):
        shard = assign_shards(beacon, race.members)[slot]
        found.append(
            [
                [draw_sample_start(beacon, shard, step, row, trained, tokens) for row in range(race.rows)]
                for step in range(race.inner_steps)
            ]
        )
    return found


def run_once(race: Race, kind: str, seed: int) -> Result:
    """Runs members through all rounds. Raises RuntimeError with a member's output if it fails."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        plan = write_plan(race, kind, seed, folder)
        plan["python"] = sys.executable if kind == OURS else str(install_peer(kind))
        (folder / "plan.json").write_text(json.dumps(plan))
        command = [sys.executable, "-m", "lab.benchmarks.diloco.racing", str(folder / "plan.json")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{kind} at {race.size}: {(done.stdout + done.stderr)[-SAID:]}")
        found = [json.loads((folder / f"member-{n}.json").read_text()) for n in range(race.members)]
        is_apart = (folder / "apart").exists()
        return summarize(race, plan["tokens"], found, is_apart)


def summarize(race: Race, tokens: int, found: Sequence[Mapping[str, Any]], is_apart: bool) -> Result:
    """Returns the result from the members' notes, without the first round."""
    trained = race.rows * tokens * race.inner_steps
    moved = found[0]["bytes"]
    outer_bytes = 2 * (moved[-1] - moved[0]) / (len(moved) - 1) / race.members
    return Result(
        tokens_s=statistics.fmean(trained / statistics.median(one["inner_s"][1:]) for one in found),
        outer_s=statistics.median(min(s) for s in zip(*(one["outer_s"][1:] for one in found), strict=True)),
        outer_bytes=outer_bytes if is_apart else None,
        peak_bytes=max(one["peak_bytes"] for one in found),
        heldout=found[0]["heldout"],
    )


# All runs
Table = dict[str, dict[str, list[Result]]]
"""The results of each repeat, by size and kind."""


def race_all(races: Sequence[Race], notify: Callable[[str], None]) -> tuple[Table, dict[str, str]]:
    """Runs every kind in turn, repeatedly. Also returns why kinds were left out; a failed kind is not tried
    again."""
    table: Table = {}
    failures: dict[str, str] = {}
    for race in races:
        rows = table.setdefault(race.size, {kind: [] for kind in (OURS, *PEERS)})
        for seed in range(1, race.repeats + 1):
            for kind in (OURS, *PEERS):
                if kind in failures:
                    continue
                try:
                    rows[kind].append(run_once(race, kind, seed))
                    notify(f"{race.size} {kind}: {rows[kind][-1]}")
                except (RuntimeError, subprocess.CalledProcessError) as fault:
                    if kind == OURS:
                        raise
                    failures[kind] = explain(fault)
                    notify(f"{kind} is left out: {failures[kind]}")
    return table, failures


def compare(table: Table, failures: Mapping[str, str]) -> dict[str, Any]:
    """Returns the lines of the report: medians of the ratios of consecutive runs. For outer steps, bytes and
    memory the last model stands for all; `by_size` has each."""
    by_size = {size: {peer: _compare(rows, peer) for peer in PEERS} for size, rows in table.items()}
    first, last = list(table)[0], list(table)[-1]
    lines: dict[str, Any] = {
        f"tokens_vs_{peer}": {size: by_size[size][peer].get("tokens_s") for size in table} for peer in PEERS
    }
    lines |= {f"outer_vs_{peer}": by_size[last][peer].get("outer_s") for peer in PEERS}
    lines |= {
        "bytes_vs_torchft": by_size[last]["torchft"].get("outer_bytes"),
        "memory_vs_torchft": by_size[last]["torchft"].get("peak_bytes"),
        "loss_vs_torchft": _compare_losses(table[first]),
    }
    runs = {
        size: {kind: [asdict(one) for one in own] for kind, own in rows.items()}
        for size, rows in table.items()
    }
    return {**lines, "by_size": by_size, "runs": runs, "left_out": dict(failures)}


def _compare(rows: Mapping[str, Sequence[Result]], peer: str) -> dict[str, float]:
    pairs = [(asdict(a), asdict(b)) for a, b in zip(rows[OURS], rows[peer], strict=False)]
    names = ("tokens_s", "outer_s", "outer_bytes", "peak_bytes")
    return {
        name: statistics.median(own[name] / other[name] for own, other in pairs)
        for name in names
        if pairs and all(own[name] and other[name] for own, other in pairs)
    }


def _compare_losses(rows: Mapping[str, Sequence[Result]]) -> float | None:
    """Returns how far our mean loss lies above theirs, in units of the range of their losses over seeds; None
    if there are too few."""
    own, other = ([one.heldout for one in rows[kind]] for kind in (OURS, "torchft"))
    if len(other) < 2 or max(other) == min(other):
        return None
    return (statistics.fmean(own) - statistics.fmean(other)) / (max(other) - min(other))


# The members of one run
def enter_own_network() -> bool:
    """Moves this process into an empty network with a loopback. Returns whether the system allows it."""
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET):
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
            return False
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
    return True


def run_members(path: Path) -> int:
    """Starts all members of a plan and waits. Returns 1 if one of them failed, else 0."""
    plan, folder = json.loads(path.read_text()), path.parent
    if enter_own_network():
        (folder / "apart").touch()
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"}
    with ExitStack() as stack:

        def start(name: str, *command: str) -> subprocess.Popen[bytes]:
            """Starts a process that ends with this one; its output is a file."""
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(command, env=variables, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        if plan["kind"] == "torchft":
            lighthouse = Path(plan["python"]).with_name("torchft_lighthouse")
            given = [
                "--bind",
                LIGHTHOUSE,
                "--min_replicas",
                str(plan["members"]),
                "--join_timeout_ms",
                "10000",
            ]
            start("lighthouse", str(lighthouse), *given)
        script = ["-m", "lab.benchmarks.diloco.node_member"]
        if plan["kind"] != OURS:
            script = [str(Path(__file__).with_name("plain_member.py"))]
        members = [
            start(f"member-{n}", plan["python"], *script, str(path), str(n)) for n in range(plan["members"])
        ]
        deadline, failed = time.monotonic() + LIMIT_S, list[int]()
        while any(member.poll() is None for member in members) and time.monotonic() < deadline:
            failed = [n for n, member in enumerate(members) if member.poll()]
            if failed:
                break
            time.sleep(0.05)
        failed = failed or [n for n, member in enumerate(members) if member.poll() != 0]
    for n in failed[:1]:
        print(f"member {n}:", (folder / f"member-{n}.log").read_text(errors="replace")[-SAID:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_members(Path(sys.argv[1])))
