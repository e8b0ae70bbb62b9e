"""Money moves between pots and is never made: what a pot holds it gives, and the sum stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.vault import (
    BURNED,
    ESCROW,
    OUTSIDE,
    RESTITUTION,
    SLASHED,
    Pot,
    Vault,
    bond_of,
    credit_of,
    move_wei,
    stake_of,
)

POTS = (ESCROW, stake_of(1), bond_of(1), credit_of("a"), credit_of("b"), BURNED, SLASHED, RESTITUTION)
MOVES = st.tuples(st.permutations((*POTS, OUTSIDE)), st.integers(0, 60))


@given(st.lists(MOVES, max_size=30))
def test_only_what_comes_from_outside_or_goes_there_changes_the_sum(
    moves: list[tuple[list[Pot], int]],
) -> None:
    vault, came = Vault({ESCROW: 100}), 100
    for (source, target, *_), asked in moves:
        wei = asked if source == OUTSIDE else min(asked, vault.get_wei(source))
        held = {pot: vault.get_wei(pot) for pot in POTS}
        vault = move_wei(vault, source, target, wei)
        came += wei * (source == OUTSIDE) - wei * (target == OUTSIDE)
        moved = {pot: vault.get_wei(pot) - held[pot] for pot in POTS if vault.get_wei(pot) != held[pot]}
        assert moved == {pot: by for pot, by in ((source, -wei), (target, wei)) if wei and pot != OUTSIDE}
    assert vault.compute_total() == came and min(vault.wei.values(), default=0) >= 0


@pytest.mark.parametrize(("wei", "is_held"), [(-1, False), (0, True), (5, True), (6, False)])
def test_a_pot_gives_what_it_holds_and_no_more(wei: int, is_held: bool) -> None:
    vault = Vault({stake_of(3): 5})
    if is_held:
        assert move_wei(vault, stake_of(3), BURNED, wei).get_wei(BURNED) == wei
        return
    with pytest.raises(InvalidInput, match="holds less money than is to be moved") as refusal:
        move_wei(vault, stake_of(3), BURNED, wei)
    assert refusal.value.where == "STAKE 3" and refusal.value.expected == "0 to 5 wei"


def test_nothing_negative_comes_from_outside_and_nothing_is_counted_there() -> None:
    with pytest.raises(InvalidInput):
        move_wei(Vault(), OUTSIDE, ESCROW, -1)
    vault = move_wei(move_wei(Vault(), OUTSIDE, ESCROW, 7), ESCROW, OUTSIDE, 3)
    assert vault.wei == {ESCROW: 4}


def test_a_vault_is_known_by_what_it_holds_not_by_how_it_came_there() -> None:
    """Two nodes compare vaults: a pot that was emptied is as one that never was."""
    vault = Vault({ESCROW: 5})
    there = move_wei(vault, ESCROW, stake_of(1), 5)
    assert there == Vault({stake_of(1): 5}) and vault == Vault({ESCROW: 5}), "the old value stays"
    assert move_wei(there, stake_of(1), ESCROW, 5) == vault
    assert move_wei(vault, ESCROW, BURNED, 0) == vault


def test_pots_of_one_number_are_apart() -> None:
    """Seat 1, bond 1 and fall 1 have money of their own."""
    vault = Vault()
    pots = (stake_of(1), bond_of(1), RESTITUTION, stake_of(2))
    for wei, pot in enumerate(pots, 1):
        vault = move_wei(vault, OUTSIDE, pot, wei)
    assert [vault.get_wei(pot) for pot in pots] == [1, 2, 3, 4]


def test_a_pot_that_gives_to_itself_keeps_what_it_holds() -> None:
    assert move_wei(Vault({ESCROW: 5}), ESCROW, ESCROW, 5) == Vault({ESCROW: 5})
    assert move_wei(Vault({ESCROW: 5}), ESCROW, ESCROW, 2) == Vault({ESCROW: 5})
