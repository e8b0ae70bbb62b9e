"""The gas of calls at the largest sizes that terms allow. `./dev bench gas` measures the gas, and fails if a
call takes more."""

from touchstone.protocol.economics.assumptions import GasCosts
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.terms import AUDITOR_SEATS_MAX, SOLVER_SEATS_MAX
from touchstone.protocol.spec.params import MAX_SEGMENT_DRAWS

ROUND_GAS = 420_000
"""A round without the part of each solver: votes, seals, the root, if storage is new and a third of the
primaries reject."""
SOLVER_GAS = 290_000
"""Gas for each solver: its commitment, the votes on it, its settlement."""
VOTE_GAS = 190_000
"""A vote that its auditor hands in alone, as the first of its round. In a full call of votes each takes
19,000."""
PLACE_GAS = 1_100
"""Gas for each place of the auditors' pool that the round draws."""
ANSWER_GAS = 1_160_000
"""An answer to a query: a leaf of W, m and v at both ends, all numbers different, in trees of 2^31
parameters."""
DEFENCE_GAS = 2_300_000
"""Defending a claim in a dispute: the states of 20 steps, a trace of 65,536 buffers, eight leaves of 4,096
bytes, and the end of the dispute."""
CONVICTION_GAS = 4_460_000
"""A conviction of an auditor, with restored pay: the opening, a step, eight demands, and the proof of a
selected sum of 4,096 terms of very different sizes, all of them selected."""
CONTEST_GAS = 170_000
"""Opening a contest."""
CONTEST_LEVEL_GAS = 120_000
"""An answer with sixteen nodes in a contest. Naming one of them takes less."""
LEAF_GAS = 2_900_000
"""Computing a leaf of the outer step, and the fall of a wrong root."""
CLAIM_GAS = 160_000
"""Gas for each claim that such a leaf merges, and for each signer that is convicted."""


def price_gas(
    gas_price: int,
    contest_levels: int,
    look: int,
    solver_seats: int = SOLVER_SEATS_MAX,
    draws: int = MAX_SEGMENT_DRAWS,
    least_solvers: int = 1,
) -> GasCosts:
    """Returns gas costs at `gas_price` wei of the task's token for one gas. `look` is the cost of the replay
    and the trace that prove a fault, in wei. A contest goes down to a leaf. An honest account brings the leaf
    of a right root; a wrong root falls when the contest is ended."""
    places = min(RANKS * draws * solver_seats, AUDITOR_SEATS_MAX)
    contest = contest_levels * CONTEST_LEVEL_GAS + LEAF_GAS + solver_seats * CLAIM_GAS
    return GasCosts(
        solver_round=(SOLVER_GAS + ROUND_GAS // least_solvers) * gas_price,
        vote=(VOTE_GAS + places * PLACE_GAS) * gas_price,
        answer=ANSWER_GAS * gas_price,
        defence=DEFENCE_GAS * gas_price,
        contest=contest * gas_price,
        conviction=CONVICTION_GAS * gas_price + look,
        fall=(CONTEST_GAS + contest) * gas_price,
    )
