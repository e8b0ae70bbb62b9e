"""Writes the list in docs/errors.md: every error that the code raises on purpose, with its remedy.

`python -m tests.architecture.error_list` writes it anew; a test compares. What is put in at run time stands
there as a name in capitals.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path

from tests.architecture.sources import Function, list_sources, parse
from touchstone.protocol.spec.game.rule_refusals import REMEDIES
from touchstone.scripts.toolchain import ROOT

PAGE = ROOT / "docs" / "errors.md"
MARK = "<!-- The rest is written by `python -m tests.architecture.error_list`. -->\n"
GROUPS = {
    "Commands, homes and task files": ("scripts", "demo", "node/exports", "node/submit.py"),
    "The explorer": ("explorer",),
    "The chain": ("protocol/adapters/chain",),
    "Files, keys, data and peers": ("protocol/adapters",),
    "A node at work": ("node", "protocol/economics", "verifier", "whistleblower"),
    "A step that is recorded": ("touchstone/step",),
    "The machine and its arithmetic": ("protocol/compute",),
    "Messages and rules": ("protocol/spec",),
}
"""Heading -> folders; a file is in the first group that has it. The narrower folder comes first."""
FIELDS = ("what", "remedy")
NO_REMEDY = "see the line `do:`"
"""Where the code makes the remedy out of several parts."""


def find_errors(tree: ast.Module, callers: Iterable[ast.Module] = ()) -> set[tuple[str, str]]:
    """(what, remedy) of each error that a module makes, also through a function of the module to which its
    callers pass the words. callers: the other modules that import from it."""
    constants = _read_constants(tree)
    calls = _list_calls(tree)
    elsewhere = [(_list_calls(other), _list_imported(other), _read_constants(other)) for other in callers]
    found: set[tuple[str, str]] = set()
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):
        own = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
        own = [one for one in own if one not in ("self", "cls")]
        for parts in _list_parts(function):
            told = _list_names(parts["what"]) & set(own)
            for call in calls.get(function.name, []) if told else []:
                given = _read_defaults(function) | dict(zip(own, call.args, strict=False))
                given |= {one.arg: one.value for one in call.keywords if one.arg}
                found |= _spell_all(parts, constants | given)
            for theirs, imported, known in elsewhere if told else ():
                for call in theirs.get(function.name, []) if function.name in imported else ():
                    passed = dict(zip(own, call.args, strict=False))
                    passed |= {one.arg: one.value for one in call.keywords if one.arg}
                    spelled = {name: _spell_out(value, known) for name, value in passed.items()}
                    found |= _spell_all(parts, constants | _read_defaults(function) | spelled)
            if not (told and function.name in calls):
                found |= _spell_all(parts, constants)
    for statement in (one for one in tree.body if not isinstance(one, Function | ast.ClassDef)):
        for parts in _list_parts(statement):
            found |= _spell_all(parts, constants)
    return found


@cache
def _list_calls(tree: ast.Module) -> dict[str, list[ast.Call]]:
    calls: dict[str, list[ast.Call]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            calls.setdefault(name, []).append(node)
    return calls


@cache
def _list_imported(tree: ast.Module) -> set[str]:
    return {name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names}


def _list_callers(path: Path) -> list[ast.Module]:
    """The modules that import functions from the one at `path`."""
    module = ".".join(("touchstone", *path.with_suffix("").parts))
    module = module.replace("touchstone.touchstone", "touchstone")
    return _map_callers().get(module, [])


@cache
def _map_callers() -> dict[str, list[ast.Module]]:
    callers: dict[str, list[ast.Module]] = {}
    for tree in map(parse, list_sources()):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                callers.setdefault(node.module, []).append(tree)
    return callers


def _spell_out(expression: ast.expr, known: dict[str, ast.expr]) -> ast.expr:
    """The same with the names of the calling module as texts."""
    first, *others = _spell(expression, known)
    spelled: ast.expr = ast.Constant(first)
    for other in others:
        spelled = ast.IfExp(test=ast.Constant(True), body=spelled, orelse=ast.Constant(other))
    return spelled


@cache
def _read_constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Names of a module that stand for a value, imported ones too."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.ImportFrom) and node.module:
            path = _find_module(node.module)
            names = {one.name for one in node.names if one.name.isupper()}
            if names and (ROOT / path).is_file():
                theirs = _read_constants(parse(path))
                found |= {name: theirs[name] for name in names & theirs.keys()}
    return found


def _find_module(name: str) -> Path:
    """The file of a module as `list_sources` has it, so that it is parsed once."""
    path = Path(name.replace(".", "/") + ".py")
    inner = Path(*path.parts[1:])
    return inner if path.parts[0] == "touchstone" and (ROOT / inner).is_file() else path


def _list_parts(function: ast.AST) -> Iterator[dict[str, ast.expr]]:
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and any(one.arg == "what" for one in call.keywords):
            yield {one.arg: one.value for one in call.keywords if one.arg in FIELDS}


def _read_defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    arguments = function.args
    late = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    pairs = [*zip(late, arguments.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d]
    return {one.arg: value for one, value in pairs}


def _list_names(expression: ast.expr) -> set[str]:
    """Names that a text is made of; not those by which one of two is chosen."""
    if isinstance(expression, ast.IfExp):
        return _list_names(expression.body) | _list_names(expression.orelse)
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _spell_all(parts: dict[str, ast.expr], known: dict[str, ast.expr]) -> set[tuple[str, str]]:
    """Every wording; nothing where `what` is not known here: then it is another error's, told on."""
    whats = [one for one in _spell(parts["what"], known) if not one.startswith("...")]
    whats = [one for one in whats if any(c.islower() for c in one)]
    remedies = _spell(parts["remedy"], known) if "remedy" in parts else [NO_REMEDY]
    remedies = [one if any(c.islower() for c in one) else NO_REMEDY for one in remedies]
    return set(product(whats, remedies))


def _spell(expression: ast.expr, known: dict[str, ast.expr]) -> list[str]:
    """The texts that an expression may be; capitals for what is only known at run time."""
    match expression:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=first, orelse=second):
            return [*_spell(first, known), *_spell(second, known)]
        case ast.BinOp(left=first, op=ast.Add(), right=second):
            return [a + b for a in _spell(first, known) for b in _spell(second, known)]
        case ast.JoinedStr(values=values):
            return ["".join(one) for one in product(*(_spell(value, known) for value in values))]
        case ast.FormattedValue(value=value):
            return _spell(value, known)
        case ast.Name(id=name) if name in known:
            return _spell(known[name], {k: v for k, v in known.items() if k != name})
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name.upper().strip("_")]
        case ast.Subscript(value=value):
            return _spell(value, {})
        case _:
            return ["..."]


@cache
def render() -> str:
    """The list, as Markdown."""
    lines: list[str] = []
    done: set[Path] = set()
    groups = sorted(GROUPS.items(), key=lambda one: -max(folder.count("/") for folder in one[1]))
    tables: dict[str, set[tuple[str, str]]] = {}
    for heading, folders in groups:
        paths = {one for one in list_sources() if any(map(one.is_relative_to, folders))} - done
        done |= paths
        tables[heading] = {error for path in paths for error in find_errors(parse(path), _list_callers(path))}
    for heading in (one for one in GROUPS if tables[one]):
        lines += ["", f"## {heading}", "| error | what to do |", "|---|---|"]
        rows = sorted(tables[heading], key=lambda one: (one[0].lower(), one[1]))
        lines += [f"| {_cell(what)} | {_cell(remedy)} |" for what, remedy in rows]
    lines += ["", "## What the contracts refuse", "| name | what to do |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(remedy)} |" for name, remedy in sorted(REMEDIES.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def write(page: Path = PAGE) -> None:
    """Write the list behind what people wrote."""
    head, mark, _ = page.read_text().partition(MARK)
    assert mark, f"{page} has no line: {MARK}"
    page.write_text(head + MARK + "\n" + render())


if __name__ == "__main__":
    write()
