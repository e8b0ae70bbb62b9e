"""Replays segments in actors of Ray."""

import atexit
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from touchstone.node.training.replay_pool import HANG_S
from touchstone.node.training.replay_worker import ReplayDone, ReplayJob, WorkerDied, replay
from touchstone.protocol.adapters.machine.extra_libraries import load_extra
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.known_steps import TaskStep, get_step, learn_step
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.program_codec import decode_program, encode_program
from touchstone.protocol.spec.training_codec import decode_training
from touchstone.protocol.spec.weights_layout import decode_layout, encode_layout


class RayReplayer:
    """The actor: replays segments in a process of Ray."""

    def __init__(self, threads: int) -> None:
        pin_kernels(threads)

    def learn(
        self, program: bytes, layout: bytes, constants: Mapping[int, np.ndarray[Any, np.dtype[np.float32]]]
    ) -> None:
        """Lets this worker run a step."""
        values = {number: torch.from_numpy(one.copy()) for number, one in constants.items()}
        learn_step(TaskStep(BuiltProgram(decode_program(program), values), decode_layout(layout)))

    def replay(self, job: ReplayJob, data: np.ndarray[Any, Any]) -> tuple[ReplayDone, np.ndarray[Any, Any]]:
        """Replays a job. The memory before and after travels as bytes, because this process may be on another
        machine."""
        memory = data.copy()
        return replay(job, memory.data), memory[: 12 * job.elements]


@dataclass
class RayWorker:
    """A worker that is an actor. `ray` is the library, `actor` the handle of a `RayReplayer`."""

    ray: Any
    actor: Any
    _taught: bytes = b""
    """The training whose step the actor knows already."""

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        """Does what `ReplayWorker.replay` says."""
        data, known = np.fromfile(path, dtype=np.uint8), self.ray.exceptions
        try:
            self._teach(job.training)
            most_s = HANG_S * (1 + job.steps)
            done, end = self.ray.get(self.actor.replay.remote(job, data), timeout=most_s)
        except (known.RayActorError, known.OutOfMemoryError, known.GetTimeoutError) as error:
            raise WorkerDied from error
        with path.open("r+b") as file:
            end.tofile(file)
        return cast(ReplayDone, done)

    def _teach(self, training: bytes) -> None:
        if training != self._taught:
            step = get_step(decode_training(training))
            constants = {number: values.numpy() for number, values in step.built.constants.items()}
            told = (encode_program(step.built.program), encode_layout(step.layout), constants)
            self.ray.get(self.actor.learn.remote(*told), timeout=HANG_S)
            self._taught = training

    def close(self) -> None:
        """Does what `ReplayWorker.close` says."""
        self.ray.kill(self.actor)


def load_ray(address: str) -> Any:
    """Returns the library Ray, for `open_ray`. Raises InvalidInput if it is not installed."""
    if "ray" not in sys.modules:  # Ray reads these once, when it is imported.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        if not address:
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    return load_extra("ray", 'executor "ray"', "ray")


def open_ray(address: str, threads: int, processes: int) -> Callable[[], RayWorker]:
    """Returns a function that makes a worker. `address` is that of a running Ray, or "auto". If it is empty,
    this node starts a Ray of its own, with cores for `processes` workers of `threads` threads each. Raises
    InvalidInput without Ray, EnvironmentFault if it does not start."""
    ray = load_ray(address)
    try:
        if not ray.is_initialized():
            where = {"address": address} if address else _begin_own_ray(threads, processes)
            ray.init(**where, log_to_driver=False, configure_logging=False)
    except (ConnectionError, OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise EnvironmentFault(
            what="Ray does not start" if not address else "Ray does not answer",
            expected=f"a running Ray at {address}" if address else "a Ray of its own",
            actual=f"{type(error).__name__}: {error}",
            remedy=(
                "Look at `ray status`; a Ray that already ran asks for its token (RAY_AUTH_TOKEN, or "
                '~/.ray/auth_token). Or set executor = "process" in config.toml.'
            ),
            retryable=False,
        ) from error
    actor = ray.remote(num_cpus=threads, max_restarts=0)(RayReplayer)
    return lambda: RayWorker(ray, actor.remote(threads))


def _begin_own_ray(threads: int, processes: int) -> dict[str, Any]:
    """Starts a Ray for this node alone. Ray's socket folders are open to every account, and an account that
    puts its own socket there can make Ray's processes unpickle anything. So they lie in a private folder."""
    folder = tempfile.mkdtemp(prefix="touchstone-ray-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # After Ray, which registers later.
    # Without an address Ray would use the one that RAY_ADDRESS or a file below /tmp names.
    own = {"address": "local", "_temp_dir": f"{folder}/ray", "include_dashboard": False}
    return {**own, "num_cpus": processes * threads}
