"""Training ahead: while a round is audited, its solvers train the next one on the guessed outer root.

Where the guess is right, `MakeClaim` finds the claim as far as it is. Where it is wrong, only time is lost:
nothing is committed, signed or shown because of a guess.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from protocol.actions.merge.book import MergeKey
from protocol.actions.merge.guessing import Guess, find_guess
from protocol.actions.merge.origins import Origin, get_basis, read_origin
from protocol.actions.merge.outer_step import get_root, merge_claims
from protocol.actions.merge.records import compute_basis
from protocol.actions.merge.training import finish_claim, is_whole
from protocol.actions.runtime.duties import Duty, Wait
from protocol.actions.runtime.party import Party
from protocol.spec.errors import EnvironmentFault


@dataclass(frozen=True)
class TrainAhead:
    """Train the round after the one that is audited. key: the guess, what that one merges; beacon: of the
    round that is trained."""

    key: MergeKey
    beacon: bytes

    @property
    def index(self) -> int:
        """The round that is trained."""
        return self.key.round + 1

    async def perform(self, party: Party) -> None:
        """Merge as posting does, and train until the claim is written down. Raises EnvironmentFault, at the
        next boundary, once the guess is another one or the round opens on another root."""
        root = get_root(await merge_claims(party, self.key))
        async with party.task.locks["claim", self.index]:
            origin = self.require_origin(party, root)
            claims = f"{len(self.key.slots)} claims of round {self.key.round}"
            party.say(f"round {self.index}: training ahead, on what {claims} come to")
            await finish_claim(party, origin, partial(self.require_origin, party, root))

    def require_origin(self, party: Party, root: bytes) -> Origin:
        """What the round is trained from if the guess is right. Raises EnvironmentFault where it is not."""
        opened = party.game.rounds.get(self.index)
        if opened is not None and get_basis(opened) == compute_basis(root, self.beacon):
            return read_origin(party, party.game, opened)
        guess = find_guess(party, party.state.head_block + 1) if opened is None else None
        if not isinstance(guess, Guess) or (guess.key, guess.beacon) != (self.key, self.beacon):
            raise EnvironmentFault(
                what="the guess does not hold any more",
                expected=f"{len(self.key.slots)} claims of round {self.key.round}",
                actual="others, or none",
                remedy="Nothing is lost but time: the next round is trained from what is likelier now.",
            )
        state = guess.foresee(root)
        return read_origin(party, state, state.rounds[self.index])


def list_duties(party: Party, block: int) -> Iterator[Duty | Wait]:
    """The round after the one that is audited, until it is trained."""
    guess = find_guess(party, block)
    if isinstance(guess, Wait):
        yield guess
    elif guess is not None and not _is_trained(party, guess):
        yield TrainAhead(guess.key, guess.beacon)


def _is_trained(party: Party, guess: Guess) -> bool:
    made = party.task.claims.merges.get(guess.key)
    if made is None:
        return False
    work = party.task.claims.works.get((guess.key.round + 1, compute_basis(get_root(made), guess.beacon)))
    return work is not None and is_whole(party, work)
