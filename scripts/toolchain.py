"""Finds the pinned tools, so that no script guesses a path or takes another version from PATH.

`./dev setup` installs them: node inside .venv, everything else in node_modules at the root of the checkout.
"""

import platform
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NODE_MODULES = ROOT / "node_modules"
# The rules of the local chain; foundry.toml compiles for the same ones (evm_version). From prague on every
# block writes into a contract (EIP-2935) that anvil hashes again: 4 ms for a block after 5,000, not 0.2.
HARDFORK = "cancun"

_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "win32"}
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class ToolMissing(RuntimeError):
    """A pinned tool is not installed, or does not exist for this machine."""


def anvil_path() -> Path:
    """Returns the native `anvil` binary; start it with `--hardfork HARDFORK`. Raises ToolMissing."""
    return _foundry_path("anvil")


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


def _foundry_path(tool: str) -> Path:
    suffix = ".exe" if sys.platform == "win32" else ""
    folder = NODE_MODULES / "@foundry-rs" / f"{tool}-{compute_platform()}"
    return _require(folder / "bin" / f"{tool}{suffix}", tool)


def _require(path: Path, what: str) -> Path:
    if not path.is_file():
        raise ToolMissing(f"{what} is missing: expected {path}, found nothing; run ./dev setup")
    return path
