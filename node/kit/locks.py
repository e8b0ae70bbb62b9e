"""Locks by name: one piece of work at a time."""

import asyncio

Locks = dict[tuple[str, object], asyncio.Lock]
"""Maps (kind of work, subject) to a lock that is held while the work runs. Missing locks are made when they
are asked for."""
