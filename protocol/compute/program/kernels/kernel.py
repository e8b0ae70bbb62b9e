"""Defines a kernel: a call without arguments that computes a node."""

from collections.abc import Callable

Kernel = Callable[[], object]
"""Computes a node into its output. It keeps the views that it was given, which may be pointed at other memory
between calls. So it may make views of them only while it runs."""
