"""What a contract says when it refuses a call, in words: the decoded custom error, what was expected and what
to do.

The contracts return a selector and values. People need a sentence, and code needs the name; ContractRefused
has both.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Any

from protocol.adapters.chain.abi import SELECTOR_BYTES, Entry, list_package_abis, load_abi, parse_abi
from protocol.adapters.chain.values import decode_values
from protocol.adapters.chain.wordings import WORDINGS, Wording
from protocol.spec.errors import InvalidInput
from protocol.spec.params import TOKEN_WEI


class ContractRefused(InvalidInput):
    """A contract reverted. Nothing was changed. `name` is the custom error (`Error` for a bare reason,
    `Panic` for a failed assertion, `Unknown` for anything else), `values` its arguments by snake-case
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


def explain_revert(data: bytes, where: str) -> ContractRefused:
    """The refusal that revert `data` stands for; `where` names the call, for example `TaskRegistry.enrol`."""
    entry = _errors_by_selector().get(data[:SELECTOR_BYTES])
    if entry is None:
        return _refuse("Unknown", {"data": data}, where)
    values = decode_values(entry.inputs, data[SELECTOR_BYTES:])
    names = [parameter.name for parameter in entry.inputs]
    return _refuse(entry.name, dict(zip(names, values, strict=True)), where)


@cache
def _errors_by_selector() -> dict[bytes, Entry]:
    entries = [entry for name in list_package_abis() for entry in load_abi(name) if entry.kind == "error"]
    return {entry.selector: entry for entry in (*entries, *_BUILT_IN)}


def format_tokens(amount_wei: int) -> str:
    """An amount for people, exact, in whole tokens: `1.5 tokens`."""
    whole, rest = divmod(amount_wei, TOKEN_WEI)
    return f"{whole}.{rest:018d}".rstrip("0").rstrip(".") + " tokens"


def _refuse(name: str, values: dict[str, Any], where: str) -> ContractRefused:
    shown = {
        key: format_tokens(value) if key.endswith("_wei") else _show(value) for key, value in values.items()
    }
    wording = WORDINGS.get(name) or _generic_wording(name, shown)
    return ContractRefused(
        name=name,
        values=values,
        what=f"{wording.what} ({name})",
        expected=wording.expected.format(**shown),
        actual=wording.actual.format(**shown),
        remedy=wording.remedy,
        where=where,
    )


def _generic_wording(name: str, shown: Mapping[str, str]) -> Wording:
    listed = ", ".join(f"{key} {{{key}}}" for key in shown) or "no reason"
    return Wording(
        "the contract refused the call", "a call that it allows", f"{name}: {listed}", "Check the arguments."
    )


def _show(value: Any) -> str:
    """Roots in hex; a right-padded ASCII word, such as the field of BadTerms, as text; an enum by its
    name."""
    if isinstance(value, IntEnum):
        return value.name
    if not isinstance(value, bytes):
        return str(value)
    text = value.rstrip(b"\0")
    is_text = len(value) == 32 and text and text.isascii() and text.decode("ascii").isprintable()
    return text.decode("ascii") if is_text else "0x" + value.hex()
