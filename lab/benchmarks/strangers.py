"""Tests whether strangers keep a solver's node from serving its auditors.

The demo's network of processes, without a cheat, plays some rounds undisturbed. Then strangers disturb one
solver's node, for a minute and until the next round opens: 24 slow readers, 3,000 half-open connections, a
minute of malformed requests. Meanwhile a member sends one request a second. All runs on one machine, so the
strangers leave the processor to the others. Writes build/strangers/report.json.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from lab.benchmarks.reports import BUILD, write_report
from lab.benchmarks.strangers_run.load import MALFORMED_S, Target
from touchstone.demo.clock import keep_time
from touchstone.demo.company import open_company
from touchstone.demo.plan import DEFAULT, build_plan, read_dataset
from touchstone.demo.player import Said, Trained
from touchstone.demo.roster import make_roster
from touchstone.demo.run import cancel, open_show, open_submitter, wait_for
from touchstone.demo.screen import Screen
from touchstone.demo.show import Setting, Show
from touchstone.demo.stage import Folders
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.wire import request_paths
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.spec.training_codec import decode_training

LOOK_S = 1.0
MOST_SOCKETS = 256 + 64 + 96
"""The most sockets: connections, handshakes, and those that a node opens itself or is about to close
(`WireLimits`)."""
MOST_GROWTH_BYTES = 256 * 2**20
"""The most that strangers may add to a node's memory."""
MOST_LOG_BYTES = 2**20
MOST_RATIO = 1.5
"""The most that a disturbed round may take, over a usual one."""


@dataclass
class Seen:
    """What was seen in one span of time. `answers` counts the answers to a member's requests, by status or
    error."""

    sockets: int = 0
    memory_bytes: int = 0
    log_bytes: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0

    def look(self, pid: int, log: Path) -> None:
        """Takes one look at the process."""
        self.sockets = max(self.sockets, count_sockets(pid))
        self.memory_bytes = max(self.memory_bytes, read_memory_bytes(pid))
        self.log_bytes = log.stat().st_size if log.exists() else 0

    def to_json(self) -> dict[str, Any]:
        """Returns the values for the report."""
        return vars(self) | {"answers": dict(self.answers), "longest_s": round(self.longest_s, 2)}


def count_sockets(pid: int) -> int:
    """Returns the number of open sockets of a process; 0 if it has ended."""
    try:
        return sum("socket:" in _read_link(one) for one in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0


def _read_link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def read_memory_bytes(pid: int) -> int:
    """Returns the resident bytes of a process; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def ask_once(target: Target, key: AccountKey, seen: Seen) -> None:
    """Sends one request of a member, over a new connection: the first byte of the dataset."""
    signer, started_s = RequestSigner(key, target.domain), time.monotonic()
    headers = signer.sign("GET", target.path, target.account) | {"Range": "bytes=0-0"}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
            session.get(
                target.peer.format_url(target.path),
                headers=headers,
                ssl=aiohttp.Fingerprint(bytes.fromhex(target.fingerprint)),
            ) as answer,
        ):
            await answer.read()
            found = str(answer.status)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        found = type(error).__name__
    seen.answers[found] += 1
    seen.longest_s = max(seen.longest_s, time.monotonic() - started_s)


async def keep_looking(target: Target, key: AccountKey, pid: int, log: Path, seen: Seen) -> None:
    """Takes a look and sends a request each second, until cancelled."""
    while True:
        seen.look(pid, log)
        await ask_once(target, key, seen)
        await asyncio.sleep(LOOK_S)


def judge(
    usual: Seen, disturbed: Seen, usual_s: Sequence[float], disturbed_s: Sequence[float], words: Counter[str]
) -> dict[str, bool]:
    """Returns whether each aim was reached. `words` counts all votes by verdict."""
    return {
        "no 429 for a member": not disturbed.answers["429"],
        "every member's request is answered": not set(disturbed.answers) - {"200", "206"},
        "no auditor says UNSERVED": not words["UNSERVED"],
        "sockets": disturbed.sockets <= MOST_SOCKETS,
        "memory": disturbed.memory_bytes - usual.memory_bytes <= MOST_GROWTH_BYTES,
        "log": disturbed.log_bytes <= MOST_LOG_BYTES,
        "round time": median(disturbed_s) <= MOST_RATIO * median(usual_s),
    }


ROUNDS = 28
"""Rounds of the run; a minute has 12 to 20 of them."""
FIRST_USUAL, FIRST_DISTURBED = 1, 4
"""The first usual and the first disturbed round. Round 0 is none of them, because it waits for seats."""
PARTIES = (2, 3, 3)
NODE, MEMBER = "solver-1", "verifier-1"
LOOK_S = 0.1
VOTE = re.compile(r"round \d+ .*: (ACCEPT|REJECT_\w+|UNSERVED|ABSTAIN)")


@dataclass
class Course:
    """The results of a run.

    `opened` is when each round was first seen open, in seconds. `first_after` is the round that opened when
    the strangers stopped. `worked_s` is how long they worked.
    """

    opened: dict[int, float] = field(default_factory=dict)
    first_after: int = 0
    worked_s: float = 0.0
    words: Counter[str] = field(default_factory=Counter)
    usual: Seen = field(default_factory=Seen)
    disturbed: Seen = field(default_factory=Seen)
    load: dict[str, Any] = field(default_factory=dict)

    def list_times(self, first: int, end: int) -> list[float]:
        """Returns the seconds from each round's opening to the next one's."""
        return [
            self.opened[index + 1] - self.opened[index]
            for index in range(first, end)
            if index + 1 in self.opened
        ]


def find_target(show: Show) -> Target:
    """Returns the node to disturb, at the address that the chain has."""
    deployment, watch, account = show.devnet.deployment, show.watch, show.accounts[NODE]
    peer = next(one for one in watch.state.network.peers.values() if one.account == account)
    root = decode_training(watch.state.texts[watch.task]).dataset_root
    path = request_paths.format_path(request_paths.BLOB, BlobKey(BlobKind.DATASET, root))
    place = (deployment.chain_id, deployment.game)
    return Target(account, peer.url, peer.fingerprint.hex(), *place, path)


async def watch_rounds(show: Show, course: Course) -> None:
    """Notes when rounds open, until cancelled."""
    while True:
        if show.watch.state.games:
            course.opened.setdefault(show.watch.game.next_round - 1, time.monotonic())
        await asyncio.sleep(LOOK_S)


async def wait_for_round(show: Show, course: Course, index: int) -> None:
    """Waits until the round is open. Raises RuntimeError if the task closes first."""
    while index not in course.opened:
        if show.watch.state.games and show.watch.game.is_closed:
            raise RuntimeError(
                f"the task closed before round {index} opened: expected {ROUNDS} rounds, got "
                f"{len(course.opened)}; build/strangers has the nodes' logs"
            )
        await asyncio.sleep(LOOK_S)


async def disturb(show: Show, course: Course, pid: int) -> None:
    """Watches the node. When `FIRST_DISTURBED` opens, lets the strangers in for a minute and until a round
    opens."""
    await wait_for_round(show, course, FIRST_USUAL)
    target, key = find_target(show), AccountKey(show.keys[MEMBER])
    log = show.setting.folders.logs / f"{NODE}.log"
    looking = asyncio.create_task(keep_looking(target, key, pid, log, course.usual))
    try:
        await wait_for_round(show, course, FIRST_DISTURBED)
    finally:
        await cancel(looking)
    show.screen.notify("strangers", f"begin against {NODE}")
    words = ["-m", "lab.benchmarks.strangers_run.load", target.to_json()]
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    looking = asyncio.create_task(keep_looking(target, key, pid, log, course.disturbed))
    begun_s = time.monotonic()
    try:
        await asyncio.sleep(MALFORMED_S)
        course.first_after = max(course.opened) + 1
        await wait_for_round(show, course, course.first_after)
    finally:
        course.worked_s = time.monotonic() - begun_s
        await cancel(looking)
        process.terminate()
        said, _ = await process.communicate()
        course.load = json.loads(said or b"{}")
    show.screen.notify("strangers", "end")


async def play(show: Show) -> Course:
    """Plays the task from its posting to its end."""
    course = Course()

    def hear(name: str, message: Said | Trained) -> None:
        if isinstance(message, Said) and (found := VOTE.search(message.line)):
            course.words[found[1]] += 1
        show.hear(name, message)

    async with AsyncExitStack() as stack:
        company = stack.enter_context(open_company(hear))
        company.start(show.make_orders())
        pid = company.processes[NODE].pid or 0
        ticking = asyncio.create_task(keep_time(show.devnet, 1 + len(show.setting.members)))
        seeing = [
            asyncio.create_task(one) for one in (watch_rounds(show, course), disturb(show, course, pid))
        ]
        stack.push_async_callback(cancel, ticking, *seeing)
        await stack.enter_async_context(open_submitter(show, company, ticking))
        await wait_for(lambda: company.is_over and seeing[1].done(), company, ticking)
        seeing[1].result()
    return course


def make_report(course: Course) -> dict[str, Any]:
    """Returns times, what was seen, and the aims."""
    usual_s = course.list_times(FIRST_USUAL, FIRST_DISTURBED)
    disturbed_s = course.list_times(FIRST_DISTURBED, course.first_after)
    return {
        "usual_round_s": [round(one, 1) for one in usual_s],
        "disturbed_round_s": [round(one, 1) for one in disturbed_s],
        "ratio": round(median(disturbed_s) / median(usual_s), 2),
        "usual": course.usual.to_json(),
        "disturbed": course.disturbed.to_json(),
        "words": dict(course.words),
        "worked_s": round(course.worked_s, 1),
        "strangers": course.load,
        "holds": judge(course.usual, course.disturbed, usual_s, disturbed_s, course.words),
    }


async def run() -> Course:
    """Runs the network from its start to its end."""
    folders = Folders(BUILD / "strangers")
    members = make_roster(*PARTIES, with_cheat=False)
    setting = Setting(build_plan(DEFAULT, ROUNDS, *PARTIES, 1), members, read_dataset(), "SUBTRACT", folders)
    with folders.hold():
        async with open_show(setting, Screen()) as show:
            return await play(show)


def main() -> None:
    """Measures, judges, and writes the report."""
    report = make_report(asyncio.run(run()))
    print(json.dumps({name: report[name] for name in ("ratio", "disturbed", "words", "holds")}, indent=1))
    print(write_report("strangers", report))


if __name__ == "__main__":
    main()
