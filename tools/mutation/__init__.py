"""Mutants of the contracts: which edits there are, and what the tests say of each."""
