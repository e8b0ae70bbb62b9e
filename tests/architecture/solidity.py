"""What the Solidity sources declare and what their NatSpec says of it, read from the text.

No compiler: the sources are formatted by one tool, so that a declaration starts a line and its `///` lines
stand right above it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.architecture.sources import ROOT

FOLDER = ROOT / "contracts"
INHERITED = "inheritdoc"
_UNIT = re.compile(
    r"^(?:abstract )?(?P<kind>contract|interface|library) (?P<name>\w+)(?: is (?P<bases>[^{]+))?", re.M
)
_DECLARATION = re.compile(
    r"(?P<doc>(?:^[ ]*///[^\n]*\n)*)^[ ]*(?P<kind>function|event|error|struct|enum) (?P<name>\w+)"
    r"|(?P<doc2>(?:^[ ]*///[^\n]*\n)*)"
    r"^    (?P<type>[\w.() =>]+?) public (?:[\w ]+ )?(?P<variable>\w+)(?: =[^;]*)?;",
    re.M,
)
_TAG = re.compile(r"^@([\w:]+)\s*(.*)$")


@dataclass(frozen=True)
class Declaration:
    """One function, event, error, struct, enum or public variable.

    unit: the contract, interface or library around it, empty at file level; kind: its keyword, `variable` for
    a getter; visibility: of a function, else empty; parameters: names of parameters, members or arguments, ""
    where there is no name; returns: the same of results; doc: (tag, text) in their order, `notice` where no
    tag is."""

    path: Path
    unit: str
    kind: str
    name: str
    visibility: str
    parameters: tuple[str, ...]
    returns: tuple[str, ...]
    doc: tuple[tuple[str, str], ...]

    def texts_of(self, tag: str) -> tuple[str, ...]:
        """The texts of all tags of a kind."""
        return tuple(text for one, text in self.doc if one == tag)


@cache
def list_files() -> tuple[Path, ...]:
    """The contracts' sources."""
    return tuple(sorted(FOLDER.rglob("*.sol")))


@cache
def read_declarations(path: Path) -> tuple[Declaration, ...]:
    """All declarations of a source file, in their order."""
    return tuple(parse_declarations(path, path.read_text()))


def parse_declarations(path: Path, text: str) -> Iterator[Declaration]:
    """All declarations of a source text; `path` is only noted."""
    units = [(match.start(), match["name"]) for match in _UNIT.finditer(text)]
    for match in _DECLARATION.finditer(text):
        unit = next((name for start, name in reversed(units) if start < match.start()), "")
        doc = read_doc(match["doc"] if match["kind"] else match["doc2"])
        if match["kind"] is None:
            yield Declaration(path, unit, "variable", match["variable"], "public", (), (), doc)
            continue
        head = _read_head(match["kind"], text, match.end())
        yield Declaration(path, unit, match["kind"], match["name"], *head, doc)


def read_bases(path: Path) -> dict[str, tuple[str, ...]]:
    """What each contract and interface of a file is."""
    found = _UNIT.finditer(path.read_text())
    return {match["name"]: tuple(re.findall(r"\w+", match["bases"] or "")) for match in found}


def read_doc(block: str) -> tuple[tuple[str, str], ...]:
    """The tags of a block of `///` lines, with their texts."""
    found: list[list[str]] = []
    for line in (line.strip().removeprefix("///").strip() for line in block.splitlines()):
        tag = _TAG.match(line)
        if tag:
            found.append([tag[1], tag[2]])
        elif found:
            found[-1][1] += " " + line
        else:
            found.append(["notice", line])
    return tuple((tag, text.strip()) for tag, text in found)


def _read_head(kind: str, text: str, place: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Visibility, parameters (members of a struct) and results of what starts at `place`."""
    if kind == "enum":
        return "", (), ()
    opening, closing, mark = ("{", "}", ";") if kind == "struct" else ("(", ")", ",")
    start = text.index(opening, place) + 1
    end = _find_end(text, start, opening, closing)
    parameters = _read_names(text[start:end], mark)
    if kind != "function":
        return "", parameters, ()
    tail = re.match(r"[^;{]*", text[end + 1 :])
    assert tail is not None
    visibility = re.search(r"\b(external|public|internal|private)\b", tail[0])
    results = re.search(r"\breturns \((.*)\)", tail[0], re.S)
    names = _read_names(results[1], ",") if results else ()
    return visibility[1] if visibility else "", parameters, names


def _find_end(text: str, start: int, opening: str, closing: str) -> int:
    depth = 1
    for match in re.finditer(f"[{re.escape(opening + closing)}]", text[start:]):
        depth += 1 if match[0] == opening else -1
        if depth == 0:
            return start + match.start()
    raise ValueError(f"expected {closing} behind {text[start:][:40]!r}, found none")


def _read_names(text: str, mark: str) -> tuple[str, ...]:
    """The names of `type place name` parts; a mapping's members count as one."""
    bare = re.sub(r"//[^\n]*", "", text)
    parts = [part.split() for part in bare.split(mark) if part.strip()]
    places = {"calldata", "memory", "storage", "indexed"}
    return tuple("" if len(p) == 1 or p[-1] in places else p[-1] for p in parts)
