"""Finds the pinned tools, so that no script guesses a path.

`./dev setup` installs them in a checkout: node inside .venv, everything else in node_modules at the root. A
wheel needs Anvil alone, which is looked for in more places.
"""

import os
import platform
import shutil
import sys
from pathlib import Path

from touchstone.protocol.spec.errors import EnvironmentFault

ROOT = Path(__file__).resolve().parents[1]
NODE_MODULES = ROOT / "node_modules"
# The rules of the local chain; foundry.toml compiles for the same ones (evm_version). From prague on every
# block writes into a contract (EIP-2935) that anvil hashes again: 4 ms for a block after 5,000, not 0.2.
HARDFORK = "cancun"
ANVIL_VARIABLE = "TOUCHSTONE_ANVIL"
"""The environment variable that may name the file of Anvil."""
ANVIL_VERSION = "1.7.1"

_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "win32"}
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class ToolMissing(RuntimeError):
    """A pinned tool is not installed, or does not exist for this machine."""


def anvil_path() -> Path:
    """Returns the native `anvil` binary; start it with `--hardfork HARDFORK`. It is the file that
    `ANVIL_VARIABLE` names, else that of the npm package in the checkout or the working folder, else that on
    PATH. Raises EnvironmentFault if there is none."""
    named = os.environ.get(ANVIL_VARIABLE, "")
    if named:
        if not Path(named).is_file():
            raise _no_anvil(f"no file {named}, which {ANVIL_VARIABLE} names")
        return Path(named)
    for modules in (NODE_MODULES, Path("node_modules")):
        if (path := _find_foundry(modules, "anvil")) is not None:
            return path.resolve()
    found = shutil.which("anvil")
    if found is None:
        raise _no_anvil("none there")
    return Path(found)


def _no_anvil(actual: str) -> EnvironmentFault:
    package = f"@foundry-rs/anvil-{platform_or_default()}@{ANVIL_VERSION}"
    places = f"{ANVIL_VARIABLE}, node_modules of the checkout or of this folder, PATH"
    return EnvironmentFault(
        what="Anvil, which runs a local chain, is not installed",
        expected=f"its program in one of: {places}",
        actual=actual,
        remedy=f"Run npm install {package} here, or foundryup (https://getfoundry.sh).",
        retryable=False,
    )


def forge_path() -> Path:
    """Returns the native `forge` binary. Raises ToolMissing."""
    return _foundry_path("forge")


def solc_shim_path() -> Path:
    """Returns the path of an executable that behaves as solc and runs the npm compiler."""
    _require(NODE_MODULES / "solc" / "soljson.js", "the Solidity compiler")
    return _require(ROOT / "scripts" / "solc" / "solc", "the solc shim")


def compute_platform() -> str:
    """Names this machine as Foundry's packages do, for example `linux-amd64`. Raises ToolMissing."""
    system, machine = _SYSTEMS.get(sys.platform), _MACHINES.get(platform.machine().lower())
    if system is None or machine is None:
        raise ToolMissing(
            f"no Foundry build for this machine: expected one of {sorted(_SYSTEMS)} on one of "
            f"{sorted(_MACHINES)}, got {sys.platform} on {platform.machine()}; use such a machine"
        )
    return f"{system}-{machine}"


def platform_or_default() -> str:
    """Names this machine as `compute_platform` does; a machine without a build as the commonest one."""
    try:
        return compute_platform()
    except ToolMissing:
        return "linux-amd64"


def _find_foundry(modules: Path, tool: str) -> Path | None:
    """Returns the tool's file in a folder `node_modules`; None if it has none for this machine."""
    try:
        path = _name_foundry(modules, tool)
    except ToolMissing:
        return None
    return path if path.is_file() else None


def _name_foundry(modules: Path, tool: str) -> Path:
    suffix = ".exe" if sys.platform == "win32" else ""
    return modules / "@foundry-rs" / f"{tool}-{compute_platform()}" / "bin" / f"{tool}{suffix}"


def _foundry_path(tool: str) -> Path:
    return _require(_name_foundry(NODE_MODULES, tool), tool)


def _require(path: Path, what: str) -> Path:
    if not path.is_file():
        raise ToolMissing(f"{what} is missing: expected {path}, found nothing; run ./dev setup")
    return path
