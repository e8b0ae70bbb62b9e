"""Honest replays by the hundred thousand: machines, training runs, and the judging of all pairs."""
