"""A solver's claim of the round that runs: trained as far as it is not yet, and committed to."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from protocol.actions.merge.origins import get_basis, read_origin
from protocol.actions.merge.places import find_own_slot
from protocol.actions.merge.training import finish_claim
from protocol.actions.runtime.duties import Duty
from protocol.actions.runtime.party import Party
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.enums import RoundPhase, SeatStatus
from protocol.spec.game.machine import get_state_at
from protocol.spec.game.pools import find_seat
from protocol.spec.game.state import GameRound
from protocol.spec.game.timing import get_live_round


@dataclass(frozen=True)
class MakeClaim:
    """Train a round and commit to it. basis: its base root and beacon."""

    round: int
    basis: bytes

    async def perform(self, party: Party) -> None:
        """Train what is not trained yet, write the claim down, send it."""
        async with party.task.locks["claim", self.round]:
            origin = read_origin(party, party.game, self.require_round(party))
            finished = await finish_claim(party, origin, partial(self.require_round, party))
            game_round = self.require_round(party)
        words = (game_round.base_root, game_round.beacon, finished.claim_root, finished.segments)
        await party.chain.rounds.commit(party.task.task, self.round, *words)

    def require_round(self, party: Party) -> GameRound:
        """The round, as long as it is trained from the same. Raises EnvironmentFault after a reorg or a
        fall."""
        game_round = party.game.rounds.get(self.round)
        if game_round is None or get_basis(game_round) != self.basis:
            raise EnvironmentFault(
                what="the round starts from something else now",
                expected=f"round {self.round} on the base root and beacon that it was trained from",
                actual="others, or none",
                remedy="Nothing is lost but time: the round is trained anew.",
            )
        return game_round


def list_duties(party: Party, block: int) -> Iterator[Duty]:
    """The claim of the round that runs, while the chain takes it."""
    state = get_state_at(party.game, block)
    game_round, seat = get_live_round(state), find_seat(state, party.account)
    if game_round is None or seat is None or seat.status == SeatStatus.CLOSED:
        return
    basis, slot = get_basis(game_round), find_own_slot(state, game_round, party.account)
    is_taking = game_round.phase == RoundPhase.RUNNING and game_round.closed is None
    if is_taking and basis is not None and slot is not None and slot not in game_round.claims:
        yield MakeClaim(game_round.index, basis)
