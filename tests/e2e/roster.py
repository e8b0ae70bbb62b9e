"""Who takes part in the demo. Only here is written down who cheats; the report learns it afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.spec.params import DEVNET, TOKEN_WEI

HONEST_SOLVERS = 4
HONEST_VERIFIERS = 4
SPARE_ROUNDS = 3
"""Exposures of so many rounds overlap: late audits and disputes end rounds after the next ones began."""
AUDITOR_STAKE_WEI = 3_000 * TOKEN_WEI
"""A verifier may be drawn for every audit of a round, and opens disputes with a bond each."""


@dataclass(frozen=True)
class Member:
    """One party of the demo. kind: what its process does (`party.py`); kernel_rank: how many better kinds of
    vector instructions this processor has than its kernels use, where it has as many; memory_mb: see
    PartyConfig."""

    name: str
    kind: str
    role: str
    honest: bool
    stake_wei: int
    kernel_rank: int = 0
    memory_mb: int = 0


def make_roster(rounds: int, *, with_cheats: bool) -> tuple[Member, ...]:
    """A submitter, solvers, verifiers and a whistleblower; some of the honest compute with other kernels."""
    solver_stake_wei = (rounds + SPARE_ROUNDS) * DEVNET.amounts.solver_stake
    ranks = (0, 1, 2, 0, 1)
    members = [Member("submitter", "submit", "submitter", True, 0)]
    for index in range(HONEST_SOLVERS):
        name = f"solver-{index + 1}"
        members.append(Member(name, "solve", "solver", True, solver_stake_wei, ranks[index]))
    for index in range(HONEST_VERIFIERS):
        name = f"verifier-{index + 1}"
        members.append(Member(name, "verify", "verifier", True, AUDITOR_STAKE_WEI, ranks[-1 - index]))
    members.append(Member("whistleblower", "watch", "whistleblower", True, AUDITOR_STAKE_WEI))
    if with_cheats:
        members.append(Member("skipper", "skip", "solver", False, solver_stake_wei))
        members.append(Member("inventor", "invent", "verifier", False, AUDITOR_STAKE_WEI))
    else:
        members.append(Member("solver-5", "solve", "solver", True, solver_stake_wei))
        members.append(Member("verifier-5", "verify", "verifier", True, AUDITOR_STAKE_WEI))
    return tuple(members)


def count_role(roster: Sequence[Member], role: str, *, honest_only: bool = False) -> int:
    """How many members have this role."""
    return sum(member.role == role and (member.honest or not honest_only) for member in roster)
