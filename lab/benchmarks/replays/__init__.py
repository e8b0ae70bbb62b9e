"""Honest replays by the hundred thousand: machines, training runs, and the judgement of all pairs."""
