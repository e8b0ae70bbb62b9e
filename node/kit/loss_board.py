"""Writes losses for TensorBoard."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from touchstone.protocol.adapters.machine.extra_libraries import load_extra

log = logging.getLogger(__name__)


BOARD_LIBRARY, BOARD_EXTRA = "tensorboardX", "tensorboard"


LOSS_TAG = "loss_nats"


class LossBoard:
    """Writes the loss of each training step into event files of a folder. If writing fails, training goes on
    without them."""

    def __init__(self, folder: Path) -> None:
        """Raises InvalidInput if the library is not installed."""
        self._library = load_extra(BOARD_LIBRARY, "tensorboard_dir in config.toml", BOARD_EXTRA)
        self._folder = folder
        self._writer: Any = None
        self._is_broken = False

    def add(self, first_step: int, losses: Sequence[float]) -> None:
        """Adds the losses of successive steps, from step `first_step` of the task on."""
        try:
            if self._writer is None and not self._is_broken:
                self._writer = self._library.SummaryWriter(str(self._folder))
            for step, loss in enumerate(losses if self._writer else (), start=first_step):
                self._writer.add_scalar(LOSS_TAG, loss, step)
        except Exception as error:
            # The library may fail in any way; training goes on.
            log.warning("no more losses are written to %s: %s", self._folder, error)
            self._writer, self._is_broken = None, True

    def close(self) -> None:
        """Writes the remaining losses, and closes."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
