"""Locks by name: one piece of work at a time."""

import asyncio

Locks = dict[tuple[str, object], asyncio.Lock]
"""(kind of work, what it is about) -> held while that is done. A missing name makes a lock."""
