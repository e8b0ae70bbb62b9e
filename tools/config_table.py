"""docs/node.md: the table of all keys of a home's `config.toml`, made of what the code says of each.

python -m tools.config_table            write the table
python -m tools.config_table --check    compare only; exit 1 if it differs
"""

import argparse
import json
import sys
from collections.abc import Sequence

import msgspec

from touchstone.scripts.home.config_keys import KEYS
from touchstone.scripts.home.home_config import HomeConfig
from touchstone.scripts.toolchain import ROOT

PAGE = ROOT / "docs" / "node.md"
BEGIN = "<!-- The table is written by `python -m tools.config_table`. -->\n\n"
END = "\n<!-- End of the table. -->\n"


def render() -> str:
    """Returns the table: each key, its default, and what it is for."""
    fields = {one.name: one for one in msgspec.structs.fields(HomeConfig)}
    lines = ["| key | default | what it is |", "|---|---|---|"]
    for name, said in KEYS.items():
        lines.append(f"| `{name}` | {_show_default(fields[name])} | {said} |")
    return "\n".join(lines) + "\n"


def _show_default(one: msgspec.structs.FieldInfo) -> str:
    if one.required:
        return ""
    default = one.default if one.default_factory is msgspec.NODEFAULT else one.default_factory()
    return f"`{json.dumps(default)}`"


def replace_table(page: str) -> str:
    """Returns the page with the table of now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{render()}{END}{rest.partition(END)[2]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or compares the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.config_table", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if it differs")
    options = parser.parse_args(arguments)
    found = PAGE.read_text()
    made = replace_table(found)
    if options.check and made != found:
        print(f"{PAGE.name} differs: run python -m tools.config_table", file=sys.stderr)
        return 1
    if not options.check:
        PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
