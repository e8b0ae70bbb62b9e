"""The chain: the contracts by their ABI, their events in order, and transactions that are mined once."""
