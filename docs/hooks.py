"""What mkdocs does for this site: it lists decisions, carries files from outside, parts lists from text.

A link of a page to `../tests/...` is right where the repository is read. The site has a copy of that file as
text, and the link leads there.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(((?:\.\./)+)((?!\.\.)[^)#\s]+)(#[^)\s]*)?\)")
COPIES = "source"
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
    """Lead links out of docs/ to the copies, and put the empty lines before lists and tables that mkdocs
    needs and readers of the plain text do not."""
    up = "../" * page.file.src_uri.count("/")

    def lead(found: re.Match[str]) -> str:
        path = (Path(page.file.src_uri).parent / found[1] / found[2]).as_posix()
        source = re.sub(r"^(?:[^/.]+/)?(?:\.\./)+", "", path)
        return f"]({up}{COPIES}/{source}.txt)"

    return OUTSIDE.sub(lead, "\n".join(_part_blocks(markdown.splitlines())))


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
    links = OUTSIDE.findall(page.read_text())
    targets = {(page.parent / up / rest).resolve() for up, rest, _ in links}
    return {path.relative_to(ROOT) for path in targets if not path.is_relative_to(ROOT / "docs")}
