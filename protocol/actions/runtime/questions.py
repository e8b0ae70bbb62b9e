"""What an ask was opened with: whoever answers or ends it brings it again. The chain has logged all of it."""

from typing import Any

from protocol.spec.game.inner_dispute import InnerAsk


def get_question(opened: InnerAsk) -> dict[str, Any]:
    """As `IAsks.Question` has it."""
    return {"vote": opened.vote, "leaf": opened.leaf, "seat": opened.seat, "asker": opened.asker}
