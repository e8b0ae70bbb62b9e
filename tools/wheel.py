"""./dev wheel: builds the wheel, installs it into a fresh environment, and runs the quick demo there.

python -m tools.wheel                 into build/wheel; ends with the demo's status
python -m tools.wheel --only-build    builds build/wheel/dist/*.whl

The environment has no checkout, no Node and no compiler. Anvil is that of the checkout.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from touchstone.scripts.toolchain import ANVIL_VARIABLE, ROOT, anvil_path

FOLDER = ROOT / "build" / "wheel"
LEFT_OUT = ("build", "dist", "node_modules", "tests", "lab", "docs", "__pycache__", "*.egg-info", ".*")
"""Files of the checkout that stay out: an old `build/lib` would put deleted modules into the wheel."""


def build_wheel(folder: Path) -> Path:
    """Builds the wheel of this checkout into `folder`; returns its path. Raises CalledProcessError if that
    fails."""
    with tempfile.TemporaryDirectory() as copied:
        source = Path(copied) / "source"
        shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("touchstone-*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Installs a wheel with all that it needs into a new environment; returns its folder of programs. Raises
    CalledProcessError if something cannot be installed."""
    venv.create(folder, with_pip=True, clear=True)
    programs = folder / "bin"
    subprocess.run([str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    return programs


def run_demo(programs: Path, folder: Path) -> int:
    """Runs the quick demo with nothing but the environment's programs on PATH; returns the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(programs), "/usr/bin", "/bin"])
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    environment = {**kept, "PATH": path, ANVIL_VARIABLE: str(anvil_path())}
    return subprocess.run(
        [str(programs / "touchstone"), "demo", "--quick"], cwd=folder, env=environment
    ).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds, installs and runs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="./dev wheel", description=__doc__)
    parser.add_argument("--only-build", action="store_true", help="build, and install nothing")
    chosen = parser.parse_args(arguments)
    shutil.rmtree(FOLDER / "dist", ignore_errors=True)
    try:
        wheel = build_wheel(FOLDER / "dist")
        print(f"built {wheel} ({wheel.stat().st_size / 1e6:.1f} MB)", flush=True)
        if chosen.only_build:
            return 0
        return run_demo(install(wheel, FOLDER / "venv"), FOLDER / "run")
    except subprocess.CalledProcessError as error:
        print(f"failed with status {error.returncode}: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
