"""Who has a stake: answers from memory, for each request of a stranger."""

from collections import Counter
from dataclasses import dataclass, field

from protocol.adapters.chain.logs import Event


@dataclass
class Seated:
    """Seats of all tasks that were neither convicted nor paid out. Feed it every event of a task, in
    order."""

    _accounts: dict[tuple[bytes, int], str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _members: Counter[tuple[str, bytes]] = field(default_factory=Counter)
    _tasks: set[tuple[str, bytes]] = field(default_factory=set)

    def take(self, event: Event) -> None:
        """Fold one event; those of no interest change nothing."""
        values = event.arguments
        if event.name == "SeatJoined":
            self._accounts[values["task"], values["seat"]] = values["account"]
            self._counts[values["account"]] += 1
            self._members[values["account"], values["task"]] += 1
            self._tasks.add((values["account"], values["task"]))
        elif event.name in ("SeatFreed", "SeatConvicted"):
            account = self._accounts.pop((values["task"], values["seat"]), None)
            if account is not None:
                self._counts[account] -= 1
                self._members[account, values["task"]] -= 1

    def holds(self, account: str) -> bool:
        """Whether the account has such a seat."""
        return self._counts.get(account, 0) > 0

    def holds_in(self, account: str, task: bytes) -> bool:
        """Whether it has one in this task."""
        return self._members.get((account, task), 0) > 0

    def is_in(self, account: str, task: bytes) -> bool:
        """Whether the account has, or had, a seat of the task."""
        return (account, task) in self._tasks
