"""The committed ABI and bytecode are what the contracts say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools import compile as compiler
from tools.compile import Artifact, CompileError
from touchstone.scripts.toolchain import ROOT

SETTINGS = {"@lib/": "node_modules/lib/"}
FOUNDRY = "\n".join(
    line
    for line in (ROOT / "foundry.toml").read_text().splitlines()
    if "optimizer_runs = 20_000 }," not in line
)
"""This repository's settings, but for files with runs of their own: a test gives some of its own."""
CONTRACT = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;
import "./Base.sol";
contract Counter is ICounter { uint256 public count; function add() external { count += Step.SIZE; } }
"""
BASE = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;
interface ICounter { function add() external; }
abstract contract Unused { }
library Step { uint256 internal constant SIZE = 2; }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with two source files and this repository's settings."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "foundry.toml").write_text(FOUNDRY)
    (tmp_path / "contracts" / "Counter.sol").write_text(CONTRACT)
    (tmp_path / "contracts" / "Base.sol").write_text(BASE)
    return tmp_path


RUNS = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;
contract NAME { function get() external pure returns (uint256) { return type(uint256).max << 128; } }
"""


def test_the_package_is_of_these_sources_and_settings() -> None:
    assert compiler.find_stale_code() == [], "run ./dev compile; ./dev test compares the code too"


def give_runs(project: Path, path: str, runs: int) -> None:
    """Write into the project's foundry.toml that the file at `path` is compiled with `runs`."""
    first = "compilation_restrictions = [\n"
    assert first in FOUNDRY
    own = f'{{ paths = "{path}", optimizer_runs = {runs} }},\n'
    (project / "foundry.toml").write_text(FOUNDRY.replace(first, first + own))


def test_a_file_is_compiled_with_the_runs_of_its_own(project: Path, tmp_path: Path) -> None:
    for name in ("Plain", "Rare"):
        (project / "contracts" / f"{name}.sol").write_text(RUNS.replace("NAME", name))
    before = {artifact.name: artifact for artifact in compiler.compile_contracts(project)}
    assert before["Plain"].bytecode == before["Rare"].bytecode
    compiler.write_artifacts(before.values(), tmp_path / "abi")
    give_runs(project, "contracts/Rare.sol", 1)
    assert compiler.read_settings(project, "contracts/Rare.sol")["optimizer"]["runs"] == 1
    assert compiler.read_settings(project, "contracts/Plain.sol") == compiler.read_settings(project)
    assert compiler.find_stale_code(project, tmp_path / "abi") == ["Rare"]
    after = {artifact.name: artifact for artifact in compiler.compile_contracts(project)}
    assert after["Rare"].code_bytes < before["Rare"].code_bytes
    assert [name for name in after if after[name] != before[name]] == ["Rare"]


def test_a_file_with_runs_of_its_own_must_be_there_and_leave_room(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "contracts" / "Rare.sol").write_text(RUNS.replace("NAME", "Rare"))
    give_runs(project, "contracts/Rare.sol", 1)
    monkeypatch.setattr(compiler, "SPARE_BYTES", compiler.CODE_LIMIT_BYTES)
    with pytest.raises(CompileError, match=r"Rare is too large: expected at most 0 bytes"):
        compiler.compile_contracts(project)
    (project / "contracts" / "Rare.sol").unlink()
    with pytest.raises(CompileError, match=r"foundry\.toml.*got contracts/Rare\.sol"):
        compiler.compile_contracts(project)


@pytest.fixture
def built(project: Path) -> tuple[Path, Path]:
    """The package of the project, and a folder where forge wrote the same code."""
    package, built = project / "abi", project / "out"
    artifacts = compiler.compile_contracts(project)
    compiler.write_artifacts(artifacts, package)
    for artifact, source in zip(artifacts, ("Counter", "Base"), strict=True):
        (built / f"{source}.sol").mkdir(parents=True)
        codes = {"bytecode": artifact.bytecode, "deployedBytecode": "0x" + "00" * artifact.code_bytes}
        document = {part: {"object": code, "linkReferences": {}} for part, code in codes.items()}
        (built / f"{source}.sol" / f"{artifact.name}.json").write_text(json.dumps(document))
    return package, built


def test_code_that_forge_built_is_not_made_again(
    project: Path, built: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = compiler._run_solc, []

    def note(*arguments: Any, with_code: bool) -> dict[str, Any]:
        asked.append(with_code)
        return run(*arguments, with_code=with_code)

    monkeypatch.setattr(compiler, "_run_solc", note)
    assert compiler.check_package(project, *built) == [] and asked == [False]
    counter = built[1] / "Counter.sol" / "Counter.json"
    counter.write_text(counter.read_text().replace("0x60", "0x61"))
    assert compiler.check_package(project, *built) == [] and asked == [False, False, True], "forge may differ"
    counter.unlink()
    assert compiler.check_package(project, *built) == [] and asked[3:] == [False, True], "or nothing"


def test_check_package_names_other_code_whoever_built_it(project: Path, built: tuple[Path, Path]) -> None:
    counter = built[0] / "Counter.json"
    counter.write_text(counter.read_text().replace("0x60", "0x61"))
    found = ["Counter.json: differs from the source"]
    assert compiler.check_package(project, *built) == compiler.check_package(project, built[0]) == found


def test_compile_contracts_publishes_contracts_and_interfaces_only(project: Path) -> None:
    counter, interface = compiler.compile_contracts(project)
    assert (counter.name, interface.name) == ("Counter", "ICounter")
    assert counter.bytecode.startswith("0x60") and counter.code_bytes > 0
    assert (interface.bytecode, interface.code_bytes) == ("0x", 0)
    assert {entry["name"] for entry in counter.abi} == {"add", "count"}


def with_error(project: Path, doc: str) -> list[Artifact]:
    """The artifacts where the interface has an error with this NatSpec, which the contract reverts with."""
    error = f"interface ICounter {{\n{doc}\n    error TooLow(uint256 leastWei, address from);\n"
    (project / "contracts" / "Base.sol").write_text(BASE.replace("interface ICounter {", error))
    return compiler.compile_contracts(project)


WORDS = """
    /// @notice An amount is too small.
    /// @param leastWei the bound
    /// @param from whose
    /// @custom:expected at least {leastWei}
    /// @custom:actual less of {from}
    /// @custom:remedy Pay
    ///     more.
"""


def test_compile_contracts_keeps_the_words_of_errors(project: Path) -> None:
    expected = {
        "TooLow(uint256,address)": {
            "notice": "An amount is too small.", "expected": "at least {leastWei}",
            "actual": "less of {from}", "remedy": "Pay more.",
        }
    }  # fmt: skip
    for artifact in with_error(project, WORDS):
        assert artifact.words == json.loads(artifact.to_json())["words"] == expected


def test_compile_contracts_keeps_nothing_of_errors_without_tags(project: Path) -> None:
    for artifact in with_error(project, "    /// @notice An amount is too small."):
        assert artifact.words == {} and "words" not in json.loads(artifact.to_json())


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("@custom:expectd much", "expectd"),
        ("@custom:remedy Pay {amount}.", "amount"),
        ("@custom:actual {}", "''"),
    ],
)
def test_compile_contracts_names_words_that_fit_no_error(project: Path, tag: str, said: str) -> None:
    with pytest.raises(CompileError, match=rf"Counter\.TooLow\(uint256,address\).*{said}"):
        with_error(project, f"    /// @notice An amount is too small.\n    /// {tag}")


def test_compile_contracts_takes_one_file_from_elsewhere(project: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests" / "Other.sol").write_text(CONTRACT.replace("./Base", "../contracts/Base"))
    (only,) = compiler.compile_contracts(project, "tests/Other.sol")
    assert only.name == "Counter" and only.code_bytes > 0


def test_compile_contracts_repeats_its_own_bytes(project: Path) -> None:
    first, second = (compiler.compile_contracts(project) for _ in range(2))
    assert [a.to_json() for a in first] == [a.to_json() for a in second]


def test_source_hash_covers_imported_files(project: Path) -> None:
    before = {a.name: a for a in compiler.compile_contracts(project)}
    (project / "contracts" / "Base.sol").write_text(BASE + "// a remark\n")
    after = {a.name: a for a in compiler.compile_contracts(project)}
    assert before["Counter"].source_hash != after["Counter"].source_hash
    assert before["Counter"].bytecode == after["Counter"].bytecode


def test_compile_contracts_names_a_missing_import(project: Path) -> None:
    (project / "contracts" / "Base.sol").unlink()
    with pytest.raises(CompileError, match=r"contracts/Base\.sol"):
        compiler.compile_contracts(project)


def test_compile_contracts_passes_on_what_solc_says(project: Path) -> None:
    (project / "contracts" / "Base.sol").write_text(BASE.replace("SIZE = 2", "SIZE = true"))
    with pytest.raises(CompileError, match="TypeError"):
        compiler.compile_contracts(project)


def test_compile_contracts_refuses_two_contracts_of_one_name(project: Path) -> None:
    (project / "contracts" / "Copy.sol").write_text(BASE)
    with pytest.raises(CompileError, match="ICounter"):
        compiler.compile_contracts(project)


@pytest.mark.parametrize(
    ("statement", "path"),
    [
        ('import "./A.sol";', "contracts/x/A.sol"),
        ("import {B, C as D} from '../A.sol';", "contracts/A.sol"),
        ('import {\n  B\n} from "@lib/A.sol";', "node_modules/lib/A.sol"),
        ('import * as A from "contracts/A.sol";', "contracts/A.sol"),
        ('import "contracts/A.sol" as A;', "contracts/A.sol"),
    ],
)
def test_get_imports_resolves_every_form(statement: str, path: str) -> None:
    assert compiler.get_imports("contracts/x/B.sol", f"pragma x; {statement}", SETTINGS) == [path]


def test_get_imports_ignores_comments() -> None:
    text = '// import "a.sol";\n/* import "b.sol"; */\n'
    assert compiler.get_imports("contracts/B.sol", text, SETTINGS) == []


def test_find_differences_names_missing_stale_and_orphaned_files(tmp_path: Path) -> None:
    artifacts = [Artifact(name, [], "0x", "0" * 64, 0) for name in ("Fresh", "Missing", "Stale")]
    compiler.write_artifacts(artifacts, tmp_path)
    assert not compiler.find_differences(artifacts, tmp_path)
    (tmp_path / "Missing.json").unlink()
    (tmp_path / "Stale.json").write_text(json.dumps({}))
    (tmp_path / "Orphan.json").write_text("{}")
    found = [line.split(":")[0] for line in compiler.find_differences(artifacts, tmp_path)]
    assert found == ["Missing.json", "Orphan.json", "Stale.json"]


def test_find_stale_code_names_what_other_sources_gave(project: Path, tmp_path: Path) -> None:
    compiler.write_artifacts(compiler.compile_contracts(project), tmp_path / "abi")
    assert compiler.find_stale_code(project, tmp_path / "abi") == []
    base = project / "contracts" / "Base.sol"
    base.write_text(base.read_text() + "// changed\n")
    assert compiler.find_stale_code(project, tmp_path / "abi") == ["Counter"]


def test_write_artifacts_removes_files_without_a_source(tmp_path: Path) -> None:
    (tmp_path / "Orphan.json").write_text("{}")
    compiler.write_artifacts([], tmp_path)
    assert not list(tmp_path.iterdir())
