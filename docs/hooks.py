"""What mkdocs does for this site: it lists decisions, carries files from outside, parts lists from text.

A link of a page to `../tests/...` is right where the repository is read. The site has a copy of that file as
text, and the link leads there. A link to a folder leads nowhere in a site: its text stays.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(((?:\.\./)+)((?!\.\.)[^)#\s]+)(#[^)\s]*)?\)")
COPIES = "source"
MANUALS = frozenset(
    f"{name}.md" for name in ("index", "node", "operating", "task", "commands", "explorer", "demo", "audit")
)
LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)\)")
ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")


def on_config(config: Any) -> Any:
    """Put the decisions where the navigation has their heading, by number."""
    folder = Path(config.docs_dir) / "decisions"
    for entry in config.nav:
        if "Decisions" in entry:
            entry["Decisions"] = [f"decisions/{path.name}" for path in sorted(folder.glob("*.md"))]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add a copy of each file outside of docs/ that a page links to."""
    for page in files.documentation_pages():
        for source in _list_outside(Path(page.abs_src_path)):
            copy = File.generated(config, f"{COPIES}/{source}.txt", content=(ROOT / source).read_bytes())
            if files.get_file_from_path(copy.src_uri) is None:
                files.append(copy)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Have the search show manuals first, lead links out of docs/ to the copies, and put the empty lines
    before lists and tables that mkdocs needs and readers of the plain text do not."""
    page.meta["search"] = {"boost": _find_boost(page.file.src_uri)}
    up, folder = "../" * page.file.src_uri.count("/"), Path(page.file.abs_src_path).parent

    def lead(found: re.Match[str]) -> str:
        source = _find_outside(folder, found)
        return found[0] if source is None else f"]({up}{COPIES}/{source.as_posix()}.txt)"

    def unlink(found: re.Match[str]) -> str:
        return found[1] if (folder / found[2]).is_dir() else found[0]

    text = "\n".join(_part_blocks(markdown.splitlines()))
    return OUTSIDE.sub(lead, LINK.sub(unlink, text))


def _find_boost(page: str) -> float:
    """How much more a page counts in the search than others: manuals answer what people type, decisions do
    not."""
    if page in MANUALS:
        return 8.0
    return 0.1 if page.startswith(("decisions/", COPIES)) else 1.0


def _part_blocks(lines: list[str]) -> Iterator[str]:
    """The lines, with an empty one before each list or table that follows text."""
    last, in_list, in_code = "", False, False
    for line in lines:
        is_fence, is_item, is_row = line.lstrip().startswith("```"), ITEM.match(line), line.startswith("|")
        begins = (is_item and not in_list) or (is_row and not last.startswith("|"))
        if begins and last.strip() and not in_code:
            yield ""
        in_code ^= is_fence
        in_list = not in_code and bool(is_item or (in_list and line.startswith(" ")))
        yield line
        last = line


def _list_outside(page: Path) -> set[Path]:
    """Files of the checkout outside of docs/ that a page links to, relative to the root."""
    found = (_find_outside(page.parent, link) for link in OUTSIDE.finditer(page.read_text()))
    return {path for path in found if path is not None}


def _find_outside(folder: Path, link: re.Match[str]) -> Path | None:
    """The file outside of docs/ to which a link in a page of this folder leads; None where it is inside."""
    target = (folder / link[1] / link[2]).resolve()
    is_outside = target.is_file() and not target.is_relative_to(ROOT / "docs")
    return target.relative_to(ROOT) if is_outside else None
