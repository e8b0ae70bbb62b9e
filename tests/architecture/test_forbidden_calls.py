"""Bytes from strangers are never executed, and a shell never sees them."""

import ast

import pytest

from tests.architecture.sources import find_in_files, get_dotted_name, get_imported_names, list_sources, walk

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
    for node in walk(tree):
        if isinstance(node, ast.Call):
            found |= {get_dotted_name(node.func)} & FORBIDDEN_CALLS
            found |= {"shell=True" for keyword in node.keywords if _is_shell(keyword)}
    return found


def _is_shell(keyword: ast.keyword) -> bool:
    is_false = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
    return keyword.arg == "shell" and not is_false


def find_lost_cancellations(tree: ast.AST) -> list[int]:
    """Return the lines of calls that may drop a cancellation."""
    calls = [node for node in walk(tree) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if get_dotted_name(call.func) == LOSES_CANCELLATIONS]


def test_source_executes_no_data() -> None:
    assert not find_in_files(find_forbidden, list_sources())


def test_no_cancellation_is_lost() -> None:
    assert not find_in_files(find_lost_cancellations, list_sources())
    assert find_lost_cancellations(ast.parse("x = 1\nawait asyncio.wait_for(x, 1)")) == [2]


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
