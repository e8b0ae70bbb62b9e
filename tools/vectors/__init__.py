"""Shared test vectors: cases on which Python and Solidity must agree. Layout: tests/vectors/README.md."""
