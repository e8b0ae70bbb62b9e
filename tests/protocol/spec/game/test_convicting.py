"""Who shares a slash and a bond, how each part is rounded, and what a slash makes good."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    SUBMITTER,
    Simulation,
    make_quiet_world,
    make_vote,
    make_word,
    post,
    solver,
    vote,
)
from tests.protocol.spec.game.test_deciding import make_drawn
from tests.protocol.spec.game.test_posting import judge, make_judged
from touchstone.protocol.spec.game import bond_outcomes, compensation, convicting
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import ProofKind, RoundPhase, SeatStatus
from touchstone.protocol.spec.game.events import SeatConvicted
from touchstone.protocol.spec.game.state import Fall, GameState, SlotClaim, StatementRef
from touchstone.protocol.spec.game.vault import (
    BURNED,
    ESCROW,
    HELD,
    RESTITUTION,
    SLASHED,
    Vault,
    bond_of,
    credit_of,
    stake_of,
)
from touchstone.protocol.spec.statements import VoteWord

A, R, U, X = VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.UNSERVED, VoteWord.ABSTAIN
FINDER, CLAIM = "finder", StatementRef(0, 0)


def get_wei(state: GameState, *accounts: str) -> list[int]:
    return [state.vault.get_wei(credit_of(account)) for account in accounts]


def make_draft(stakes: tuple[int, ...], cap: int = 150, escrow: int = 10_000) -> Draft:
    """Solver seats with these stakes in a task with so much left to pay."""
    state = make_judged(amounts=replace(AMOUNTS, finder_cap=cap)).state
    wei = {stake_of(solver(number)): stake for number, stake in enumerate(stakes)}
    return Draft(replace(state, vault=Vault({ESCROW: escrow, **wei})), 110)


# Slashes
@pytest.mark.parametrize(
    ("stakes", "cap", "escrow", "parts"),
    [
        ((2_000,), 150, 10_000, (150, 500, 1_350)),
        ((2_003,), 9_999, 10_000, (500, 500, 1_003)),
        ((3,), 150, 10_000, (0, 0, 3)),
        ((2_000,), 0, 10_000, (0, 500, 1_500)),
        ((2_000,), 500, 499, (500, 499, 1_001)),
        ((2_000,), 150, 0, (150, 0, 1_850)),
        ((7, 7), 150, 10_000, (3, 3, 8)),
        ((2_000, 2_000, 2_000), 150, 10_000, (150, 1_500, 4_350)),
    ],
)
def test_finder_and_submitter_get_a_quarter_each_at_most_rounded_down(
    stakes: tuple[int, ...], cap: int, escrow: int, parts: tuple[int, int, int]
) -> None:
    """The finder up to the cap, the submitter up to what it may still have to pay. Stakes that fall together
    are one sum: rounded once, capped once."""
    draft = make_draft(stakes, cap, escrow)
    total = draft.state.vault.compute_total()
    convicting.take_stakes(draft, tuple(map(solver, range(len(stakes)))), FINDER)
    left = draft.state.vault.get_wei(SLASHED)
    assert (*get_wei(draft.state, FINDER, SUBMITTER), left) == parts
    assert 2 * left >= sum(stakes) and draft.state.vault.compute_total() == total
    assert draft.state.vault.get_wei(ESCROW) == escrow, "the escrow bounds the part, and does not pay it"


def test_signers_that_were_convicted_before_share_in_no_fall() -> None:
    """Closed once, slashed once: nobody has a share of the rest. What is not owed stays held."""
    draft = make_draft((2_000, 2_000))
    convicting.convict(draft, solver(0), ProofKind.DELTA_LEAF, FINDER, CLAIM)
    assert draft.events[0] == SeatConvicted(solver(0), ProofKind.DELTA_LEAF, CLAIM), "told before money moves"
    vault = draft.state.vault
    assert (vault.get_wei(BURNED), vault.get_wei(SLASHED)) == (0, 0)
    assert vault.get_wei(HELD) == 1_350
    before = len(draft.events)
    convicting.convict_signers(draft, (solver(0), solver(1)), FINDER, 0, [])
    closed = [event.seat for event in draft.events[before:] if isinstance(event, SeatConvicted)]
    assert closed == [solver(1)] and draft.state.falls == (Fall(0, 1, 0, owed=0, held=0),)
    assert get_wei(draft.state, FINDER, SUBMITTER) == [300, 1_000]
    assert draft.state.vault.get_wei(HELD) == 2 * 1_350 and not draft.state.vault.get_wei(SLASHED)


@pytest.mark.parametrize(("pay", "owed", "held"), [(100, 200, 200), (675, 1_350, 1_350), (676, 1_352, 1_350)])
def test_a_fall_holds_what_undone_work_is_owed_as_far_as_the_slash_reaches(
    pay: int, owed: int, held: int
) -> None:
    """One stake of 2,000 leaves 1,350. Owed is the full pay of the claims of the two that did not sign."""
    world = make_judged(amounts=replace(AMOUNTS, solver_pay=pay), least_solvers=1)
    assert post(world, (0, 1), (0, 1, 2), root=make_word("wrong")) is None
    judge(world, (A, A, A), 1)
    draft = Draft(world.state, world.block)
    convicting.convict_signers(draft, (solver(1),), FINDER, 0, [1])
    assert draft.state.falls == (Fall(0, 1, 1, owed, held),)
    assert draft.state.vault.get_wei(RESTITUTION) == held
    assert draft.state.vault.get_wei(HELD) == 1_350 - held


# Pay that is made good
@pytest.mark.parametrize(
    ("words", "rank", "is_taken"),
    [
        ((R, R), 0, True), ((R, R), 1, True), ((U, R), 1, True), ((X, R), 1, True), ((X, R), 0, False),
        ((R,), 0, False), ((R, A, A), 0, False), ((R, A, R), 1, False), ((R, A, R), 2, True),
        ((R, U, U), 0, False), ((R, R), 2, False),
    ],
)  # fmt: skip
def test_a_reject_took_the_pay_where_it_counted_and_its_draw_failed(
    words: tuple[VoteWord, ...], rank: int, is_taken: bool
) -> None:
    """And where the claim was served: one that two auditors could not read had no pay to lose."""
    world = make_drawn()
    world.jump(115)
    for one, word in enumerate(words):
        assert vote(world, 0, 0, one, word)
    ref, number = StatementRef(0, 0, 0, rank), get_signer(world, rank)
    assert compensation.has_taken_pay(world.state, number, ref, world.block) == is_taken
    other = get_signer(world, (rank + 1) % 3)
    assert not compensation.has_taken_pay(world.state, other, ref, world.block), (
        "it was not drawn for this rank"
    )
    assert not compensation.has_taken_pay(world.state, solver(0), CLAIM, world.block), "a claim is no REJECT"


def get_signer(world: Simulation, rank: int) -> int:
    return world.get_seat(make_vote(world, world.state, (0, 0, 0, rank), A).signer).number


@pytest.mark.parametrize(("segments", "wei"), [(6, 100), (5, 83), (4, 66), (1, 16), (0, 0)])
def test_a_claim_earns_its_share_of_the_segments_rounded_down(segments: int, wei: int) -> None:
    state = make_quiet_world().state
    game_round = replace(state.rounds[0], claims={2: SlotClaim(solver(2), "solver2", 0, b"", segments)})
    assert compensation.compute_claim_pay(state, game_round, 2) == wei


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [({"joined": 0}, True), ({"joined": 1}, False), ({"status": SeatStatus.LEAVING}, True),
     ({"status": SeatStatus.CONVICTED}, False)],
)  # fmt: skip
@pytest.mark.parametrize("is_former", [False, True])
def test_a_claimant_is_found_after_it_left_and_never_taken_for_the_next_one(
    changes: dict[str, Any], is_found: bool, is_former: bool
) -> None:
    """A seat that joined when round 1 was next did not make a claim of round 0, whatever its number."""
    state = make_quiet_world().state
    seat = replace(state.seats[solver(0)], **changes)
    rest = {number: one for number, one in state.seats.items() if number != solver(0)}
    held = {"seats": rest, "former": {solver(0): seat}} if is_former else {"seats": {**rest, solver(0): seat}}
    state = replace(state, **held)  # type: ignore[arg-type]
    found = compensation.find_claimant(state, state.rounds[0], SlotClaim(solver(0), "solver0", 0, b"", 6))
    assert found == (seat if is_found else None)


@pytest.mark.parametrize(
    ("phase", "is_settled", "burned"),
    [
        (RoundPhase.STANDING, False, 100), (RoundPhase.STANDING, True, 0),
        (RoundPhase.UNDONE, False, 100), (RoundPhase.UNDONE, True, 100),
    ],
)  # fmt: skip
def test_lost_pay_is_burned_once(phase: RoundPhase, is_settled: bool, burned: int) -> None:
    """Settlement has burned it in a round that stands; of an undone round it burns nothing."""
    state = make_judged((R, A, A)).state
    game_round = replace(state.rounds[0], phase=phase)
    seat = replace(state.seats[solver(0)], settled=int(is_settled))
    draft = Draft(replace(state, seats={**state.seats, solver(0): seat}), 110)
    compensation.burn_lost_pay(draft, game_round, 0)
    assert draft.state.vault.get_wei(BURNED) == burned


# Bonds
@pytest.mark.parametrize(("bond", "account", "parts"), [(300, "a", (150, 150)), (301, "a", (150, 151)),
                                                        (1, "a", (0, 1)), (301, None, (0, 301))])  # fmt: skip
def test_half_of_a_lost_bond_is_for_who_answered_and_the_odd_wei_burns(
    bond: int, account: str | None, parts: tuple[int, int]
) -> None:
    vault = Vault({bond_of(7): bond, bond_of(8): 5})
    draft = Draft(replace(make_quiet_world().state, vault=vault), 110)
    bond_outcomes.forfeit_bond(draft, 7, account)
    assert (*get_wei(draft.state, "a"), draft.state.vault.get_wei(BURNED)) == parts
    bond_outcomes.return_bond(draft, 8, "b")
    assert get_wei(draft.state, "b") == [5] and not draft.state.vault.get_wei(bond_of(7))
