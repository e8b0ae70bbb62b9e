"""One name, one thing: files and public classes of the product, and what each file says it is for."""

import ast
from collections import Counter

from tests.architecture.sources import find_in_files, list_sources, parse

MOST_WORDS = 20


def test_no_two_files_share_a_name() -> None:
    names = Counter(path.name for path in list_sources() if path.name not in ("__init__.py", "__main__.py"))
    assert not [name for name, count in names.items() if count > 1]


def test_no_public_class_of_the_protocol_is_named_twice() -> None:
    classes = Counter(
        node.name
        for path in list_sources("protocol")
        for node in parse(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, count in classes.items() if count > 1]


def find_long_sentence(tree: ast.Module) -> str:
    """Return the first sentence of a file where it has too many words."""
    sentence = (ast.get_docstring(tree) or "").split("\n\n")[0].split(". ")[0]
    return sentence if len(sentence.split()) > MOST_WORDS else ""


def test_the_first_sentence_says_the_job_in_few_words() -> None:
    assert not find_in_files(find_long_sentence, list_sources())
    assert find_long_sentence(ast.parse(f'"""{"word " * 21}."""'))
