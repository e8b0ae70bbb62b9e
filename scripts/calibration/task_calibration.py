"""`touchstone calibrate`: measures how far the kernel configurations of this machine differ on a task."""

import asyncio
import tempfile
from functools import partial
from pathlib import Path

from torch import Tensor

from touchstone.node.joining.dataset import DatasetSource
from touchstone.node.joining.task_reading import read_spec
from touchstone.node.joining.task_step import StepSource, fetch_step
from touchstone.node.kit.config import NodeConfig
from touchstone.node.kit.peers import Peers
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.node.models.start_weights import StartWeights, make_start
from touchstone.node.submit import build_task
from touchstone.protocol.adapters.signed_profiles import write_profile
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.spec.calibration_profile import QUANTITIES
from touchstone.protocol.spec.calibration_rules import compute_maxima
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.task_spec import TaskSpec, TrainingSpec
from touchstone.scripts.account.task_names import find_game
from touchstone.scripts.calibration.calibration_folder import list_segments
from touchstone.scripts.calibration.measuring import measure
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.typed_input import read_path
from touchstone.scripts.documents.model_documents import CalibrateDocument
from touchstone.scripts.home.home_folder import unlock_key
from touchstone.scripts.home.node_config import open_config
from touchstone.scripts.tasks.task_file import read_task_file

LIMIT_KEYS = ("tau_m", "tau_v", "tau_w")
"""The limit that each of QUANTITIES is compared with."""


def calibrate_task(
    task: str, out: Path, counts: tuple[int, int], home: Path, password_file: Path | None
) -> CalibrateDocument:
    """Measures a task on this machine's kernels and writes the signed profile. `task` is a file, or the id of
    a posted one. `counts` are the least number of start states to replay, and the rounds to train (0:
    all)."""
    console, key = Console(), unlock_key(home, password_file)
    operator = key.address.lower()
    if read_path(task).is_file():
        spec, data, weights = _read_task(read_path(task), operator)
    else:
        spec, data, weights = asyncio.run(_fetch_task(task, open_config(home, password_file, console)))
    _require_limits(spec.training)
    pin_kernels(1)
    segments = list_segments(spec, *counts)
    with tempfile.TemporaryDirectory() as folder:
        profile = measure(Path(folder), spec, data, weights, segments, operator, console.notify)
    write_profile(out, profile, key)
    maxima = [float(value) for value in compute_maxima(profile)]
    for name, limit, value in zip(QUANTITIES, LIMIT_KEYS, maxima, strict=True):
        console.notify(f"largest distance of {name}, to be compared with {limit}: {value:.3g}")
    console.notify(f"signed by {operator}: {out}")
    distances = dict(zip(LIMIT_KEYS, maxima, strict=True))
    return CalibrateDocument(str(out), operator, distances)


def _require_limits(training: TrainingSpec) -> None:
    if training.numeric_format in PRODUCT_BITS:
        raise InvalidInput(
            what="an exact task has no limits to be measured",
            expected="a numeric format in which machines differ (float32)",
            actual=training.numeric_format,
            where="numeric_format",
            remedy="Submit the task without [limits]: every machine gets the same bits.",
        )


def _read_task(path: Path, operator: str) -> tuple[TaskSpec, bytes, Tensor]:
    """Returns the task that a file would post, its dataset and its first weights. The limits in the file do
    not affect the measurement."""
    file = read_task_file(path)
    data, start = file.dataset.read_bytes(), None if file.weights is None else file.weights.read()
    spec = make_spec(*build_task(file.plan, data, operator, bytes(32), start))
    return spec, data, make_start(spec) if start is None else start


async def _fetch_task(name: str, config: NodeConfig) -> tuple[TaskSpec, bytes, Tensor]:
    """Returns a posted task, its dataset and its first weights."""
    async with open_node(config, Node) as node:
        await node.following.take_next()
        task, _ = find_game(node.state, name)
        spec = read_spec(node.state, task)
        refuse_broken(find_training_malformations(spec))
        peers = Peers(node.client, node.state, node.account, task)
        await fetch_step(
            StepSource(
                node.store, node.client, partial(peers.list, first=spec.terms.submitter), config.notify
            ),
            spec,
        )
        source = DatasetSource(node.store, node.parts, peers, config.notify, is_whole=True)
        start = StartWeights(node.store, peers, config.notify)
        return spec, await source.fetch(spec), await start.load(spec)
