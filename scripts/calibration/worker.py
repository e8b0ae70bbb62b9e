"""Replays all segments in a separate process, on one kernel configuration."""

import json
import sys
from pathlib import Path

from touchstone.protocol.compute.audit.kernel_configurations import KernelConfiguration
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.scripts.calibration.calibration_folder import open_workplace


def run_worker(folder: Path, configuration: KernelConfiguration) -> None:
    """Replays every segment on this process's kernels and stores its end."""
    pin_kernels(configuration.threads, configuration.onednn, configuration.device)
    workplace = open_workplace(folder)
    for segment in workplace.segments:
        workplace.save(configuration.name, segment, workplace.replay(segment))


def main() -> None:
    """Runs the worker, with a folder and a configuration in JSON."""
    folder, text = sys.argv[1:]
    run_worker(Path(folder), KernelConfiguration(**json.loads(text)))


if __name__ == "__main__":
    main()
