"""Keeps the storage layout of each contract in tests/contracts/storage.txt, so that a change is seen.

Nothing is ever upgraded, so a change breaks nobody. But two fields that no longer share a word cost gas, and
a test that reads storage would miss a field that moved.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import solcx

from tools.compile import CompileError, list_published_names, read_settings, read_sources
from touchstone.scripts.toolchain import ROOT, ToolMissing, solc_shim_path

LAYOUT = ROOT / "tests" / "contracts" / "storage.txt"


def main(arguments: list[str] | None = None) -> int:
    """Writes the layout, or with --check compares it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.storage", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the source and write nothing")
    options = parser.parse_args(arguments)
    try:
        layout = render_layouts(read_layouts())
    except (CompileError, ToolMissing) as error:
        print(error, file=sys.stderr)
        return 1
    if not options.check:
        LAYOUT.write_text(layout)
        return 0
    if LAYOUT.read_text() == layout:
        return 0
    print(f"the storage layout differs from {LAYOUT.relative_to(ROOT)}: run ./dev compile", file=sys.stderr)
    return 1


def read_layouts() -> dict[str, Any]:
    """Returns solc's storage layout of each contract of contracts/ by name. Abstract contracts are left out,
    because the contracts that inherit them include them. It takes seconds.

    Raises CompileError."""
    sources = read_sources()
    own = [path for path in sources if path.startswith("contracts/")]
    request = {
        "language": "Solidity",
        "settings": {
            **read_settings(),
            "outputSelection": dict.fromkeys(own, {"*": ["storageLayout"], "": ["ast"]}),
        },
        "sources": {path: {"content": text} for path, text in sources.items()},
    }
    try:
        output = solcx.compile_standard(request, solc_binary=solc_shim_path())
    except solcx.exceptions.SolcError as error:
        raise CompileError(f"solc refused the contracts:\n{error.message}") from None
    return {
        name: layout
        for path in own
        for name in list_published_names(output["sources"][path]["ast"])
        if (layout := output["contracts"][path][name]["storageLayout"])["storage"]
    }


def render_layouts(layouts: dict[str, Any]) -> str:
    """Returns one line for each field: word, first byte in it, bytes, name, type; structs follow their
    contract. Contracts with the same layout stand together."""
    lines = ["# Written by ./dev compile: word, first byte, bytes, field, type."]
    groups = dict[tuple[str, ...], list[str]]()
    for name, layout in sorted(layouts.items()):
        groups.setdefault(tuple(_render_layout(layout)), []).append(name)
    for layout_lines, names in sorted(groups.items(), key=lambda group: group[1]):
        lines += ["", ", ".join(names), *layout_lines]
    return "\n".join(lines) + "\n"


def _render_layout(layout: dict[str, Any]) -> Iterator[str]:
    types = layout["types"]
    yield from _render_fields(layout["storage"], types)
    structs = {kind["label"]: kind for kind in types.values() if "members" in kind}
    for label, kind in sorted(structs.items()):
        yield f"  {label}"
        yield from (f"  {line}" for line in _render_fields(kind["members"], types))


def _render_fields(fields: list[dict[str, Any]], types: dict[str, Any]) -> Iterator[str]:
    for field in fields:
        kind = types[field["type"]]
        place = f"{field['slot']:>3} {field['offset']:>3} {kind['numberOfBytes']:>4}"
        yield f"  {place}  {field['label']}: {kind['label']}"


if __name__ == "__main__":
    sys.exit(main())
