"""Writes the mutated copy of the contracts as a forge project, which is compiled once."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import solcx

from tools.compile import CompileError, read_settings, read_sources
from tools.mutation.edits import Node, apply_edits
from tools.mutation.operators import Finder, Mutant
from tools.mutation.reach import read_reached
from touchstone.scripts.toolchain import ROOT, forge_path, solc_shim_path

CONTRACTS, TESTS, VECTORS = "contracts", "tests/contracts", "tests/vectors"
# These tests depend on how fast the code is, not on what it does.
GAS = "gasleft"

# As much gas as the dearest test needs without the optimizer, and little more, so that an endless loop ends.
CONFIG = """[profile.default]
src = "contracts"
test = "tests/contracts"
script = "none"
libs = ["node_modules"]
auto_detect_remappings = false
remappings = {remappings}
solc = "./solc"
offline = true
evm_version = "{evm}"
bytecode_hash = "none"
cbor_metadata = false
code_size_limit = 10000000
gas_limit = 10000000000
fs_permissions = [{{ access = "read", path = "tests/vectors" }}]
# Suites with the optimizer's intermediate language take minutes, without seconds.
additional_compiler_profiles = [{{ name = "plain", via_ir = false, optimizer = false }}]
compilation_restrictions = [{{ paths = "tests/contracts/**", via_ir = false }}]
{compiler}
[profile.default.fuzz]
runs = {fuzz}
seed = "0x746f75636873746f6e65"

[profile.default.invariant]
runs = {invariant}
depth = 32
fail_on_revert = true

[lint]
lint_on_build = false
"""
# Without the optimizer most contracts exceed the stack, with all of it they compile for minutes. "m" makes
# constants again where they are used; `Rounds.post` needs it.
COMPILER = """via_ir = true
optimizer = true
optimizer_runs = 1

[profile.default.optimizer_details]
peephole = true
jumpdestRemover = true
orderLiterals = false
deduplicate = false
cse = false
constantOptimizer = false
yul = true
yulDetails = { stackAllocation = true, optimizerSteps = "jmul" }
"""
# Forge asks for the version at every start, which takes longer than most mutants. So the answer is kept; a
# start that compiled again would leave one answer more.
_SOLC = """#!/bin/sh
case "$*" in *--version*) cat <<'END'
{version}
END
exit;; esac
here=$(dirname "$0")/answers
mkdir -p "$here"
asked=$(mktemp "$here/XXXXXX")
trap 'rm -f "$asked" "$asked.answer"' EXIT
cat >"$asked"
answer=$here/$(sha256sum <"$asked" | cut -c1-64)
if [ ! -f "$answer" ]; then
    '{shim}' "$@" <"$asked" >"$asked.answer" || exit
    mv "$asked.answer" "$answer"
fi
cat "$answer"
"""


@dataclass(frozen=True)
class Plan:
    """All mutants, what was left alone, and the texts of the copy by path relative to the root."""

    mutants: list[Mutant]
    unmutated: list[str]
    texts: dict[str, str]
    gas_tests: list[str]


def hash_sources(root: Path = ROOT, start: str | None = None) -> str:
    """Returns SHA-256 hex over the .sol file `start`, relative to `root`, all that it imports and what it
    deploys by name; without `start`, over every file of contracts/ and tests/contracts/."""
    paths = read_reached(root, start) if start else list_sources(root)
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path}\0".encode() + hashlib.sha256((root / path).read_bytes()).digest())
    return digest.hexdigest()


def hash_build() -> str:
    """Returns SHA-256 hex over how the copy is built, on which every result rests."""
    return hashlib.sha256((CONFIG + COMPILER).encode()).hexdigest()


def hash_vectors(root: Path = ROOT) -> dict[str, str]:
    """Returns SHA-256 hex of each file of shared vectors, by name without suffix, and of each folder of
    recorded plays, by name."""
    names: dict[str, list[Path]] = {}
    for path in sorted((root / VECTORS).rglob("*.json")):
        is_play = path.parent.parent.name == "plays"
        names.setdefault(path.parent.name if is_play else path.stem, []).append(path)
    digests = {
        name: [hashlib.sha256(one.read_bytes()).digest() for one in own] for name, own in names.items()
    }
    return {name: hashlib.sha256(b"".join(own)).hexdigest() for name, own in digests.items()}


def make_plan(root: Path = ROOT) -> Plan:
    """Parses all sources and returns the mutated copy. Raises CompileError."""
    own = list_sources(root)
    trees = _parse(root, own)
    state = frozenset(
        node["id"] for tree in trees.values() for node in _walk(tree) if node.get("stateVariable")
    )
    mutants: list[Mutant] = []
    unmutated: list[str] = []
    texts: dict[str, str] = {}
    for path in own:
        source = (root / path).read_bytes()
        mutate = path.startswith(CONTRACTS + "/") and "/devnet/" not in path
        finder = Finder(path, source, len(mutants) + 1, state, mutate)
        finder.run(trees[path])
        mutants += finder.mutants
        unmutated += finder.unmutated
        texts[path] = apply_edits(source, finder.edits)
    tests = {path: tree for path, tree in trees.items() if path.startswith(TESTS)}
    return Plan(mutants, unmutated, texts, _find_gas_tests(tests))


def write_project(plan: Plan, folder: Path, root: Path = ROOT, fuzz: int = 16, invariant: int = 8) -> None:
    """Writes the copy with its configuration and compiler into `folder`."""
    settings = read_settings(root)
    for path, text in plan.texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    shutil.copytree(root / VECTORS, folder / VECTORS, dirs_exist_ok=True)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to((root / "node_modules").resolve())
    config = CONFIG.format(
        remappings=json.dumps(settings["remappings"]),
        evm=settings["evmVersion"],
        compiler=COMPILER,
        fuzz=fuzz,
        invariant=invariant,
    )
    (folder / "foundry.toml").write_text(config)
    shim = solc_shim_path()
    version = subprocess.run([shim, "--version"], capture_output=True, text=True, check=True).stdout
    script = _SOLC.format(version=version.rstrip(), shim=shim)
    (folder / "solc").write_text(script)
    (folder / "solc").chmod(0o755)


def build_project(folder: Path) -> None:
    """Compiles the copy, which takes minutes. Raises CompileError."""
    done = subprocess.run([forge_path(), "build"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(f"solc refused the mutated copy in {folder}:\n{done.stdout}{done.stderr}")


def list_sources(root: Path) -> list[str]:
    """Returns every .sol file of the project itself, relative to `root`."""
    return sorted(
        path.relative_to(root).as_posix()
        for name in (CONTRACTS, TESTS)
        for path in (root / name).rglob("*.sol")
    )


def _parse(root: Path, own: list[str]) -> dict[str, Node]:
    sources = read_sources(root, CONTRACTS) | read_sources(root, TESTS)
    request = {
        "language": "Solidity",
        "settings": {**read_settings(root), "outputSelection": dict.fromkeys(own, {"": ["ast"]})},
        "sources": {path: {"content": text} for path, text in sources.items()},
    }
    try:
        output: dict[str, Any] = solcx.compile_standard(request, solc_binary=solc_shim_path())
    except solcx.exceptions.SolcError as error:
        raise CompileError(f"solc refused the contracts:\n{error.message}") from None
    return {path: output["sources"][path]["ast"] for path in own}


def _find_gas_tests(tests: dict[str, Node]) -> list[str]:
    """Returns the names of test functions that read the gas left, themselves or in what they call."""
    functions = {
        node["id"]: node
        for tree in tests.values()
        for node in _walk(tree)
        if node["nodeType"] == "FunctionDefinition"
    }
    calls = {
        key: {inner.get("referencedDeclaration") for inner in _walk(node)} for key, node in functions.items()
    }
    measuring = {
        key
        for key, node in functions.items()
        if any(inner.get("name") == GAS or inner.get("memberName") == GAS for inner in _walk(node))
    }
    size = -1
    while size != len(measuring):
        size = len(measuring)
        measuring |= {key for key, called in calls.items() if called & measuring}
    return sorted({name for key in measuring if (name := functions[key]["name"]).startswith("test")})


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for value in node.values():
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, dict) and "nodeType" in item:
                yield from _walk(item)
