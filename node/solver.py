"""The solver: trains its shard of each round, claims the result, opens what is drawn, answers disputes."""

from protocol.actions.join import catch_up, join_task
from protocol.actions.participant import Participant
from protocol.actions.party import PartyConfig, open_party
from protocol.spec.duties import get_solver_actions


async def run(config: PartyConfig, task: bytes) -> None:
    """Solve `task` until it is over. Raises InvalidInput (unknown or malformed task) and
    EnvironmentFault (no chain, no peer)."""
    async with open_party(config) as party:
        await catch_up(party)
        await join_task(party, task)
        await Participant(party, get_solver_actions).run()
