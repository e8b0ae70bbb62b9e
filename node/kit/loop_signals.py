"""Lets a node's work wait for the chain, or make the loop look again."""

from collections.abc import Awaitable, Callable

WaitForBlock = Callable[[int], Awaitable[int]]
"""`wait_for_block(number)` waits for this block, and returns the newest folded one."""

NotifyLoop = Callable[[], None]
"""Makes the loop look again before the next block, because something may have made a duty due."""
