"""The sources as syntax trees, for tests that check how the house is built."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROLES = ("node", "verifier", "whistleblower")
PACKAGES = ("protocol", "touchstone", *ROLES, "explorer", "scripts", "demo")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def list_sources(*folders: str) -> tuple[Path, ...]:
    """Return the Python files below `folders` (default: all packages and ./dev), relative to the root."""
    found = [path for folder in folders or PACKAGES for path in (ROOT / folder).rglob("*.py")]
    return tuple(sorted(path.relative_to(ROOT) for path in found)) + (() if folders else (Path("dev"),))


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of the file at `path`, relative to the root."""
    return ast.parse((ROOT / path).read_text(), str(path))


@cache
def walk(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return every node of a tree, in the order of `ast.walk`."""
    return tuple(ast.walk(tree))


def find_in_files(find: Callable[[ast.Module], object], paths: Iterable[Path]) -> dict[str, object]:
    """Return what `find` finds in the files, by path; nothing where all of it is empty."""
    found = {str(path): find(parse(path)) for path in paths}
    return {path: one for path, one in found.items() if one}


def walk_functions(tree: ast.AST) -> Iterator[Function]:
    """Yield every function and method, nested ones included."""
    return (node for node in walk(tree) if isinstance(node, Function))


def get_imported_names(tree: ast.AST) -> set[str]:
    """Return the full names of the modules that `tree` imports, wherever the statement stands."""
    names: set[str] = set()
    for node in walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def get_dotted_name(node: ast.AST) -> str:
    """Return `a.b.c` for a chain of attributes on a name, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = get_dotted_name(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""
