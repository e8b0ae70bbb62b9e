"""What is seen of a disturbed node: its sockets, memory and log, and what a member's requests come to."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from lab.benchmarks.strangers_run.load import Target
from protocol.adapters.keys import AccountKey
from protocol.adapters.wire.auth import RequestSigner

LOOK_S = 1.0
MOST_SOCKETS = 256 + 64 + 96
"""Connections, handshakes, and what a node opens itself or is about to close (`WireLimits`)."""
MOST_GROWTH_BYTES = 256 * 2**20
"""What strangers may add to a node's memory."""
MOST_LOG_BYTES = 2**20
MOST_RATIO = 1.5
"""Of a disturbed round's time to a usual one's."""


@dataclass
class Seen:
    """Of one span of time. answers: what a member's requests were answered, by status or error."""

    sockets: int = 0
    memory_bytes: int = 0
    log_bytes: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0

    def look(self, pid: int, log: Path) -> None:
        """One look at the process."""
        self.sockets = max(self.sockets, count_sockets(pid))
        self.memory_bytes = max(self.memory_bytes, read_memory_bytes(pid))
        self.log_bytes = log.stat().st_size if log.exists() else 0

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return vars(self) | {"answers": dict(self.answers), "longest_s": round(self.longest_s, 2)}


def count_sockets(pid: int) -> int:
    """Open sockets of a process; 0 where it is gone."""
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
    """Resident bytes of a process; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def ask_once(target: Target, key: AccountKey, seen: Seen) -> None:
    """One request by a member, over a connection of its own: the first byte of the dataset."""
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
    """A look and a request each second, until cancelled."""
    while True:
        seen.look(pid, log)
        await ask_once(target, key, seen)
        await asyncio.sleep(LOOK_S)


def judge(
    usual: Seen, disturbed: Seen, usual_s: Sequence[float], disturbed_s: Sequence[float], words: Counter[str]
) -> dict[str, bool]:
    """What was to be shown. words: of all votes, by the word."""
    return {
        "no 429 for a member": not disturbed.answers["429"],
        "every member's request is answered": not set(disturbed.answers) - {"200", "206"},
        "no auditor says UNSERVED": not words["UNSERVED"],
        "sockets": disturbed.sockets <= MOST_SOCKETS,
        "memory": disturbed.memory_bytes - usual.memory_bytes <= MOST_GROWTH_BYTES,
        "log": disturbed.log_bytes <= MOST_LOG_BYTES,
        "round time": median(disturbed_s) <= MOST_RATIO * median(usual_s),
    }
