"""Commands that move tokens, and what holds a stake."""
