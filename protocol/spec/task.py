"""A task over all its rounds: what a node that reads the chain from the task's creation knows."""

from dataclasses import dataclass, replace

from protocol.spec.containers import TaskTerms
from protocol.spec.events import Event, RoundStarted, TaskClosed, TaskCreated
from protocol.spec.round import RoundState, process_event, start_round


@dataclass(frozen=True)
class TaskState:
    """One task. training: canonical bytes of its training spec; rounds: all that were started, in order."""

    task: bytes
    domain: bytes
    terms: TaskTerms
    training: bytes
    rounds: tuple[RoundState, ...] = ()
    is_closed: bool = False

    @property
    def current(self) -> RoundState | None:
        """The latest round; earlier ones may still be audited late, disputed and settled."""
        return self.rounds[-1] if self.rounds else None


def start_task(domain: bytes, event: TaskCreated) -> TaskState:
    """The state of a task from the event that creates it; `domain` as in codec.compute_domain."""
    return TaskState(task=event.task, domain=domain, terms=event.terms, training=event.training)


def process_task_event(state: TaskState, event: Event) -> TaskState:
    """The state after an event of the chain. Events of other tasks and kinds leave it as it is."""
    if isinstance(event, TaskClosed) and event.task == state.task:
        return replace(state, is_closed=True)
    rounds = tuple(process_event(one, event) for one in state.rounds)
    if isinstance(event, RoundStarted) and (event.task, event.round) == (state.task, len(rounds)):
        rounds = (*rounds, start_round(state.terms, state.domain, event))
    return replace(state, rounds=rounds)
