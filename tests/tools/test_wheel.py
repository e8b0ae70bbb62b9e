"""The wheel holds what a node imports and reads, and nothing of tests, lab and tools."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, get_imported_names, list_sources, parse
from tools.wheel import build_wheel

DATA = ("explorer/static", "protocol/adapters/abi")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of the wheel, built from this checkout."""
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as wheel:
        return set(wheel.namelist())


def name_in_wheel(path: Path) -> str:
    """Of a file of the checkout, relative to the root."""
    return str(path if path.parts[0] == "touchstone" else "touchstone" / path)


def test_the_wheel_has_one_package_and_its_description(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"touchstone"}
    assert not [name for name in names if {"tests", "lab", "tools"} & set(Path(name).parts)]


def test_the_wheel_has_every_module_of_the_product(names: set[str]) -> None:
    sources = [path for path in list_sources() if path.suffix == ".py"]
    wanted = {name_in_wheel(path) for path in sources}
    assert len(wanted) > 500 and {name for name in names if name.endswith(".py")} == wanted


def test_every_module_that_is_imported_is_inside(names: set[str]) -> None:
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in names}
    for path in list_sources():
        own = {one for one in get_imported_names(parse(path)) if one.split(".")[0] == "touchstone"}
        missing = {one for one in own if one not in modules}
        assert not missing or path == Path("dev"), (path, missing)


def test_files_that_are_no_modules_are_inside(names: set[str]) -> None:
    wanted = [
        path.relative_to(ROOT) for folder in DATA for path in (ROOT / folder).iterdir() if path.is_file()
    ]
    wanted += [Path("scripts/tasks/task.toml"), Path("touchstone/py.typed")]
    assert len(wanted) > 20 and {name_in_wheel(path) for path in wanted} <= names


def find_read_files(tree: ast.AST) -> set[str]:
    """Names of files that a module reads beside itself: `Path(__file__).with_name("task.toml")`."""
    return {
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "with_name" and node.args
        if isinstance(node.args[0], ast.Constant) and "__file__" in ast.dump(node.func)
    }


def test_what_a_module_reads_beside_itself_is_inside(names: set[str]) -> None:
    found = 0
    for path in list_sources():
        for name in find_read_files(parse(path)):
            beside = path.with_name(name)
            files = (
                [beside]
                if (ROOT / beside).is_file()
                else [one.relative_to(ROOT) for one in (ROOT / beside).glob("*")]
            )
            found += len(files)
            assert files and {name_in_wheel(one) for one in files} <= names, (path, name)
    assert found


def test_the_command_starts_from_an_unpacked_wheel(tmp_path: Path) -> None:
    """Without the checkout on the path: what it imports comes from the wheel alone."""
    with zipfile.ZipFile(build_wheel(tmp_path / "dist")) as wheel:
        wheel.extractall(tmp_path / "site")
    script = (
        "import sys; sys.path[:] = [sys.argv[1], *(one for one in sys.path if one not in sys.argv[2:])]; "
        "import touchstone.demo.run as demo; from touchstone.scripts.touchstone import main; "
        "assert demo.__file__.startswith(sys.argv[1]), demo.__file__; "
        "from touchstone.demo.settings import find_folder; print(find_folder()); "
        "sys.exit(main(['demo', '--help']))"
    )
    command = [sys.executable, "-P", "-c", script, str(tmp_path / "site"), str(ROOT)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("touchstone-demo\n") and "Usage: touchstone demo" in done.stdout
