"""Who may read which global model: a settled one anybody, a newer one who has a stake or pays for it.

A model is settled when the contracts let nothing replace it any more: the merge after its round is settled
(`MergeSettled`), or a later round has started from it (`RoundStarted`). That is folded from events, so a
restarted node knows it again, and a reorg takes it back. A node answers for the tasks that it works on alone:
whoever posts a task of its own could name the root of any tensor as its model's.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from protocol.spec import events


@dataclass
class TaskModels:
    """Roots of W and M of one task. posted: the latest of each round, and by whom; settled: of the models
    that nothing replaces."""

    submitter: str
    posted: dict[int, events.OuterPosted] = field(default_factory=dict)
    settled: set[bytes] = field(default_factory=set)


NO_MODELS = TaskModels(submitter="")
"""Of a task that is not on chain, or no longer after a reorg."""


@dataclass
class ModelShelf:
    """The roots of global models that this node may show. Feed it every event, in order."""

    account: str
    joined: set[bytes] = field(default_factory=set)
    """Tasks that this node works on."""
    computed: defaultdict[bytes, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """Roots that this node computed itself, by task; anybody with the pseudo-gradients can compute them, so
    no reorg takes them back."""
    _tasks: dict[bytes, TaskModels] = field(default_factory=dict)

    def may_read(self, account: str, root: bytes, *, is_staked: bool) -> bool:
        """Whether `account` may read the tensor under this root because it is a global model's."""
        return any(self._may_read(task, account, root, is_staked) for task in self.joined)

    def list_roots(self) -> set[bytes]:
        """Of all tensors that somebody may read."""
        return {root for task in self.joined for root in self._get(task).settled | self._list_own(task)}

    def take(self, event: events.Event) -> None:
        """Fold one event; those of no interest change nothing."""
        if isinstance(event, events.TaskCreated):
            self._tasks[event.task] = TaskModels(event.submitter)
        models = self._tasks.get(getattr(event, "task", b""))
        if models is None:
            return
        match event:
            case events.OuterPosted():
                models.posted[event.round] = event
            case events.MergeSettled() if event.round in models.posted:
                models.settled |= _get_roots(models.posted[event.round])
            case events.RoundStarted():
                models.settled |= _get_roots(event)

    def forget(self) -> None:
        """Take back what events told, after a reorg."""
        self._tasks.clear()

    def _get(self, task: bytes) -> TaskModels:
        return self._tasks.get(task, NO_MODELS)

    def _may_read(self, task: bytes, account: str, root: bytes, is_staked: bool) -> bool:
        models = self._get(task)
        if root in models.settled:
            return True
        return (is_staked or account == models.submitter) and root in self._list_own(task)

    def _list_own(self, task: bytes) -> set[bytes]:
        """What this node computed, also before a restart: it posts nothing else."""
        posted = self._get(task).posted.values()
        mine = (_get_roots(event) for event in posted if event.poster == self.account)
        return set(self.computed[task]).union(*mine)


def _get_roots(event: events.OuterPosted | events.RoundStarted) -> set[bytes]:
    return {event.weights_root, event.momentum_root}
