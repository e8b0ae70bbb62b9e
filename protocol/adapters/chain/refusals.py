"""Explains a contract's refusal in words: the rule, what was expected, what was found.

A contract returns a selector and values. People need a sentence, and code needs the name; ContractRefused has
both.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from touchstone.protocol.adapters.chain.abi import (
    SELECTOR_BYTES,
    Entry,
    list_package_abis,
    load_document,
    parse_abi,
    to_field_name,
)
from touchstone.protocol.adapters.chain.abi_values import decode_values
from touchstone.protocol.adapters.chain.refusal_words import WORDINGS, Wording
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.tokens import format_tokens as format_tokens

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BOUNDS = ("expected", "first", "greatest", "last", "least", "most", "needed")
"""Values of an error whose names begin with these words are bounds: they say what would have been right."""


class ContractRefused(InvalidInput):
    """A contract reverted, and nothing was changed. `name` is the custom error (`Error` for a bare reason,
    `Panic` for a failed assertion, `Unknown` for anything else); `values` are its arguments by snake-case
    name."""

    def __init__(
        self,
        *,
        name: str,
        values: dict[str, Any],
        what: str,
        expected: object,
        actual: object,
        remedy: str,
        where: str = "",
    ) -> None:
        self.name = name
        self.values = values
        super().__init__(what=what, expected=expected, actual=actual, remedy=remedy, where=where)


_BUILT_IN = parse_abi(
    "Solidity",
    [
        {"type": "error", "name": "Error", "inputs": [{"name": "reason", "type": "string"}]},
        {"type": "error", "name": "Panic", "inputs": [{"name": "code", "type": "uint256"}]},
    ],
)


@dataclass(frozen=True)
class ErrorBook:
    """The contracts' errors by selector, with words from the contracts' sources, then from
    `refusal_words.py`."""

    errors: Mapping[bytes, Entry]
    words: Mapping[bytes, Mapping[str, str]]

    def explain(self, data: bytes, where: str) -> ContractRefused:
        """Returns the refusal for revert `data`; `where` names the call."""
        entry = self.errors.get(data[:SELECTOR_BYTES])
        if entry is None:
            return _refuse("Unknown", {"data": data}, {}, where)
        values = decode_values(entry.inputs, data[SELECTOR_BYTES:])
        named = {parameter.name: value for parameter, value in zip(entry.inputs, values, strict=True)}
        return _refuse(entry.name, named, self.words.get(entry.selector, {}), where)


def make_book(documents: Mapping[str, Mapping[str, Any]]) -> ErrorBook:
    """Returns an ErrorBook. `documents` are what `./dev compile` wrote, by contract."""
    entries = list(_BUILT_IN)
    words: dict[bytes, Mapping[str, str]] = {}
    for contract, document in documents.items():
        errors = [entry for entry in parse_abi(contract, document["abi"]) if entry.kind == "error"]
        said = document.get("words", {})
        words |= {error.selector: said[error.signature] for error in errors if error.signature in said}
        entries += errors
    return ErrorBook({entry.selector: entry for entry in entries}, words)


@cache
def load_book() -> ErrorBook:
    """Returns the errors of all contracts in the package."""
    return make_book({name: load_document(name) for name in list_package_abis()})


def explain_revert(data: bytes, where: str) -> ContractRefused:
    """Returns the refusal for revert `data`; `where` names the call, for example `Tasks.join`."""
    return load_book().explain(data, where)


def _refuse(name: str, values: dict[str, Any], words: Mapping[str, str], where: str) -> ContractRefused:
    shown = {
        key: format_tokens(value) if key.endswith("_wei") else _show(value) for key, value in values.items()
    }
    table = WORDINGS.get(name)
    if table is None or not _fits(table, shown):
        table = _word_by_values(name, shown)
    return ContractRefused(
        name=name,
        values=values,
        what=f"{words.get('notice', table.what).rstrip('.')} ({name})",
        expected=_fill(words.get("expected", table.expected), shown),
        actual=_fill(words.get("actual", table.actual), shown),
        remedy=_fill(words.get("remedy", table.remedy), shown),
        where=where,
    )


def _fits(wording: Wording, shown: Mapping[str, str]) -> bool:
    """Returns whether the wording uses only values of this error. Another contract may have an error of the
    same name."""
    return all(name in shown for text in wording for name in _PLACEHOLDER.findall(text))


def _fill(text: str, shown: Mapping[str, str]) -> str:
    """Returns the text with values put in for names in braces; names may be in Solidity's spelling."""
    return _PLACEHOLDER.sub(lambda found: shown[to_field_name(found[1], 0)], text)


def _word_by_values(name: str, shown: Mapping[str, str]) -> Wording:
    """Returns a wording for an error that has none: its values by name, split into bounds and what was
    found."""
    bounds = [key for key in shown if key.startswith(_BOUNDS)]
    found = [key for key in shown if key not in bounds]
    expected, actual = (", ".join(f"{key} {{{key}}}" for key in keys) for keys in (bounds, found))
    return Wording(
        "the contract refused the call",
        expected or "a call that it allows",
        f"{name}: {actual or 'no reason'}",
        "Check the arguments.",
    )


def _show(value: Any) -> str:
    """Formats a value: roots in hex, a right-padded ASCII word (the name of a rule) as text."""
    if not isinstance(value, bytes):
        return str(value)
    text = value.rstrip(b"\0")
    is_text = len(value) == 32 and text and text.isascii() and text.decode("ascii").isprintable()
    return text.decode("ascii") if is_text else "0x" + value.hex()
