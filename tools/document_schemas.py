"""docs/schemas: a JSON schema of what each command writes with `--json`, made of the documents' types.

python -m tools.document_schemas            write all schemas
python -m tools.document_schemas --check    compare only; exit 1 and name the files that differ
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from touchstone.scripts.documents.document_fields import Document
from touchstone.scripts.documents.document_table import DOCUMENTS
from touchstone.scripts.toolchain import ROOT

SCHEMAS = ROOT / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def make_schema(kind: type[Document]) -> dict[str, Any]:
    """Returns the schema of a document; its parts are in `$defs`."""
    _, parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    whole = parts.pop(kind.__name__)
    return {"$schema": DIALECT, **whole, **({"$defs": parts} if parts else {})}


def render_schemas() -> dict[str, str]:
    """Returns the text of each file by name."""
    return {
        f"{words.replace(' ', '-')}.json": json.dumps(make_schema(kind), indent=2) + "\n"
        for words, kind in DOCUMENTS.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or compares all schemas; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.document_schemas", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 where a file differs")
    options = parser.parse_args(arguments)
    made, found = render_schemas(), {path.name: path.read_text() for path in SCHEMAS.glob("*.json")}
    differing = sorted(name for name in made.keys() | found.keys() if made.get(name) != found.get(name))
    for name in differing:
        if options.check:
            print(f"{name} differs: run python -m tools.document_schemas", file=sys.stderr)
        elif name in made:
            (SCHEMAS / name).write_text(made[name])
        else:
            (SCHEMAS / name).unlink()
    return int(options.check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
