"""A task's words and values: numbers that logs carry, ids, orders, and the state that a task starts with."""

import re
from enum import IntEnum
from itertools import pairwise, product
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.protocol.spec.game.simulation import AMOUNTS, START_BLOCK, make_terms
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.enums import (
    AUDITOR_PROOFS,
    OPENED_WORDS,
    REJECT_WORDS,
    SOLVER_PROOFS,
    ContestTurn,
    ProofKind,
    RoundPhase,
    SeatRole,
    SeatStatus,
)
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameRound, MissedPlace, Pool, compute_seat_id, create_game
from touchstone.protocol.spec.game.terms import AUDITOR_SEATS_MAX, SOLVER_SEATS_MAX
from touchstone.protocol.spec.game.vault import ESCROW, Vault
from touchstone.protocol.spec.statements import VoteWord

TABLES, CONTESTS = Path("GameTables.sol"), Path("interfaces/IContests.sol")


def read_enum(path: Path, name: str) -> list[str]:
    """The members of an enum of the contracts, in the order that numbers them."""
    found = re.search(rf"enum {name} {{(.*?)}}", Path(ROOT, "contracts/game", path).read_text(), re.S)
    assert found is not None
    return re.findall(r"\w+", found[1])


@pytest.mark.parametrize(
    ("words", "path", "name"),
    [
        (SeatRole, TABLES, "SeatRole"), (SeatStatus, TABLES, "SeatStatus"), (RoundPhase, TABLES, "Phase"),
        (ProofKind, TABLES, "Proof"), (ContestTurn, CONTESTS, "Turn"),
    ],
)  # fmt: skip
def test_a_word_has_the_number_that_the_contracts_log(words: type[IntEnum], path: Path, name: str) -> None:
    """And 0 is none of them: an empty place in storage says nothing."""
    said = read_enum(path, name)
    assert said[0] == "NONE" and [said[one] for one in words] == [one.name for one in words]
    assert len(words) == len(said) - 1 or words is ContestTurn, "a contest's ends are no turns"


def test_a_seat_id_names_one_role_and_one_number() -> None:
    """Logs give the id alone. Ids of a role ascend with their numbers, so a pool's order is theirs."""
    most = {role: SOLVER_SEATS_MAX if role == SeatRole.SOLVER else AUDITOR_SEATS_MAX for role in SeatRole}
    ends = [(role, number) for role in SeatRole for number in (0, 1, most[role] - 1)]
    for role, number in ends:
        one = compute_seat_id(role, number)
        assert (SeatRole(one >> 16), one & 0xFFFF) == (role, number)
    ids = [compute_seat_id(role, number) for role in SeatRole for number in range(most[role])]
    assert all(a < b for a, b in pairwise(ids))


def test_a_pool_gives_each_role_its_own_seats() -> None:
    pool = Pool(solvers=(1,), verifiers=(2, 3), whistleblowers=(4, 5, 6))
    by_role = {role.name: pool.get_seats(role) for role in SeatRole}
    assert by_role == {"SOLVER": (1,), "VERIFIER": (2, 3), "WHISTLEBLOWER": (4, 5, 6)}


def test_missed_places_ascend_by_round_then_slot_then_draw() -> None:
    """Who names what a seat has missed names it in this order, each place once."""
    places = [MissedPlace(round=r, slot=s, draw=d) for r, s, d in product(range(3), repeat=3)]
    assert all(a < b for a, b in pairwise(places))


def test_proofs_of_one_call_are_of_claims_or_of_votes_and_never_a_game() -> None:
    """What a dispute, a query or a contest decides cannot be brought as a proof."""
    assert not SOLVER_PROOFS & AUDITOR_PROOFS
    games = {ProofKind.DISPUTED, ProofKind.QUERIED, ProofKind.WRONG_MERGE}
    assert set(ProofKind) - SOLVER_PROOFS - AUDITOR_PROOFS == games


def test_an_auditor_is_paid_unopened_for_no_word_that_claims_a_state() -> None:
    assert set(VoteWord) - OPENED_WORDS == {VoteWord.UNSERVED, VoteWord.ABSTAIN}
    assert {VoteWord.ACCEPT} == OPENED_WORDS - REJECT_WORDS


@pytest.mark.parametrize("late_chance", [0, 1 << 15])
def test_a_task_starts_with_the_most_that_it_can_pay_and_nothing_else(late_chance: int) -> None:
    """Every seat accepted in every round, and all votes of all draws, late ones where there can be any."""
    terms = make_terms(late_chance=late_chance, draws=2, rounds=3, solver_seats=4)
    votes = RANKS * 2 * AMOUNTS.audit_pay + (RANKS * AMOUNTS.late_pay if late_chance else 0)
    state = create_game(terms, BOUNDS_LOCAL, START_BLOCK)
    assert state.vault == Vault({ESCROW: 3 * 4 * (AMOUNTS.solver_pay + votes)})
    assert (state.root, state.paused_since, state.next_round) == (terms.root, START_BLOCK, 0)
    assert not (state.seats or state.rounds or state.pools or state.is_halted or state.is_closed)


def test_rounds_share_nothing_that_could_change() -> None:
    first, second = (GameRound(index, Pool(), b"", opened=1, counted=0) for index in range(2))
    assert first.claims is not second.claims and first.votes is not second.votes
    with pytest.raises(AttributeError):
        first.root = b"another"  # type: ignore[misc]
