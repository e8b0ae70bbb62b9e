"""How often a peer may have the loop of a node look again: once a block."""

from dataclasses import dataclass, field


@dataclass
class Wakes:
    """Who had the loop look, in the newest block that was asked about."""

    _block: int = 0
    _accounts: set[str] = field(default_factory=set)

    def take(self, account: str, block: int) -> bool:
        """Have an account use its one wake in a block; False where it has used it."""
        if self._block != block:
            self._block, self._accounts = block, set()
        is_first = account not in self._accounts
        self._accounts.add(account)
        return is_first
