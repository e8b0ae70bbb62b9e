"""What computes a node: a call without arguments, prepared once."""

from collections.abc import Callable

Kernel = Callable[[], object]
"""Computes a node into its output. It keeps the views that it was given, which may be pointed at other memory
between calls. So it must not make views of them before it is called."""
