"""Reads amounts of tokens that people type."""

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import TOKEN_WEI

MAX_WHOLE_DIGITS = 59
"""The most digits of whole tokens, so that their wei fit into 256 bits."""
MAX_SHOWN_CHARACTERS = 80
"""The most characters of the input that an error shows."""


def parse_tokens(text: str) -> int:
    """Returns a number of whole tokens such as `12.5` in wei. Raises InvalidInput if it is not a positive
    number with at most 18 decimals, or too long."""
    whole, _, decimals = text.partition(".")
    is_short = len(whole) <= MAX_WHOLE_DIGITS and len(decimals) <= 18
    is_number = is_short and (whole + decimals).isascii() and (whole + decimals).isdigit()
    amount_wei = int(whole or 0) * TOKEN_WEI + int(decimals.ljust(18, "0")) if is_number else 0
    if amount_wei <= 0:
        raise InvalidInput(
            what="not an amount of tokens",
            expected="a positive number such as 1000 or 12.5",
            actual=repr(text) if len(text) <= MAX_SHOWN_CHARACTERS else f"{len(text)} characters",
            remedy="Give whole tokens, not wei.",
        )
    return amount_wei
