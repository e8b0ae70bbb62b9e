"""docs/errors.md has every error that the code can raise on purpose."""

import ast
from pathlib import Path

from tests.architecture.error_list import MARK, PAGE, find_errors, render, write
from tests.architecture.sources import list_sources, parse
from touchstone.protocol.spec.game.rule_refusals import REMEDIES


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text().partition(MARK)[2] == "\n" + render(), "python -m tests.architecture.error_list"


def test_no_wording_of_the_code_is_missing_on_the_page() -> None:
    """Looked for in another way than the list is made."""
    page = " ".join(PAGE.read_text().split())
    calls = [node for path in list_sources() for node in ast.walk(parse(path)) if isinstance(node, ast.Call)]
    whats = [one.value for call in calls for one in call.keywords if one.arg == "what"]
    plain = {one.value for one in whats if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    assert len(plain) > 150
    missing = [one for one in plain if f"| {one.replace('|', chr(92) + '|')} |" not in page and one[0] != "_"]
    assert missing == []
    assert all(f"| `{name}` | {remedy} |" in page for name, remedy in REMEDIES.items())


def test_words_are_followed_through_a_helper_to_its_callers() -> None:
    source = """
HINT = "Mend it."
def refuse(what, actual, remedy=HINT):
    return InvalidInput(what=what, expected="x", actual=actual, remedy=remedy)
def f(name, is_a):
    raise refuse(f"no {name}", "y")
    raise refuse("b", "y", "Leave it.")
    raise InvalidInput(what="one" if is_a else "two", expected=1, actual=2, remedy=f"Ask {name}.")
    raise InvalidInput(what=fault.what, expected=1, actual=2, remedy="Told on.")
"""
    wanted = {("no NAME", "Mend it."), ("b", "Leave it."), ("one", "Ask NAME."), ("two", "Ask NAME.")}
    assert find_errors(ast.parse(source)) == wanted


def test_what_people_wrote_stays(tmp_path: Path) -> None:
    page = tmp_path / "errors.md"
    page.write_text("by hand\n" + MARK + "old\n")
    write(page)
    assert page.read_text() == "by hand\n" + MARK + "\n" + render()
