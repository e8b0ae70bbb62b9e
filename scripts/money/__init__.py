"""Commands that move tokens."""
