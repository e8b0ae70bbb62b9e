"""Formats amounts of tokens for people."""

from touchstone.protocol.spec.params import TOKEN_WEI


def format_tokens(amount_wei: int) -> str:
    """Returns an exact amount in whole tokens: `1.5 tokens`."""
    whole, rest = divmod(amount_wei, TOKEN_WEI)
    return f"{whole}.{rest:018d}".rstrip("0").rstrip(".") + " tokens"
