"""What a campaign of the fuzzer counts, and when it is enough."""

import json
from pathlib import Path

import pytest

from tools import fuzz
from tools.mutation.project import hash_sources
from touchstone.scripts.toolchain import solc_shim_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two batches; forge has played the last run of the first one again."""
    monkeypatch.setattr(fuzz, "ROOT", tmp_path)
    ends = dict.fromkeys(fuzz.ENDS, 600)
    first = {"run": "1", "counts": {"calls keeper": 3, "success keeper": 3, "calls thief": 1, **ends}}
    second = {"run": "2", "counts": {"calls keeper": 7, "calls thief": 1, "success thief": 2, **ends}}
    (tmp_path / "1.jsonl").write_text(json.dumps(first) + "\n" + json.dumps(first) + "\n")
    (tmp_path / "2.jsonl").write_text(json.dumps(second) + "\n")
    for seed in (1, 2):
        (tmp_path / f"{seed}.json").write_text(json.dumps({"seed": seed, "violations": [], "seconds": 2.0}))
    return tmp_path


def test_a_line_that_is_being_written_does_not_count_yet(folder: Path) -> None:
    runs = fuzz.read_runs(folder)
    with open(folder / "2.jsonl", "a") as file:
        file.write('{"run": "3", "counts": {"calls keeper": 3')
    assert fuzz.read_runs(folder) == runs


def test_report_counts_each_run_once(folder: Path) -> None:
    report = fuzz.make_report(folder)
    assert (report["calls"], report["runs"], report["violations"]) == (12, 2, 0)
    assert report["handler_success"] == {"keeper": 0.3, "thief": 1.0}
    assert report["lowest_handler_success"] == 0.3
    assert report["ends"]["round merged"] == 1200
    assert report["mutation_score"] is None and report["proved"] is None
    assert fuzz.is_enough(report, 12) and not fuzz.is_enough(report, 13)


@pytest.mark.parametrize(
    "change", [{"violations": 1}, {"lowest_handler_success": 0.19}, {"ends": {"round merged": 99}}]
)
def test_a_campaign_that_falls_short_is_not_enough(folder: Path, change: dict[str, object]) -> None:
    assert not fuzz.is_enough({**fuzz.make_report(folder), **change}, 12)


def test_a_violation_is_counted_by_its_reason(folder: Path) -> None:
    broken = {"seed": 3, "violations": ['Broken("solvency", 1, 2)'], "seconds": 1.0}
    (folder / "3.json").write_text(json.dumps(broken))
    assert fuzz.make_report(folder)["violations"] == 1


def test_other_campaigns_count_for_the_same_sources_only(folder: Path) -> None:
    report = folder / "build" / "mutate" / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"score": 0.96, "source_hash": "of other sources"}))
    assert fuzz.make_report(folder)["mutation_score"] is None
    report.write_text(json.dumps({"score": 0.96, "source_hash": hash_sources()}))
    assert fuzz.make_report(folder)["mutation_score"] == 0.96


def test_a_proof_counts_while_what_it_imports_is_the_same(tmp_path: Path) -> None:
    for name, text in {"A": 'import "./B.sol";', "B": "", "C": ""}.items():
        (tmp_path / f"{name}.sol").write_text(text)
    (tmp_path / "foundry.toml").write_text(Path("foundry.toml").read_text())
    before = hash_sources(tmp_path, "A.sol")
    (tmp_path / "C.sol").write_text("contract C {}")
    assert hash_sources(tmp_path, "A.sol") == before
    (tmp_path / "B.sol").write_text("contract B {}")
    assert hash_sources(tmp_path, "A.sol") != before


def test_runs_count_while_the_contracts_that_they_deploy_by_name_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "Vault.sol").write_text("")
    (tmp_path / "Run.sol").write_text('contract Run { string code = "Vault.sol:Vault"; }')
    (tmp_path / "foundry.toml").write_text(Path("foundry.toml").read_text())
    before = hash_sources(tmp_path, "Run.sol")
    (tmp_path / "contracts" / "Vault.sol").write_text("contract Vault {}")
    assert hash_sources(tmp_path, "Run.sol") != before


def test_every_end_that_is_awaited_is_counted_by_the_bots() -> None:
    sources = "".join(path.read_text() for path in Path("tests/contracts/invariant").glob("*.sol"))
    for end in fuzz.ENDS:
        kind = end.split(", ")[-1].removeprefix("proof ")
        assert f'"{end}"' in sources or f'"{kind}"' in sources, end


def test_a_batch_that_fails_leaves_the_calls_that_broke_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Counter.t.sol").write_text(
        "contract Counter { uint256 public n; function add() external { ++n; } }\n"
        "contract CounterTest {\n"
        "    bool public constant IS_TEST = true; Counter counter = new Counter();\n"
        "    function targetContracts() external view returns (address[] memory targets)\n"
        "    { targets = new address[](1); targets[0] = address(counter); }\n"
        '    function invariant_few() external view { require(counter.n() < 3, "many"); }\n'
        "}\n"
    )
    (tmp_path / "foundry.toml").write_text(
        f'[profile.fuzz]\nsrc = "."\ntest = "."\nsolc = "{solc_shim_path()}"\noffline = true\n'
    )
    for name, value in {"ROOT": tmp_path, "TEST": "Counter.t.sol", "INVARIANT": "invariant_few"}.items():
        monkeypatch.setattr(fuzz, name, value)
    fuzz.run_batch(tmp_path, 7, 1, 10)
    assert json.loads((tmp_path / "7.json").read_text())["violations"] == ["many"]
    assert "Counter::add()" in (tmp_path / "7.log").read_text()
