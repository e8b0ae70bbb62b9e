"""Compiles the contracts into the ABI and bytecode that the Python package carries.

So a node needs no compiler, and `--check` proves that the committed files equal what the sources give. The
settings come from foundry.toml, so what forge tests is what gets deployed. They are the same for all files
except those that foundry.toml gives their own optimizer runs.
"""

import argparse
import hashlib
import json
import posixpath
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import solcx

from touchstone.scripts.toolchain import NODE_MODULES, ROOT, ToolMissing, solc_shim_path

ABI_DIR = ROOT / "protocol" / "adapters" / "abi"
FORGE_OUT = ROOT / "build" / "forge" / "out"
# EIP-170: the chain refuses to deploy more code than this.
CODE_LIMIT_BYTES = 24_576
SPARE_BYTES = 2_000
"""The bytes below the code limit that a contract compiled for speed must leave free."""

_IMPORT = re.compile(r'(?:^|[;}])\s*import\s*[^;"\']*["\']([^"\']+)["\'][^;]*(?=;)', re.MULTILINE)
ERROR_TAGS = ("expected", "actual", "remedy")
"""`@custom:` tags of an error. With its notice they are what people read when a contract refuses a call."""
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class CompileError(RuntimeError):
    """The contracts cannot become package data: a compiler error, a clash of names or too much code."""


@dataclass(frozen=True)
class Artifact:
    """One contract or interface. `bytecode` is 0x-hex creation code, `0x` alone for an interface. `words`
    maps an error's signature to its notice and its texts under ERROR_TAGS; errors without such tags have
    none."""

    name: str
    abi: list[dict[str, Any]]
    bytecode: str
    source_hash: str
    code_bytes: int
    words: dict[str, dict[str, str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Returns the committed form: sorted keys, one space of indent, newline at the end."""
        document: dict[str, Any] = {
            "abi": self.abi, "bytecode": self.bytecode, "source_hash": self.source_hash,
        }  # fmt: skip
        document |= {"words": self.words} if self.words else {}
        return json.dumps(document, sort_keys=True, indent=1) + "\n"


def read_settings(root: Path = ROOT, path: str | None = None) -> dict[str, Any]:
    """Returns solc's `settings` (without outputSelection) that foundry.toml implies for the file `path`,
    relative to `root`; without `path`, for every file without its own runs."""
    profile = tomllib.loads((root / "foundry.toml").read_text())["profile"]["default"]
    runs = read_own_runs(root).get(path or "", profile["optimizer_runs"])
    return {
        "evmVersion": profile["evm_version"],
        "metadata": {"appendCBOR": profile["cbor_metadata"], "bytecodeHash": profile["bytecode_hash"]},
        "optimizer": {"enabled": profile["optimizer"], "runs": runs},
        "remappings": profile["remappings"],
        "viaIR": profile["via_ir"],
    }


def read_own_runs(root: Path = ROOT) -> dict[str, int]:
    """Returns the optimizer runs of each file that foundry.toml gives its own, by path."""
    profile = tomllib.loads((root / "foundry.toml").read_text())["profile"]["default"]
    restrictions = profile.get("compilation_restrictions", [])
    return {one["paths"]: one["optimizer_runs"] for one in restrictions if "optimizer_runs" in one}


def read_sources(root: Path = ROOT, folder: str = "contracts") -> dict[str, str]:
    """Returns a map from path to text of `folder`/**/*.sol (or of one file) and of all that they import;
    paths are relative to `root`.

    The compiler runs in a sandbox without files, so it must get every source. Raises CompileError if an
    import leads nowhere."""
    remappings = dict(entry.split("=", 1) for entry in read_settings(root)["remappings"])
    start = root / folder
    files = [start] if start.suffix == ".sol" else start.rglob("*.sol")
    todo = sorted(path.relative_to(root).as_posix() for path in files)
    sources: dict[str, str] = {}
    while todo:
        path = todo.pop()
        if path not in sources:
            sources[path] = _read_source(root, path)
            todo.extend(get_imports(path, sources[path], remappings))
    return dict(sorted(sources.items()))


def get_imports(path: str, text: str, remappings: dict[str, str]) -> list[str]:
    """Returns the root-relative paths that the source `text` at `path` imports, after remappings."""
    return [_resolve(path, target, remappings) for target in _IMPORT.findall(_COMMENT.sub("", text))]


def compile_contracts(
    root: Path = ROOT, folder: str = "contracts", built: Path | None = None
) -> list[Artifact]:
    """Compiles `folder` (or one file), with one call of the compiler for each number of optimizer runs, and
    returns its concrete contracts and interfaces by name. With `built`, a folder of forge's artifacts, the
    code is taken from there, which takes only seconds. Raises CompileError."""
    sources, own_runs = read_sources(root, folder), read_own_runs(root)
    for path in own_runs:
        if not (root / path).is_file():
            raise CompileError(f"foundry.toml, optimizer_runs: expected the path of one file, got {path}")
    own = [path for path in sources if path == folder or path.startswith(folder + "/")]
    imports = _list_imports(root, sources)
    artifacts = [
        _to_artifact(
            name,
            output["contracts"][path][name] | ({"evm": _read_built(built, path, name)} if built else {}),
            _hash_sources(path, sources, imports, settings),
            CODE_LIMIT_BYTES - SPARE_BYTES * (path in own_runs),
        )
        for settings, paths in _group_by_settings(root, own)
        for output in [_run_solc(sources, settings, paths, with_code=built is None)]
        for path in paths
        for name in list_published_names(output["sources"][path]["ast"])
    ]
    _refuse_clashes(artifacts)
    return sorted(artifacts, key=lambda artifact: artifact.name)


def check_package(root: Path = ROOT, folder: Path = ABI_DIR, built: Path | None = None) -> list[str]:
    """Returns what `find_differences` says of the package. It first compares with the code in `built`. Forge
    keeps code that it compiled before another file changed, which may differ but mean the same. So if
    anything differs, all contracts are compiled. Raises CompileError."""
    if built:
        try:
            if not find_differences(compile_contracts(root, built=built), folder):
                return []
        except CompileError:
            pass
    return find_differences(compile_contracts(root), folder)


def find_differences(artifacts: Iterable[Artifact], folder: Path = ABI_DIR) -> list[str]:
    """Returns one sentence for every file in `folder` that is missing, stale or has no source."""
    expected = {f"{artifact.name}.json": artifact.to_json() for artifact in artifacts}
    actual = {path.name: path.read_text() for path in sorted(folder.glob("*.json"))}
    missing = [
        f"{name}: expected from the source, not in the package" for name in expected.keys() - actual.keys()
    ]
    extra = [
        f"{name}: in the package, no such contract in the source" for name in actual.keys() - expected.keys()
    ]
    stale = [
        f"{name}: differs from the source"
        for name in expected.keys() & actual.keys()
        if expected[name] != actual[name]
    ]
    return sorted(missing + extra + stale)


def find_stale_code(root: Path = ROOT, folder: Path = ABI_DIR) -> list[str]:
    """Returns the names of artifacts that come from other sources or settings, without asking a compiler."""
    sources = read_sources(root)
    imports = _list_imports(root, sources)
    known = {path.stem: json.loads(path.read_text())["source_hash"] for path in folder.glob("*.json")}
    return sorted(
        Path(path).stem
        for settings, paths in _group_by_settings(root, sources)
        for path in paths
        if known.get(Path(path).stem, "") not in ("", _hash_sources(path, sources, imports, settings))
    )


def write_artifacts(artifacts: Iterable[Artifact], folder: Path = ABI_DIR) -> None:
    """Makes `folder` hold exactly one JSON file for each artifact."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = {f"{artifact.name}.json": artifact.to_json() for artifact in artifacts}
    for path in folder.glob("*.json"):
        if path.name not in documents:
            path.unlink()
    for name, document in documents.items():
        (folder / name).write_text(document)


def render_sizes(artifacts: Iterable[Artifact]) -> str:
    """Returns a table of deployed code sizes in bytes against CODE_LIMIT_BYTES, largest first."""
    deployable = sorted((a for a in artifacts if a.code_bytes), key=lambda a: -a.code_bytes)
    rows = [f"{a.name:<28}{a.code_bytes:>8,}{a.code_bytes / CODE_LIMIT_BYTES:>8.0%}" for a in deployable]
    return "\n".join([f"{'contract':<28}{'bytes':>8}{'of limit':>9}", *rows])


def main(arguments: list[str] | None = None) -> int:
    """Writes the package data, or with --check compares it; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./dev compile", description="Compile the contracts to package data."
    )
    parser.add_argument("--check", action="store_true", help="compare with the source and write nothing")
    parser.add_argument("--built", action="store_true", help="with --check: ask forge's code first")
    options = parser.parse_args(arguments)
    try:
        return _check(FORGE_OUT if options.built else None) if options.check else _write()
    except (CompileError, ToolMissing) as error:
        print(error, file=sys.stderr)
        return 1


def _write() -> int:
    artifacts = compile_contracts()
    print(render_sizes(artifacts))
    write_artifacts(artifacts)
    print(f"wrote {len(artifacts)} files to {ABI_DIR.relative_to(ROOT)}")
    return 0


def _check(built: Path | None) -> int:
    differences = check_package(built=built)
    said = [*differences, "run ./dev compile"] if differences else ["package data matches the source"]
    print("\n".join(said))
    return 1 if differences else 0


def _group_by_settings(root: Path, paths: Collection[str]) -> list[tuple[dict[str, Any], list[str]]]:
    """Returns settings and the paths that are compiled with them; files without their own runs come first."""
    own = read_own_runs(root)
    common = [path for path in paths if path not in own]
    groups = [(read_settings(root), common)] if common else []
    for runs in sorted(set(own.values())):
        same = [path for path in paths if own.get(path) == runs]
        groups += [(read_settings(root, same[0]), same)] if same else []
    return groups


def _list_imports(root: Path, sources: dict[str, str]) -> dict[str, list[str]]:
    remappings = dict(entry.split("=", 1) for entry in read_settings(root)["remappings"])
    return {path: get_imports(path, text, remappings) for path, text in sources.items()}


def _resolve(importer: str, target: str, remappings: dict[str, str]) -> str:
    if target.startswith("."):
        return posixpath.normpath(posixpath.join(posixpath.dirname(importer), target))
    prefix = max((p for p in remappings if target.startswith(p)), key=len, default="")
    return remappings[prefix] + target[len(prefix) :] if prefix else target


def _read_source(root: Path, path: str) -> str:
    if not (root / path).is_file():
        advice = "" if NODE_MODULES.is_dir() else "; node_modules is missing: run ./dev setup"
        raise CompileError(f"a contract imports {path}: expected a file below {root}, found nothing{advice}")
    return (root / path).read_text()


def _run_solc(
    sources: dict[str, str], settings: dict[str, Any], own: list[str], *, with_code: bool
) -> dict[str, Any]:
    code = ["evm.bytecode", "evm.deployedBytecode.object"] if with_code else []
    parts = ["abi", "devdoc", "userdoc", *code]
    wanted = {"*": parts, "": ["ast"]}
    request = {
        "language": "Solidity",
        "settings": {**settings, "outputSelection": dict.fromkeys(own, wanted)},
        "sources": {path: {"content": text} for path, text in sources.items()},
    }
    try:
        output: dict[str, Any] = solcx.compile_standard(request, solc_binary=solc_shim_path())
    except solcx.exceptions.SolcError as error:
        # The original carries the whole request; its message says enough.
        raise CompileError(f"solc refused the contracts:\n{error.message}") from None
    return output


def list_published_names(tree: dict[str, Any]) -> Iterator[str]:
    """Yields the contracts that can be called or deployed. Libraries and abstract contracts are part of
    others' code."""
    for node in tree["nodes"]:
        if (
            node["nodeType"] == "ContractDefinition"
            and node["contractKind"] != "library"
            and not node["abstract"]
        ):
            yield node["name"]


def _read_built(built: Path, path: str, name: str) -> dict[str, Any]:
    """Returns the code of a contract in the compiler's form, from the artifact that forge wrote."""
    file = built / Path(path).name / f"{name}.json"
    try:
        artifact = json.loads(file.read_text())
        codes = {part: artifact[part] for part in ("bytecode", "deployedBytecode")}
        return {part: code | {"object": code["object"].removeprefix("0x")} for part, code in codes.items()}
    except (OSError, ValueError, KeyError) as error:
        raise CompileError(f"{file}: expected forge's artifact of {path}, got {error!r}") from None


def _to_artifact(name: str, compiled: dict[str, Any], source_hash: str, limit_bytes: int) -> Artifact:
    creation, code = compiled["evm"]["bytecode"], compiled["evm"]["deployedBytecode"]["object"]
    if creation["linkReferences"]:
        raise CompileError(
            f"{name} needs external libraries {sorted(creation['linkReferences'])}: expected none; "
            "make their functions internal"
        )
    if len(code) // 2 > limit_bytes:
        raise CompileError(
            f"{name} is too large: expected at most {limit_bytes} bytes, got {len(code) // 2}; split it"
        )
    words = dict(_collect_words(name, compiled))
    return Artifact(name, compiled["abi"], "0x" + creation["object"], source_hash, len(code) // 2, words)


def _collect_words(name: str, compiled: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Returns the words of each error that has tags, by its signature."""
    notices = compiled["userdoc"].get("errors", {})
    for signature, (doc, *_) in sorted(compiled["devdoc"].get("errors", {}).items()):
        tags = {tag.removeprefix("custom:"): text for tag, text in doc.items() if tag.startswith("custom:")}
        if not tags:
            continue
        words = {**notices.get(signature, [{}])[0], **tags}
        words = {tag: " ".join(text.split()) for tag, text in words.items()}
        _require_sound_words(f"{name}.{signature}", words, _list_parameters(compiled["abi"], signature))
        yield signature, words


def _list_parameters(abi: list[dict[str, Any]], signature: str) -> set[str]:
    errors = (item for item in abi if item["type"] == "error" and item["name"] == signature.split("(")[0])
    return {parameter["name"] for error in errors for parameter in error["inputs"]}


def _require_sound_words(where: str, words: dict[str, str], parameters: set[str]) -> None:
    unknown = words.keys() - {"notice", *ERROR_TAGS}
    used = {name for text in words.values() for name in _PLACEHOLDER.findall(text)}
    if unknown or not used <= parameters:
        raise CompileError(
            f"{where}: expected the tags {ERROR_TAGS} and the values {sorted(parameters)} in braces, got "
            f"{sorted(unknown | (used - parameters))}; correct the comment above the error"
        )


def _hash_sources(
    path: str, sources: dict[str, str], imports: dict[str, list[str]], settings: dict[str, Any]
) -> str:
    """Returns SHA-256 hex over the settings and every source that `path` imports, itself included."""
    reached, todo = {path}, [path]
    while todo:
        fresh = set(imports[todo.pop()]) - reached
        reached |= fresh
        todo.extend(fresh)
    document = {"settings": settings, "sources": {name: sources[name] for name in reached}}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _refuse_clashes(artifacts: list[Artifact]) -> None:
    names = [artifact.name for artifact in artifacts]
    clashes = sorted({name for name in names if names.count(name) > 1})
    if clashes:
        raise CompileError(
            f"two contracts share a name: expected distinct names, got {clashes} twice; rename one"
        )


if __name__ == "__main__":
    sys.exit(main())
