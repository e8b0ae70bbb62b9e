"""Plays a task of 124 million parameters to its end, and measures memory, bytes and minutes.

    ./dev bench large            124 million parameters, vocabulary 50,257, 1 GB of JSONL; an hour, 65 GB
    ./dev bench large --short    a tiny model of the same kind, the same play; a minute or two
    ./dev bench large --device cuda    the honest solver trains on a graphics card

A tokenizer is trained on the standard library's text. The text is written as JSONL repeatedly, packed by
`data pack`, and named in a task file beside a recorded step with its weights. Two solvers train two rounds of
four steps with limited memory; three verifiers with other kernels audit. In the second round one solver errs:
it is disputed, and convicted by one number. All parties run on one machine. Writes build/large/report.json,
or build/large-short/report.json.
"""

import argparse
import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.benchmarks.large_run.party import (
    NOTE_NAME,
    Clock,
    Disk,
    Heard,
    LargeOrder,
    TimedWatch,
    make_large_part,
    read_peak_bytes,
)
from lab.benchmarks.reports import BUILD, write_report
from tests.e2e.world import Keeper
from tests.task_models import parameter_count
from touchstone.demo.clock import keep_time
from touchstone.demo.company import Company, open_company
from touchstone.demo.parts import make_loop
from touchstone.demo.player import Said, Trained, withdraw
from touchstone.demo.roster import CHEAT, SUBMITTER, Member
from touchstone.demo.run import cancel, open_show, wait_for
from touchstone.demo.screen import Screen
from touchstone.demo.show import Setting, Show
from touchstone.demo.stage import Folders
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.loop.opening import open_node
from touchstone.node.submit import build_task, post_task
from touchstone.protocol.adapters.files.mapped_files import map_file
from touchstone.protocol.adapters.machine.extra_libraries import load_extra
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.tasks.task_example import read_python_sources
from touchstone.scripts.tasks.task_file import TaskFile, read_task_file
from touchstone.step.plain_decoder import Decoder, DecoderConfig, describe_decoder
from touchstone.step.record_step import Shape, record_step

GIGABYTE = 10**9
MOST_SOLVER_BYTES, MOST_AUDITOR_BYTES = 6 * GIGABYTE, 3 * GIGABYTE
MOST_DATA_RATIO, MOST_TRACE_SHARE, MOST_HOURS = 1.2, 0.06, 2.5
SOLVER_MB, AUDITOR_MB = 3_000, 1_500
ROUNDS, INNER_STEPS, SEGMENT_STEPS = 2, 4, 2
WEIGHTS_SEED = 1
END_OF_TEXT = "<|endoftext|>"
DOCUMENT_CHARACTERS = 4_000
FAULT = "SUBTRACT"
"""The operation in which the false solver errs; the last one of its kind writes new weights."""
WHOLE = "all of it"
"""The name of the stage that contains all others."""
LAST_KERNELS = 9
"""A rank beyond the last one: its kernels use no vector instructions in PyTorch's own operations."""
VERIFIERS = [f"verifier-{number}" for number in (1, 2, 3)]
MEMBERS = (
    Member(CHEAT, SeatRole.SOLVER, is_honest=False),
    Member("solver-1", SeatRole.SOLVER),
    *(Member(name, SeatRole.VERIFIER, kernel_rank=LAST_KERNELS) for name in VERIFIERS),
)
SHOWN = (
    "failure", "peak_bytes", "fetched_of_held", "fetched_of_touched", "trace_share", "disk_bytes",
    "shared_bytes", "seconds", "holds",
)  # fmt: skip
Json = dict[str, Any]


@dataclass(frozen=True)
class Play:
    """The settings. `name` is the folder, `tokens` the length of a step's single row. The tokenizer is
    trained on at most `text_bytes`; `jsonl_bytes` are packed."""

    name: str
    model: DecoderConfig
    tokens: int
    text_bytes: int
    jsonl_bytes: int


FULL = Play("large", DecoderConfig(50_257, 768, 2048, 12, 12, 12, 1024, tied=True), 256, 40_000_000, GIGABYTE)
SHORT = Play(
    "large-short",
    DecoderConfig(512, 32, 128, 2, 2, 2, 64, tied=True),
    64,
    400_000,
    4_000_000,
)


# The task
def train_tokenizer(path: Path, texts: list[str], vocabulary: int) -> None:
    """Trains a byte-level BPE and writes it as tokenizer.json. Raises InvalidInput if `tokenizers` is not
    installed."""
    library = load_extra("tokenizers", "a task with a tokenizer")
    tokenizer = library.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        texts, vocab_size=vocabulary, special_tokens=[END_OF_TEXT], show_progress=False
    )
    tokenizer.save(str(path))


def write_jsonl(path: Path, texts: list[str], size_bytes: int) -> None:
    """Writes the texts as documents, repeatedly, until the file has at least `size_bytes`."""
    lines, written = [json.dumps({"text": text}).encode() + b"\n" for text in texts], 0
    with path.open("wb") as file:
        while written < size_bytes:
            for line in lines:
                written += file.write(line)
                if written >= size_bytes:
                    break


def cut_texts(text: str) -> list[str]:
    """Cuts a text into documents of equal length."""
    return [text[first : first + DOCUMENT_CHARACTERS] for first in range(0, len(text), DOCUMENT_CHARACTERS)]


def format_task(play: Play) -> str:
    """Returns the task file. Its limits are ten times the demo's: they were chosen, not measured."""
    return f"""
dataset = "corpus"
preset = "local"
rounds = {ROUNDS}
inner_steps = {INNER_STEPS}
segment_steps = {SEGMENT_STEPS}
solver_seats = 2
draws = 1
late_chance = 0
least_solvers = 1
least_verifiers = {len(VERIFIERS)}
least_whistleblowers = 0
carry_moments = 1
outer_learning_rate = 0.7
outer_momentum = 0.6

[model]
step = "step"

[schedule]
peak_learning_rate = 0.0002
warmup_steps = 2
total_steps = {ROUNDS * INNER_STEPS}

[amounts]
solver_pay = "10"

[economics]
amounts = "derived"

[windows]
train_min = 1200
train_max = 1800
audit_max = 900
post = 200
respond = 600
dispute = 7200
query = 18000

[limits]
tau_m = 1.9e-3
eps_m = 1e-5
tau_v = 8.4e-3
floor_v = 7.2e-15
tau_w = 3.1e-3
tau_r = 1.2e-7
"""


def make_task(play: Play, folder: Path, clock: Clock) -> TaskFile:
    """Makes tokenizer, dataset, step and task file in an existing folder."""
    texts = cut_texts(read_python_sources(play.text_bytes).decode(errors="replace"))
    with clock.time("train the tokenizer"):
        train_tokenizer(folder / "tokenizer.json", texts, play.model.vocabulary_size)
    with clock.time("write JSONL"):
        write_jsonl(folder / "text.jsonl", texts, play.jsonl_bytes)
    with clock.time("pack"):
        sources, tokenizer = [folder / "text.jsonl"], folder / "tokenizer.json"
        pack(PackPlan(sources, folder / "corpus", tokenizer=tokenizer, end_of_text=END_OF_TEXT))
    with clock.time("record the step"):
        module, shape = Decoder(play.model, WEIGHTS_SEED), Shape(1, play.tokens)
        record_step(module, shape, config=describe_decoder(play.model)).save(folder / "step")
    (folder / "task.toml").write_text(format_task(play))
    return read_task_file(folder / "task.toml")


# The play
def make_orders(show: Show, device: str) -> list[LargeOrder]:
    """Returns the order that each process is started with. Honest solvers train on `device`."""
    return [
        LargeOrder(
            **vars(order),
            memory_mb=SOLVER_MB if order.member.role == SeatRole.SOLVER else AUDITOR_MB,
            device=device if order.member.role == SeatRole.SOLVER and order.member.is_honest else "cpu",
            onednn=order.member.role == SeatRole.SOLVER,
            first_false_step=(ROUNDS - 1) * INNER_STEPS,
        )
        for order in show.make_orders()
    ]


@asynccontextmanager
async def open_submitter(
    show: Show, file: TaskFile, company: Company, clock: Clock, ticking: "asyncio.Task[None]"
) -> AsyncIterator[None]:
    """Posts the task, and plays it to its end with the other parties."""
    assert file.weights is not None
    async with open_node(replace(show.configure(SUBMITTER), memory_mb=AUDITOR_MB), Keeper) as node:
        with clock.time("post the task"):
            start = await asyncio.to_thread(file.weights.read)
            dataset, salt = map_file(file.dataset), secrets.token_bytes(32)
            built = await asyncio.to_thread(build_task, file.plan, dataset, node.account, salt, start)
            task = await post_task(node.chain, node.store, *built, dataset, start)
            del start
        await node.following.take_next()
        await node.join(task)
        looping = asyncio.create_task(make_loop(node, node.list_rooms()).run())
        watching = asyncio.create_task(show.watch.run())
        try:
            await wait_for(lambda: looping.done() and watching.done(), company, ticking, looping, watching)
        finally:
            await cancel(looping, watching)
        await withdraw(node)
        yield


def read_notes(folders: Folders) -> Json:
    """Returns the last notes of each party that wrote any."""
    paths = {one.name: folders.parties / one.name / NOTE_NAME for one in MEMBERS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


async def play_task(
    play: Play, folders: Folders, file: TaskFile, clock: Clock, limit_s: float, device: str
) -> Json:
    """Plays the task from its posting to its end, and returns the measurements. A play that fails, or is not
    over in time, is reported too: `failure` says why."""
    setting = Setting(file.plan, MEMBERS, b"", FAULT, folders)
    async with open_show(setting, Screen()) as show, AsyncExitStack() as stack:
        told, heard = show.watch, Heard()
        state = ChainState.of(told.chain)
        watch = TimedWatch(told.chain, told.names, told.notify, state, told.seconds, clock=clock)
        show.watch = watch

        def hear(name: str, message: Said | Trained) -> None:
            if isinstance(message, Said):
                heard.hear(name, message.line)
            show.hear(name, message)

        company = stack.enter_context(open_company(hear, make_large_part))
        company.start(make_orders(show, device))
        ticking = asyncio.create_task(keep_time(show.devnet, 1 + len(MEMBERS)))
        disk = Disk(folders.root, folders.parties)
        looking = asyncio.create_task(disk.watch())
        stack.push_async_callback(cancel, ticking, looking)
        failure = ""
        with clock.time("play"):
            try:
                async with asyncio.timeout(limit_s):
                    await stack.enter_async_context(open_submitter(show, file, company, clock, ticking))
                    await wait_for(lambda: company.is_over, company, ticking)
            except (TouchstoneError, TimeoutError) as error:
                failure = str(error) or f"not over within {limit_s:.0f} s"
        peaks = {name: read_peak_bytes(process.pid or 0) for name, process in company.processes.items()}
        notes = read_notes(folders)
        merged = {index: len(one.merged) for index, one in watch.rounds.items()}
    return {
        "failure": failure,
        "parameters": parameter_count(play.model),
        "peak_bytes": peaks | {SUBMITTER: read_peak_bytes("self")},
        "disk_bytes": disk.used_bytes,
        "shared_bytes": disk.shared_bytes,
        "data": notes,
        "votes": heard.votes,
        "traces": heard.traces,
        "convicted": watch.convicted,
        "merged": merged,
        "seconds": clock.seconds,
        "milestones": clock.list_milestones(),
    }


# What it came to
def judge(found: Json) -> dict[str, bool]:
    """Returns whether each aim was reached."""
    solvers = [name for name in found["peak_bytes"] if name == CHEAT or name.startswith("solver")]
    peaks, said = found["peak_bytes"], {word for _, _, word in found["votes"]}
    kernels = {name: one["kernels"]["cpu_capability"] for name, one in found["data"].items()}
    ratios = list_ratios(found, "held_bytes")
    return {
        "played to the end": not found["failure"],
        "two rounds are merged": sorted(found["merged"]) == list(range(ROUNDS))
        and all(found["merged"].values()),
        "an audit accepts": "ACCEPT" in said,
        "an audit rejects": any(word.startswith("REJECT") for word in said),
        "the cheat alone is convicted": found["convicted"] == [CHEAT],
        "a solver's memory": all(0 < peaks[name] <= MOST_SOLVER_BYTES for name in solvers),
        "an auditor's memory": all(0 < peaks[name] <= MOST_AUDITOR_BYTES for name in VERIFIERS),
        "other kernels": not {kernels.get(name) for name in solvers}
        & {kernels.get(name) for name in VERIFIERS},
        "data fetched": bool(ratios) and all(ratio <= MOST_DATA_RATIO for ratio in ratios.values()),
        "trace fetched": bool(found["traces"])
        and all(part <= MOST_TRACE_SHARE * whole for _, part, whole in found["traces"]),
        "time": found["seconds"][WHOLE] <= MOST_HOURS * 3600,
    }


def list_ratios(found: Json, beside: str) -> dict[str, float]:
    """Returns the bytes of leaves and proofs that each party fetched, over its `held_bytes` or
    `touched_bytes`. The dataset's index is left out, because it is fetched once a task."""
    data = {name: one for name, one in found["data"].items() if one[beside]}
    return {name: round(one["fetched_bytes"] / one[beside], 3) for name, one in data.items()}


def make_report(found: Json) -> Json:
    """Returns the report with ratios and aims."""
    return found | {
        "fetched_of_held": list_ratios(found, "held_bytes"),
        "fetched_of_touched": list_ratios(found, "touched_bytes"),
        "trace_share": {who: round(part / whole, 4) for who, part, whole in found["traces"]},
        "holds": judge(found),
    }


def run(play: Play, limit_s: float, device: str = "cpu") -> Json:
    """Runs the whole benchmark. A play is ended after `limit_s`; honest solvers train on `device`."""
    folders, clock = Folders(BUILD / play.name), Clock()
    with folders.hold():
        material = folders.root / "material"
        material.mkdir()
        with clock.time(WHOLE):
            file = make_task(play, material, clock)
            found = asyncio.run(play_task(play, folders, file, clock, limit_s, device))
        return make_report(found)


def main() -> None:
    """Measures, judges and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a tiny model, the same play")
    parser.add_argument("--limit-h", type=float, default=2 * MOST_HOURS, help="hours until a play is ended")
    parser.add_argument("--device", default="cpu", help="where the honest solver trains, for example cuda")
    options = parser.parse_args()
    play = SHORT if options.short else FULL
    report = run(play, 3600 * options.limit_h, options.device)
    print(json.dumps({name: report[name] for name in SHOWN}, indent=1))
    print(write_report(play.name, report))


if __name__ == "__main__":
    main()
