"""The honest roles as the tiny world's cast."""

from functools import partial

from protocol.actions.participant import Participant
from protocol.actions.party import Party
from protocol.spec.duties import get_auditor_actions, get_solver_actions
from protocol.spec.statuses import Role


def make_solver(party: Party) -> Participant:
    """A node's solver."""
    return Participant(party, get_solver_actions)


def make_verifier(party: Party) -> Participant:
    """A verifier."""
    return Participant(party, partial(get_auditor_actions, role=Role.VERIFIER))


def make_watcher(party: Party) -> Participant:
    """A whistleblower."""
    return Participant(party, partial(get_auditor_actions, role=Role.WHISTLEBLOWER))
