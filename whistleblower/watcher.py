"""The whistleblower: a second blind audit, drawn late, of accepted work; reads the auditors' reports and
replays where they point to, of its own accord; opens and plays disputes against anybody."""

from functools import partial

from protocol.actions.join import catch_up, join_task
from protocol.actions.participant import Participant
from protocol.actions.party import PartyConfig, open_party
from protocol.spec.duties import get_auditor_actions
from protocol.spec.statuses import Role


async def run(config: PartyConfig, task: bytes) -> None:
    """Watch `task` until it is over. Raises InvalidInput (unknown or malformed task) and
    EnvironmentFault (no chain, no peer)."""
    async with open_party(config) as party:
        await catch_up(party)
        await join_task(party, task)
        duties = partial(get_auditor_actions, role=Role.WHISTLEBLOWER)
        await Participant(party, duties, own_replays=config.own_replays).run()
