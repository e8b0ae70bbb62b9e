"""Measures a chain's block time, and says when a block will come."""

from dataclasses import dataclass

from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import GameChain

RECENT_BLOCKS = 100
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
SHOWN_DAYS = 3
"""From this many days on, durations are shown in days."""


@dataclass(frozen=True)
class Pace:
    """The newest block, and the recent seconds per block (None: not known)."""

    head_block: int
    block_s: float | None

    def show_block(self, number: int) -> str:
        """Returns `block 9000 (in about 12 min)`. Leaves the time out if the block has come, or the block
        time is not known."""
        left = number - self.head_block
        if left <= 0 or self.block_s is None:
            return f"block {number}"
        return f"block {number} (in {show_duration(left * self.block_s)})"

    def show_wait(self, number: int) -> str:
        """Returns the time until a block, as `in about 26 h 10 min`; the block's number if the block time is
        not known."""
        if self.block_s is None:
            return f"at about block {number}"
        return f"in {show_duration(max(0, number - self.head_block) * self.block_s)}"


async def read_pace(chain: GameChain) -> Pace:
    """Returns the block time of the last blocks, from their timestamps."""
    head = await chain.head()
    first = await chain.connection.block(max(chain.deployment.deploy_block, head.number - RECENT_BLOCKS))
    return measure_pace(first, head)


def measure_pace(first: Head | None, head: Head) -> Pace:
    """Returns the block time between two blocks."""
    if first is None or first.number >= head.number:
        return Pace(head.number, None)
    return Pace(head.number, (head.timestamp_s - first.timestamp_s) / (head.number - first.number))


def spell_duration(seconds: float) -> str:
    """Returns a length of time for a sentence, in one unit: `about 50 minutes`, `about 26 hours`."""
    minutes, hours = round(seconds / MINUTE_S), round(seconds / HOUR_S)
    if seconds < MINUTE_S:
        return "less than a minute"
    if seconds < 2 * HOUR_S:
        return f"about {minutes} minute{'s' if minutes > 1 else ''}"
    if hours < SHOWN_DAYS * DAY_S // HOUR_S:
        return f"about {hours} hours"
    return f"about {round(seconds / DAY_S)} days"


def show_duration(seconds: float) -> str:
    """Returns a length of time in words: `about 1 h 23 min`, `about 26 h`, `about 3 d 4 h`."""
    minutes, hours = round(seconds / MINUTE_S), round(seconds / HOUR_S)
    if seconds < MINUTE_S:
        return "less than a minute"
    if minutes < HOUR_S // MINUTE_S:
        return f"about {minutes} min"
    if hours < DAY_S // HOUR_S:
        return f"about {minutes // 60} h {minutes % 60} min"
    if hours < SHOWN_DAYS * DAY_S // HOUR_S:
        return f"about {hours} h"
    return f"about {hours // 24} d {hours % 24} h"
