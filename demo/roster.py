"""Lists who takes part: names, roles, and whose kernels each computes with."""

from dataclasses import dataclass

from touchstone.protocol.spec.game.enums import SeatRole

SUBMITTER = "submitter"
CHEAT = "cheat"


@dataclass(frozen=True)
class Member:
    """A seat of the demo. With `kernel_rank` 0 it computes with this processor's best instructions, with 1
    with those of a lesser one, ..."""

    name: str
    role: SeatRole
    is_honest: bool = True
    kernel_rank: int = 0


def make_roster(solvers: int, verifiers: int, watchers: int, *, with_cheat: bool) -> tuple[Member, ...]:
    """Returns the members, solvers first, because auditors wait for them."""
    cheat = (Member(CHEAT, SeatRole.SOLVER, is_honest=False),) if with_cheat else ()
    return (
        *cheat,
        *_name(SeatRole.SOLVER, "solver", solvers),
        *_name(SeatRole.VERIFIER, "verifier", verifiers),
        *_name(SeatRole.WHISTLEBLOWER, "whistleblower", watchers),
    )


def _name(role: SeatRole, word: str, count: int) -> tuple[Member, ...]:
    """Every third has other kernels than the others."""
    return tuple(Member(f"{word}-{i + 1}", role, kernel_rank=int(i % 3 == 2)) for i in range(count))
