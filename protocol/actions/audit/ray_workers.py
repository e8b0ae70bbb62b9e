"""Replays by actors of Ray: the same work as in a process of the pool, wherever Ray runs it.

Ray is an extra, and is imported when it is used. Whoever reaches its ports can have it run code, and it
listens on all interfaces. So one that a node starts takes only who knows a fresh secret, and one that is
there already has to be protected by its operator in the same way (`RAY_AUTH_MODE=token`).
"""

import os
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from protocol.actions.audit.replay_pool import ReplayDone, ReplayJob, WorkerDied, replay
from protocol.adapters.extras import load_extra
from protocol.compute.determinism import pin_kernels
from protocol.spec.errors import EnvironmentFault


class RayReplayer:
    """What runs in a process of Ray."""

    def __init__(self, threads: int) -> None:
        pin_kernels(threads)

    def replay(self, job: ReplayJob, data: np.ndarray[Any, Any]) -> tuple[ReplayDone, np.ndarray[Any, Any]]:
        """The job's memory before and after, as bytes: this process may be on another machine."""
        memory = data.copy()
        return replay(job, memory.data), memory[: 12 * job.elements]


@dataclass
class RayWorker:
    """An actor. ray: the library; actor: a handle of `RayReplayer`."""

    ray: Any
    actor: Any

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        """As `ReplayWorker.replay`."""
        data = np.fromfile(path, dtype=np.uint8)
        try:
            done, end = self.ray.get(self.actor.replay.remote(job, data))
        except (self.ray.exceptions.RayActorError, self.ray.exceptions.OutOfMemoryError) as error:
            raise WorkerDied from error
        with path.open("r+b") as file:
            end.tofile(file)
        checked: ReplayDone = done
        return checked

    def close(self) -> None:
        """As `ReplayWorker.close`."""
        self.ray.kill(self.actor)


def load_ray(address: str) -> Any:
    """Ray itself, for `open_ray`. Raises InvalidInput where it is not installed."""
    if "ray" not in sys.modules:  # It reads these once, when it is imported.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        if not address:
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    return load_extra("ray", 'executor "ray"', "ray")


def open_ray(address: str, threads: int, processes: int) -> Callable[[], RayWorker]:
    """What makes a worker. address: of a running Ray, or "auto"; empty: Ray is started here, for as many
    workers of so many threads. Raises InvalidInput without Ray, EnvironmentFault where it does not start."""
    ray = load_ray(address)
    where = {"address": address} if address else {"num_cpus": processes * threads, "include_dashboard": False}
    try:
        if not ray.is_initialized():
            ray.init(**where, log_to_driver=False, configure_logging=False)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise EnvironmentFault(
            what="Ray does not start" if not address else "Ray does not answer",
            expected=f"a running Ray at {address}" if address else "a Ray of its own",
            actual=f"{type(error).__name__}: {error}",
            remedy='Look at `ray status`, or set executor = "process" in config.toml.',
            retryable=False,
        ) from error
    actor = ray.remote(num_cpus=threads, max_restarts=0)(RayReplayer)
    return lambda: RayWorker(ray, actor.remote(threads))
