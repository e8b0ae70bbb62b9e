"""Tells amounts of tokens to people."""

from touchstone.protocol.spec.params import TOKEN_WEI


def format_tokens(amount_wei: int) -> str:
    """Returns an amount for people, exact, in whole tokens: `1.5 tokens`."""
    whole, rest = divmod(amount_wei, TOKEN_WEI)
    return f"{whole}.{rest:018d}".rstrip("0").rstrip(".") + " tokens"
