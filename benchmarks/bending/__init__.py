"""The parts of `benchmarks/steering.py`: derivatives of a trace, elements at their edges, wishes."""
