"""When a block will come, judged by how fast the last ones came."""

from dataclasses import dataclass

from protocol.adapters.chain.game import GameChain

RECENT_BLOCKS = 100
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


@dataclass(frozen=True)
class Pace:
    """The newest block, and how many seconds a block took lately (None: not known)."""

    head_block: int
    block_s: float | None

    def show_block(self, number: int) -> str:
        """`block 9000 (in about 12 min)`; without the time where it has come, or where nothing is known."""
        left = number - self.head_block
        if left <= 0 or self.block_s is None:
            return f"block {number}"
        return f"block {number} (in {show_duration(left * self.block_s)})"


async def read_pace(chain: GameChain) -> Pace:
    """The pace of the last blocks, from their timestamps."""
    head = await chain.head()
    first = await chain.connection.block(max(chain.deployment.deploy_block, head.number - RECENT_BLOCKS))
    if first is None or first.number >= head.number:
        return Pace(head.number, None)
    return Pace(head.number, (head.timestamp_s - first.timestamp_s) / (head.number - first.number))


def show_duration(seconds: float) -> str:
    """About how long that is, in the largest two units that matter: `about 1 h 23 min`."""
    minutes, hours = round(seconds / MINUTE_S), round(seconds / HOUR_S)
    if seconds < MINUTE_S:
        return "less than a minute"
    if minutes < HOUR_S // MINUTE_S:
        return f"about {minutes} min"
    if hours < DAY_S // HOUR_S:
        return f"about {minutes // 60} h {minutes % 60} min"
    return f"about {hours // 24} d {hours % 24} h"
