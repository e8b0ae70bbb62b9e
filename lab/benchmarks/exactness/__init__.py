"""Parts of the benchmark `exact`: equal bits, losses, time."""
