"""Turns a home into the settings that its node runs with.

It is separate because commands that only ask the chain read `home_config.py`, and need not wait for PyTorch.
`choose_executor` refuses settings that the processor or the installed libraries cannot meet.
"""

from pathlib import Path
from typing import Any

from touchstone.node.kit.config import NodeConfig
from touchstone.node.kit.loss_board import LossBoard
from touchstone.node.training.ray_replays import load_ray
from touchstone.protocol.adapters.reports.model_progress import read_halt_rule
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.json_log import note_facts
from touchstone.scripts.home.home_config import HomeConfig, read_config
from touchstone.scripts.home.home_folder import unlock_key


def choose_executor(role: SeatRole, chosen: str | None, home: HomeConfig) -> dict[str, Any]:
    """Returns what runs the role's replays, or trains beside a solver and shows its losses, as fields of its
    `NodeConfig`. `chosen` is set by an option, and comes before the home's value. Raises InvalidInput for Ray
    or workers on a graphics card, or if a library is missing."""
    if role == SeatRole.SOLVER:
        if home.workers > 1 and home.device != "cpu":
            raise _workers_on_card(home)
        settled: dict[str, Any] = {"executor": "process", "replay_processes": 1, "workers": home.workers}
        return settled | choose_boards(home)
    executor = chosen or home.executor
    if executor == "ray":
        if home.device != "cpu":
            raise _ray_on_card(home)
        load_ray(home.ray_address)
    return {"executor": executor}


def choose_boards(home: HomeConfig) -> dict[str, Any]:
    """Returns the folders that losses are written into, as fields of a `NodeConfig`. Raises InvalidInput if a
    library is missing."""
    folders = {"tensorboard_dir": home.tensorboard_dir, "wandb_dir": home.wandb_dir}
    found = {name: Path(folder) for name, folder in folders.items() if folder}
    LossBoard(**found)
    return found


def _workers_on_card(home: HomeConfig) -> InvalidInput:
    return InvalidInput(
        what="several workers train only on processors",
        expected='device = "cpu", or workers = 1',
        actual=f'device = "{home.device}", workers = {home.workers}',
        remedy="Change one of them in config.toml.",
    )


def _ray_on_card(home: HomeConfig) -> InvalidInput:
    return InvalidInput(
        what="Ray runs replays only on processors",
        expected='device = "cpu", or executor = "process"',
        actual=f'device = "{home.device}", executor = "ray"',
        remedy="Change one of them: in config.toml, or the executor by --executor.",
    )


def open_config(home: Path, password_file: Path | None, console: Console) -> NodeConfig:
    """Returns the settings of a home's node, its key unlocked."""
    config, key = read_config(home), unlock_key(home, password_file)
    note_facts(account=key.address)
    return NodeConfig(
        home=home,
        deployment=Path(config.deployment),
        deployment_sha256=config.deployment_sha256,
        rpc_url=config.rpc_url,
        rpc_urls=tuple(config.rpc_urls),
        max_fee_wei=config.max_fee_wei,
        key=key,
        listen_host=config.listen_host,
        listen_port=config.listen_port,
        poll_s=config.poll_seconds or None,
        public_url=config.public_url,
        threads=config.threads,
        device=config.device,
        memory_mb=config.memory_mb,
        dataset_cache_mb=config.dataset_cache_mb,
        whole_dataset=config.whole_dataset,
        replay_processes=config.replay_processes,
        executor=config.executor,
        ray_address=config.ray_address,
        object_storage=config.object_storage,
        metrics_host=config.metrics_host,
        metrics_port=config.metrics_port,
        check_reach=config.check_reach,
        halt_after_rounds=read_halt_rule(config.halt_when),
        notify=console.notify,
    )
