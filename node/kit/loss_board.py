"""Writes losses for TensorBoard and for Weights & Biases."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from touchstone.protocol.adapters.machine.extra_libraries import load_extra

log = logging.getLogger(__name__)


BOARD_LIBRARY, BOARD_EXTRA = "tensorboardX", "tensorboard"
WANDB_LIBRARY = WANDB_EXTRA = "wandb"
WANDB_PROJECT = "touchstone"


LOSS_TAG, HELDOUT_TAG = "loss_nats", "heldout_loss_nats"


class ScalarWriter(Protocol):
    """What writes numbers by tag and step."""

    def add_scalar(self, tag: str, value: float, step: int) -> object:
        """Adds one number."""

    def close(self) -> object:
        """Writes the rest, and closes."""


class WandbWriter:
    """Writes numbers into an offline run of Weights & Biases, which `wandb sync` uploads later. The variable
    WANDB_MODE changes that. The run holds the numbers alone: no source, no output, nothing of the machine."""

    def __init__(self, folder: Path) -> None:
        library = load_extra(WANDB_LIBRARY, "wandb_dir in config.toml", WANDB_EXTRA)
        folder.mkdir(parents=True, exist_ok=True)
        settings = library.Settings(
            console="off",
            silent=True,
            save_code=False,
            disable_git=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_disable_stats=True,
            x_save_requirements=False,
        )
        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = library.init(mode=mode, dir=str(folder), project=WANDB_PROJECT, settings=settings)
        # Held-out losses come later than the steps after them, so each number names its own step.
        self._run.define_metric("*", step_metric="step")

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Adds one number."""
        self._run.log({tag: value, "step": step})

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()


class Board:
    """Opens a writer at the first loss. If writing fails, training goes on without it. `name` says where the
    losses go."""

    def __init__(self, name: str, open_writer: Callable[[], ScalarWriter]) -> None:
        self._name, self._open_writer = name, open_writer
        self._writer: ScalarWriter | None = None
        self._is_broken = False

    def add(self, tag: str, points: Iterable[tuple[int, float]]) -> None:
        """Adds numbers with their steps."""
        try:
            if self._writer is None and not self._is_broken:
                self._writer = self._open_writer()
            if self._writer is not None:
                for step, loss in points:
                    self._writer.add_scalar(tag, loss, step)
        except Exception as error:
            # The library may fail in any way; training goes on.
            log.warning("no more losses are written to %s: %s", self._name, error)
            self._writer, self._is_broken = None, True

    def close(self) -> None:
        """Writes the remaining numbers, and closes."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()


class LossBoard:
    """Writes the loss of each training step, and of each model on held-out tokens, for TensorBoard into
    `tensorboard_dir` and for Weights & Biases into `wandb_dir` (None: not)."""

    def __init__(self, tensorboard_dir: Path | None = None, wandb_dir: Path | None = None) -> None:
        """Raises InvalidInput if a library is not installed."""
        self._boards: list[Board] = []
        if tensorboard_dir is not None:
            library = load_extra(BOARD_LIBRARY, "tensorboard_dir in config.toml", BOARD_EXTRA)
            self._boards.append(
                Board(str(tensorboard_dir), lambda: library.SummaryWriter(str(tensorboard_dir)))
            )
        if wandb_dir is not None:
            load_extra(WANDB_LIBRARY, "wandb_dir in config.toml", WANDB_EXTRA)
            self._boards.append(Board(str(wandb_dir), lambda: WandbWriter(wandb_dir)))

    def add(self, first_step: int, losses: Sequence[float]) -> None:
        """Adds the losses of successive steps, from step `first_step` of the task on."""
        for board in self._boards:
            board.add(LOSS_TAG, enumerate(losses, start=first_step))

    def add_heldout(self, step: int, loss: float) -> None:
        """Adds the held-out loss of the model after `step` steps of the task."""
        for board in self._boards:
            board.add(HELDOUT_TAG, ((step, loss),))

    def close(self) -> None:
        """Writes the remaining losses, and closes."""
        for board in self._boards:
            board.close()
