"""Entry points and tools; no other package imports them."""
