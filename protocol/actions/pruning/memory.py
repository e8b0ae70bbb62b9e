"""What a node remembers of its pruning while it runs. A restart forgets it, and nothing is lost."""

from dataclasses import dataclass, field

from protocol.adapters.blobs import BlobKey


@dataclass
class PruningMemory:
    """done: the stages (`windows.list_stages`) of the last pruning; strays: blobs that no record names, and
    the block in which each was first seen so; foreign: what other tasks of this home name, None until it was
    looked up; begun: (round, basis) of the last claims that were trained, the newest last; unlike_until: up
    to this round claims and votes were computed with other bits than this machine computes now, -1 where
    there are none."""

    done: object = None
    strays: dict[BlobKey, int] = field(default_factory=dict)
    foreign: frozenset[BlobKey] | None = None
    begun: tuple[tuple[int, bytes], ...] = ()
    unlike_until: int = -1

    def note_work(self, index: int, basis: bytes) -> None:
        """What a round is trained from now, a guess or not."""
        older = [place for place in self.begun if place != (index, basis) and place[0] >= index - 1]
        self.begun = (*older, (index, basis))
