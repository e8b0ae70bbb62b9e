"""Each module says why it exists, each public function what it does, each signature its types."""

import ast

from tests.architecture.sources import ROOT, Function, find_in_files, list_sources, walk


def find_undocumented(tree: ast.Module) -> list[str]:
    """Return the public names in `tree` without a docstring, `<module>` for the module itself."""
    missing = [] if ast.get_docstring(tree) else ["<module>"]
    return missing + _find_in_body(tree, "")


def _find_in_body(parent: ast.Module | ast.ClassDef, prefix: str) -> list[str]:
    missing = []
    for node in parent.body:
        if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
            missing += [] if ast.get_docstring(node) else [prefix + node.name]
            if isinstance(node, ast.ClassDef):
                missing += _find_in_body(node, f"{node.name}.")
    return missing


def find_untyped(tree: ast.Module) -> list[str]:
    """Return the functions in `tree` that leave a parameter or the result without a type."""
    return [node.name for node in walk(tree) if isinstance(node, Function) and not _is_typed(node)]


def _is_typed(function: Function) -> bool:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    variadic = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    typed = all(a.annotation for a in named + variadic if a.arg not in ("self", "cls"))
    return typed and (function.returns is not None or function.name == "__init__")


def test_everything_public_is_documented() -> None:
    assert not find_in_files(find_undocumented, list_sources())


def test_every_function_is_typed() -> None:
    assert not find_in_files(find_untyped, list_sources())


def test_undocumented_names_are_found() -> None:
    text = "class A:\n    def b(self): pass\n    def _c(self): pass\ndef d(): 'does'\n"
    assert find_undocumented(ast.parse(text)) == ["<module>", "A", "A.b"]


def test_untyped_functions_are_found() -> None:
    text = "def a(x) -> int: ...\ndef b(): ...\ndef c(*x: int) -> int: ...\nlambda y: y\n"
    assert find_untyped(ast.parse(text)) == ["a", "b"]


# Pages
LINE_CHARACTERS = 160


def find_long_lines(text: str) -> list[int]:
    """Return the numbers of lines that are too long to read in an editor; rows of a table may be long."""
    lines = enumerate(text.splitlines(), 1)
    return [n for n, line in lines if len(line) > LINE_CHARACTERS and not line.startswith("|")]


PAGES = sorted(path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))


def test_lines_of_pages_are_short() -> None:
    found = {str(path): find_long_lines((ROOT / path).read_text()) for path in PAGES}
    assert not {path: lines for path, lines in found.items() if lines}


def test_long_lines_are_found() -> None:
    assert find_long_lines(f"{'a' * 160}\n{'b' * 161}\n|{'c' * 200}|\n") == [2]
