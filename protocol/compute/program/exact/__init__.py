"""Kernels of exact programs: the same bits on every machine."""
