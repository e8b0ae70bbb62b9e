"""What the benchmark `exact` measures: equal bits, losses, time."""
