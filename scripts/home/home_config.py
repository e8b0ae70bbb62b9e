"""Reads the configuration of a home, `config.toml`, which holds no secret.

A password file is named there, never read into it.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, ValidationError, convert, structs, toml

from touchstone.protocol.adapters.chain.deployment import GameDeployment, read_game_deployment
from touchstone.protocol.adapters.chain.fees import NO_CAP_WEI
from touchstone.protocol.adapters.machine.machine_use import MachineUse
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage, require_usable
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.command_line.typed_input import PREFIX, expect_known, read_overrides, read_path
from touchstone.scripts.home.home_files import BEGIN, CONFIG_FILE, FINISH, has_key, require_folder

GWEI = 10**9
PATHS = ("deployment", "password_file", "tensorboard_dir", "wandb_dir")
TABLES = ("economics", "object_storage")
"""The tables that an operator writes by hand."""
Preset = Literal["12s", "2s", "local"]
"""Presets of a deployment's bounds, by the block time."""
Executor = Literal["process", "ray"]
"""What runs replays: processes of this machine, or Ray."""
Digest = Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
"""Empty in homes of older versions."""
Account = Annotated[str, Meta(pattern=r"\A(0x[0-9a-fA-F]{40})?\Z")]
"""Empty before there is a key."""
Device = Annotated[str, Meta(pattern=r"\A(cpu|cuda(:[0-9]{1,2})?)\Z")]
"""A device as in `determinism.require_device`, which is not called here because it loads PyTorch."""
DEVICES = "cpu, cuda, or cuda: with the number of a card"


class HomeConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`config.toml`: the settings of a home. `config_keys.py` says what each is for. `economics` has more
    assumptions by which tasks are judged (`scripts/tasks/figures.py`), `object_storage` this node's bucket,
    and what to take from peers' buckets."""

    rpc_url: str
    deployment: str
    deployment_sha256: Digest = ""
    account: Account = ""
    payout_address: Account = ""
    listen_host: str = "127.0.0.1"
    listen_port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    poll_seconds: Annotated[float, Meta(ge=0, le=2)] = 0.0
    public_url: str = ""
    check_reach: bool = True
    threads: Annotated[int, Meta(ge=1)] = 1
    device: Device = "cpu"
    memory_mb: Annotated[int, Meta(ge=0)] = 0
    disk_mb: Annotated[int, Meta(ge=0)] = 0
    nice: Annotated[int, Meta(ge=0, le=19)] = 0
    when_idle: bool = False
    idle_minutes: Annotated[float, Meta(gt=0)] = 15.0
    idle_cores: Annotated[float, Meta(gt=0)] = 0.5
    dataset_cache_mb: Annotated[int, Meta(ge=1)] = 1_000
    whole_dataset: bool = False
    replay_processes: Annotated[int, Meta(ge=1)] = 1
    executor: Executor = "process"
    ray_address: str = ""
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    metrics_host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    tensorboard_dir: str = ""
    wandb_dir: str = ""
    halt_when: str = ""
    rpc_urls: list[str] = []
    max_fee_gwei: Annotated[float, Meta(ge=0)] = 0.0
    password_file: str = ""
    preset: Preset = "12s"
    economics: dict[str, Any] = {}
    object_storage: ObjectStorage = ObjectStorage()

    @property
    def endpoints(self) -> list[str]:
        """All endpoints of the chain, in order."""
        return [self.rpc_url, *self.rpc_urls]

    @property
    def max_fee_wei(self) -> int:
        """The most that one gas may cost."""
        return round(self.max_fee_gwei * GWEI) or NO_CAP_WEI

    def read_deployment(self) -> GameDeployment:
        """Returns the deployment of the home. Raises InvalidInput as `read_game_deployment` does."""
        return read_game_deployment(Path(self.deployment), self.deployment_sha256)


def read_config(home: Path) -> HomeConfig:
    """Returns the configuration in `home`, with keys replaced by environment variables
    (`TOUCHSTONE_THREADS`). Raises InvalidInput, naming the key or variable, if it is missing or malformed."""
    path = home / CONFIG_FILE
    require_folder(home)
    if not path.is_file():
        raise _no_home(path, home)
    try:
        config = toml.decode(path.read_bytes(), type=HomeConfig)
    except ValueError as error:
        raise _malformed(str(path), str(error)) from error
    if not config.account:
        raise _malformed(str(path), "Object missing required field `account`")
    config = _override(config)
    require_usable(config.object_storage)
    places = {name: str(read_path(text)) for name in PATHS if (text := getattr(config, name))}
    return structs.replace(config, **places)


def _no_home(path: Path, home: Path) -> InvalidInput:
    return InvalidInput(
        what="this home is incomplete" if has_key(home) else "this folder is no home",
        expected=f"{CONFIG_FILE}, written by `touchstone init`",
        actual="no such file",
        where=str(path),
        remedy=FINISH if has_key(home) else BEGIN,
    )


def read_home(home: Path, *, nice: int | None, executor: str | None, when_idle: bool) -> HomeConfig:
    """Returns the configuration, with keys replaced by options. Raises InvalidInput as `read_config` does,
    and for an option value that no key can have."""
    given: dict[str, Any] = {"when_idle": True} if when_idle else {}
    named = {"nice": nice, "executor": executor}
    given |= {name: value for name, value in named.items() if value is not None}
    return check_config(structs.replace(read_config(home), **given))


def open_use(home: HomeConfig, executor: str) -> MachineUse:
    """Returns the object that tells whether somebody else uses this machine. `executor` is what runs replays.
    Raises EnvironmentFault if the system does not tell, InvalidInput if the node's own work could not be told
    from others'."""
    if executor == "ray":
        raise InvalidInput(
            what="replays by Ray look like the use of the machine by somebody else",
            expected='executor = "process" with --when-idle',
            actual='executor = "ray"',
            remedy="Change executor in config.toml, or start the node without --when-idle.",
        )
    use = MachineUse(60 * home.idle_minutes, home.idle_cores)
    use.require_telling()
    return use


def _override(config: HomeConfig) -> HomeConfig:
    """Returns the configuration with values of environment variables. The account, the deployment and whole
    tables come only from the file."""
    fixed = (*TABLES, "account", "payout_address", "deployment_sha256")
    keys = [name for name in HomeConfig.__struct_fields__ if name not in fixed]
    for name, text in read_overrides(os.environ, keys).items():
        try:
            config = convert({**structs.asdict(config), name: text}, HomeConfig, strict=False)
        except ValidationError as error:
            raise InvalidInput(
                what="this environment variable is not usable",
                expected=DEVICES if name == "device" else f"a value that {name} in config.toml may have",
                actual=str(error),
                where=f"{PREFIX}{name.upper()}",
                remedy="Correct it, or unset it: then the file counts.",
            ) from error
    return config


def check_config(config: HomeConfig) -> HomeConfig:
    """Returns the configuration. Raises InvalidInput, naming the option of `init`, for a value that could not
    be read again."""
    try:
        return convert(structs.asdict(config), HomeConfig)
    except ValidationError as error:
        raise InvalidInput(
            what="this option is not usable",
            expected=DEVICES if _find_key(str(error)) == "device" else "a value that config.toml may hold",
            actual=str(error),
            where=f"--{_find_key(str(error)).replace('_', '-')}",
            remedy="Correct this option.",
        ) from error


def _malformed(path: str, actual: str) -> InvalidInput:
    key = _find_key(actual)
    choices = {"preset": _say_choices(Preset), "executor": _say_choices(Executor), "device": DEVICES}
    keys = f"keys {', '.join(HomeConfig.__struct_fields__)}, each of its type and there once"
    unknown = re.search(r"unknown field `(\w+)`", actual)
    if unknown is not None:
        table = ObjectStorage if key == "object_storage" else HomeConfig
        keys = expect_known(unknown[1], table.__struct_fields__)
    return InvalidInput(
        what="the configuration is malformed",
        expected=choices.get(key, keys),
        actual=actual,
        where=f"{path}, {key}" if key else path,
        remedy="Correct this key." if key else "Correct the file.",
    )


def _say_choices(kind: Any) -> str:
    *others, last = get_args(kind)
    return f"{', '.join(others)} or {last}"


def _find_key(said: str) -> str:
    """Returns the key that an error is about, which is in back quotes at its end; else empty."""
    named = re.search(r"`(?:\$\.)?(\w+)[^`]*`$", said)
    return named[1] if named else ""
