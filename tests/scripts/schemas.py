"""Real documents against the schemas of the manual, for the tests of `--json`."""

import json
from pathlib import Path
from typing import Any

import msgspec
from jsonschema import Draft202012Validator

from tests.scripts.network import ROOT

SCHEMAS = ROOT / "docs" / "schemas"
ERROR = "error"


def get_path(words: str) -> Path:
    """The schema of a command."""
    return SCHEMAS / f"{words.replace(' ', '-')}.json"


def open_validator(words: str) -> Any:
    """What validates a command's documents."""
    return Draft202012Validator(json.loads(get_path(words).read_text()))


def check(words: str, document: Any) -> Any:
    """The document as JSON has it, if a command may write it. It is one that JSON has without a loss."""
    document = msgspec.to_builtins(document)
    assert json.loads(json.dumps(document)) == document
    errors = [f"{error.json_path}: {error.message}" for error in open_validator(words).iter_errors(document)]
    assert not errors, errors
    return document


def read_one(words: str, out: str) -> Any:
    """The one document on a command's standard output."""
    assert out.endswith("\n") and len(out.splitlines()) == 1, out
    return check(words, json.loads(out))
