"""Talks to the chain: the contracts by their ABI, their events in order, transactions that are mined once."""
