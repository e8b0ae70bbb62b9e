"""Imports point one way, and the inner rooms see neither the world nor chance."""

import ast
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest

from tests.architecture.sources import (
    ROOT,
    find_in_files,
    get_dotted_name,
    get_imported_names,
    list_sources,
    parse,
    walk,
    walk_functions,
)

# What the specification may use of the standard library: no clock, file, socket or chance.
SPEC_ALLOWED = {
    "__future__", "abc", "bisect", "collections", "contextlib", "dataclasses", "enum", "fractions",
    "functools", "hashlib", "heapq", "hmac", "itertools", "json", "math", "numbers", "operator", "re",
    "statistics", "struct", "types", "typing",
}  # fmt: skip
SIGNER = Path("protocol/adapters/keys/account_key.py")
KEYS = Path("protocol/adapters/keys/signatures.py")
COMPUTE_ALLOWED = SPEC_ALLOWED | {"logging", "numba", "numpy", "os", "platform", "torch"}
# Threads of a process share a card's streams: one lock.
LOCKING = Path("protocol/compute/program/devices.py")
# What graphics cards alone run, and what loads it there.
ON_CARDS = {
    Path(f"protocol/compute/program/card_{name}.py"): {"triton"}
    for name in ("compile", "numbers", "elements", "rows", "products")
} | {Path("protocol/compute/program/card_choice.py"): {"importlib"}}
# It calls the OpenSSL that `hashlib` is linked with.
HASHING = Path("protocol/compute/tree_hashing.py")
# It asks the system for huge pages, keeps memory of vectors, and gives back what malloc keeps.
PAGING = Path("protocol/compute/program/tensor_allocator.py")


def find_foreign_imports(tree: ast.AST, allowed: set[str], packages: tuple[str, ...]) -> set[str]:
    """Return what `tree` imports beyond the top-level modules `allowed` and the house's `packages`."""
    names = get_imported_names(tree)
    return {
        name
        for name in names
        if name.split(".")[0] not in allowed
        and not any(name == package or name.startswith(package + ".") for package in packages)
    }


def find_local_imports(tree: ast.AST) -> list[int]:
    """Return the lines of imports that stand inside a function."""
    return [
        node.lineno
        for function in walk_functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def test_import_linter_contracts_are_kept() -> None:
    program = Path(sysconfig.get_path("scripts")) / "lint-imports"
    result = subprocess.run([sys.executable, program], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_spec_imports_only_pure_standard_library() -> None:
    find = partial(find_foreign_imports, allowed=SPEC_ALLOWED, packages=("touchstone.protocol.spec",))
    assert not find_in_files(find, list_sources("protocol/spec"))


def find_beyond_compute(path: Path) -> set[str]:
    allowed = COMPUTE_ALLOWED | ({"threading"} if path == LOCKING else set())
    allowed |= ON_CARDS.get(path, set())
    allowed |= {"_hashlib", "ctypes"} if path == HASHING else set()
    allowed |= {"ctypes", "mmap", "weakref"} if path == PAGING else set()
    rooms = ("touchstone.protocol.spec", "touchstone.protocol.compute")
    return find_foreign_imports(parse(path), allowed, rooms)


def test_compute_imports_only_torch_and_spec() -> None:
    found = {str(path): find_beyond_compute(path) for path in list_sources("protocol/compute")}
    assert not {path: names for path, names in found.items() if names}


def find_signing(tree: ast.AST) -> set[str]:
    called = {get_dotted_name(node.func).split(".")[-1] for node in walk(tree) if isinstance(node, ast.Call)}
    found = called & {"encode_typed_data", "sign_typed_data", "sign_message", "recover_message"}
    return found | ({"eth_account.messages"} & get_imported_names(tree))


def test_one_module_signs_and_recovers() -> None:
    """A key signs transactions itself; all else goes through the signer, in its one form."""
    assert find_in_files(find_signing, list_sources()).keys() == {str(SIGNER), str(KEYS)}


def test_no_import_inside_a_function() -> None:
    """A file of commands alone loads what a command does when it runs: `--help` waits for no PyTorch."""
    of_commands = ("scripts/*/*_commands.py", "demo/*_commands.py")
    others = [path for path in list_sources() if not any(map(path.match, of_commands))]
    assert not find_in_files(find_local_imports, others)


@pytest.mark.parametrize(
    "text", ["import time", "from random import choice", "import touchstone.protocol.compute.program.step"]
)
def test_foreign_imports_are_found(text: str) -> None:
    assert find_foreign_imports(ast.parse(text), SPEC_ALLOWED, ("touchstone.protocol.spec",))


def test_local_imports_are_found() -> None:
    assert find_local_imports(ast.parse("import a\ndef f():\n    import b\n")) == [3]


TESTS_OF_THE_PRODUCT = [path for path in list_sources("tests") if path.parts[1] != "lab"]


def find_imports_of(tree: ast.AST, folders: set[str]) -> set[str]:
    return {name for name in get_imported_names(tree) if name.split(".")[0] in folders}


def test_product_and_its_tests_need_no_lab() -> None:
    assert not find_in_files(partial(find_imports_of, folders={"lab", "tests"}), list_sources())
    assert not find_in_files(partial(find_imports_of, folders={"lab"}), TESTS_OF_THE_PRODUCT)
