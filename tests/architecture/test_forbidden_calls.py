"""Bytes from strangers are never executed, and a shell never sees them."""

import ast
from pathlib import Path

import pytest

from tests.architecture.sources import get_dotted_name, get_imported_names, list_sources, parse

# Each of these can run code that its input names.
FORBIDDEN_MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {
    "__import__", "breakpoint", "compile", "eval", "exec", "importlib.import_module", "numpy.load", "np.load",
    "os.popen", "os.system", "torch.hub.load", "torch.load", "torch.save", "yaml.load", "yaml.unsafe_load",
}  # fmt: skip


LOSES_CANCELLATIONS = "asyncio.wait_for"
"""In Python 3.11 it drops a cancellation that comes with a result: what was asked to end goes on.
asyncio.timeout does not."""


def find_forbidden(tree: ast.AST) -> set[str]:
    """Return the forbidden modules that `tree` imports and the forbidden calls it makes."""
    found = {name for name in get_imported_names(tree) if name.split(".")[0] in FORBIDDEN_MODULES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found |= {get_dotted_name(node.func)} & FORBIDDEN_CALLS
            found |= {"shell=True" for keyword in node.keywords if _is_shell(keyword)}
    return found


def _is_shell(keyword: ast.keyword) -> bool:
    is_false = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
    return keyword.arg == "shell" and not is_false


@pytest.mark.parametrize("path", list_sources(), ids=str)
def test_source_executes_no_data(path: Path) -> None:
    assert not find_forbidden(parse(path))


@pytest.mark.parametrize("path", list_sources(), ids=str)
def test_no_cancellation_is_lost(path: Path) -> None:
    calls = [node.func for node in ast.walk(parse(path)) if isinstance(node, ast.Call)]
    assert LOSES_CANCELLATIONS not in map(get_dotted_name, calls)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from dill import loads",
        "eval(x)",
        "torch.load(f)",
        "os.system(c)",
        "run(c, shell=True)",
    ],
)
def test_forbidden_text_is_found(text: str) -> None:
    assert find_forbidden(ast.parse(text))


@pytest.mark.parametrize("text", ["re.compile(p)", "torch.compile(m)", "run(c, shell=False)", "model.eval()"])
def test_harmless_text_is_not_found(text: str) -> None:
    assert not find_forbidden(ast.parse(text))
