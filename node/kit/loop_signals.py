"""How a node's work waits for the chain, and makes the loop look again."""

from collections.abc import Awaitable, Callable

WaitForBlock = Callable[[int], Awaitable[int]]
"""wait_for_block(number): the newest folded block, once it is `number` or later."""

NotifyLoop = Callable[[], None]
"""Has the loop look again before the next block: something came that may make a duty due."""
