"""States the memory that any seat of a task needs at least, without its program and without PyTorch."""

PROCESS_BYTES = 650_000_000
"""The memory of a node's process without tensors: Python, PyTorch, its kernels."""
STATES_BYTES = 36
"""The bytes of three states for each parameter, as in `protocol/compute/program/step_runners.py`."""


def compute_least_memory_bytes(parameter_count: int) -> int:
    """Returns the memory of a node in one process, besides the tensors of a step. What these take follows
    from the program, which a node fetches before it asks for a stake."""
    return PROCESS_BYTES + STATES_BYTES * parameter_count
