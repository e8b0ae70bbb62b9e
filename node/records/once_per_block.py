"""Limits how often a peer may have a node's loop look again: once a block."""

from dataclasses import dataclass, field


@dataclass
class OncePerBlock:
    """Remembers which accounts made the loop look again in the newest block."""

    _block: int = 0
    _accounts: set[str] = field(default_factory=set)

    def take(self, account: str, block: int) -> bool:
        """Uses the one notice that an account has in a block. Returns False if it has used it."""
        if self._block != block:
            self._block, self._accounts = block, set()
        is_first = account not in self._accounts
        self._accounts.add(account)
        return is_first
