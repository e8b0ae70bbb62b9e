"""The kernels of exact programs, with the same bits on every machine."""
