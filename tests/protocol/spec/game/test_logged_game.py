"""A task as its logs tell it: credits lie outside, what is open has a name, terms are read or refused."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    Simulation,
    check_game_call,
    commit,
    make_quiet_world,
    make_terms,
    make_word,
    make_world,
    solver,
)
from tests.protocol.spec.game.test_silence import play
from touchstone.protocol.spec.commitments import compute_domain, compute_outer_root
from touchstone.protocol.spec.game import calls, logged_game, round_machine
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.convicting import keep_rest, take_stakes
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.events import WeiMoved
from touchstone.protocol.spec.game.log_values import list_bits
from touchstone.protocol.spec.game.logged_game import Ledger, LoggedGame, start_game
from touchstone.protocol.spec.game.logged_terms import count_contest_levels
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, WINDOWS_LOCAL
from touchstone.protocol.spec.game.round_machine import apply, fold_all, get_state_at
from touchstone.protocol.spec.game.rule_refusals import REMEDIES, GameRefusal
from touchstone.protocol.spec.game.state import create_game
from touchstone.protocol.spec.game.terms import compute_escrow
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.game.vault import (
    BURNED,
    ESCROW,
    HELD,
    OUTSIDE,
    RESTITUTION,
    SLASHED,
    PotKind,
    Vault,
    credit_of,
    stake_of,
)
from touchstone.protocol.spec.params import EXACT_FORMAT, LEAF_ELEMENTS, MAX_PARAMETERS
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.typed_data import SigningDomain

SIGNING = SigningDomain(31337, "0x" + "5a" * 20)
TASK = make_word("task")


def make_ledger(wei: dict[Any, int]) -> Ledger:
    game = create_game(make_terms(), BOUNDS_LOCAL, 100)
    return Ledger(LoggedGame(game.terms, game.bounds, Vault(wei), game.root, 100), 110)


def test_money_of_a_credit_is_outside_and_all_other_pots_are_kept() -> None:
    """The contracts keep credits for all tasks together: a task's logs do not tell of them."""
    book = make_ledger({ESCROW: 50})
    book.move(credit_of("a"), stake_of(solver(0)), 20)
    book.move(ESCROW, credit_of("b"), 30)
    book.move(stake_of(solver(0)), BURNED, 5)
    assert book.state.vault.wei == {ESCROW: 20, stake_of(solver(0)): 15, BURNED: 5}
    assert book.events[0] == WeiMoved(OUTSIDE, stake_of(solver(0)), 20)


def test_what_is_open_has_its_chain_name_until_it_ends() -> None:
    book = make_ledger({})
    book.state = replace(book.game, next_number=7)
    assert book.open(b"first") == 7
    book.state = replace(book.game, next_number=8)
    assert book.open(b"second") == 8
    assert (book.game.find_name(8), book.game.find_name(9)) == (b"second", None)
    assert book.close(b"first") == 7 and book.game.names == {b"second": 8}
    with pytest.raises(KeyError):
        book.close(b"first")
    assert book.close(b"second") == 8, "a log of what is not open changes nothing"


@pytest.mark.parametrize(
    ("slashed", "escrow", "held"), [(2_003, 9_000, 0), (2_003, 9_000, 700), (401, 60, 1), (0, 9, 0)]
)
def test_a_slash_is_shared_as_the_machine_shares_it(slashed: int, escrow: int, held: int) -> None:
    """The logs name neither part: they leave the task, to whom they go. Nothing stays between pots."""
    book = make_ledger({SLASHED: slashed, ESCROW: escrow})
    take_stakes(book, (), book.game.finder)
    keep_rest(book)
    book.move(HELD, RESTITUTION, held)
    machine = Draft(make_ledger({SLASHED: slashed, ESCROW: escrow}).state, 110)
    take_stakes(machine, (), "finder")
    machine.move(SLASHED, HELD, machine.state.vault.get_wei(SLASHED))
    machine.move(HELD, RESTITUTION, held)
    kept = {pot: wei for pot, wei in machine.state.vault.wei.items() if pot.kind != PotKind.CREDIT}
    assert book.state.vault.wei == kept and not book.state.vault.get_wei(SLASHED)
    assert all(event.target.kind != PotKind.CREDIT for event in book.events if isinstance(event, WeiMoved))


@given(st.sets(st.integers(0, 255), max_size=20))
def test_a_bitmap_names_the_places_of_its_ones_in_order(places: set[int]) -> None:
    assert list_bits(sum(1 << place for place in places)) == tuple(sorted(places))


@pytest.mark.parametrize(
    ("leaves", "levels"), [(0, 1), (1, 1), (2, 2), (16, 2), (17, 3), (256, 3), (257, 4), (1 << 20, 6)]
)
def test_a_contest_reaches_a_leaf_in_a_tensor_and_four_levels_at_a_time(leaves: int, levels: int) -> None:
    assert count_contest_levels(leaves * LEAF_ELEMENTS) == levels
    if leaves > 1:
        assert count_contest_levels((leaves - 1) * LEAF_ELEMENTS + 1) == levels, "a leaf that is not full"
    assert count_contest_levels(MAX_PARAMETERS) <= 16, "what a deployment allows"


def make_posted(**changes: Any) -> dict[str, Any]:
    """The values of TaskPosted, as `make_terms` has them."""
    said = SimpleNamespace(
        submitter="0x" + "aB" * 20, initial_weights_root=make_word("W"), zero_root=make_word("zero"),
        format=0, parameter_count=200, rounds=3, inner_steps=12, segment_steps=2, solver_seats=4, draws=1,
        late_chance=1 << 15, least_solvers=1, least_verifiers=3, least_whistleblowers=3,
        windows=WINDOWS_LOCAL, amounts=AMOUNTS,
    )  # fmt: skip
    return {"task": TASK, "terms": SimpleNamespace(**{**vars(said), **changes})}


def test_a_posted_task_starts_with_its_terms_and_the_whole_escrow() -> None:
    """Accounts are compared in lower case everywhere; a signature is bound to chain, contract and task."""
    game = start_game(make_posted(), 100, BOUNDS_LOCAL, SIGNING)
    root = compute_outer_root(OuterHeader(make_word("W"), make_word("zero")))
    domain = compute_domain(31337, SIGNING.contract, TASK)
    expected = make_terms(submitter="0x" + "ab" * 20, root=root, domain=domain, contest_levels=1)
    assert game.terms == expected and game.vault.wei == {ESCROW: compute_escrow(expected)}
    assert (game.root, game.paused_since, dict(game.names)) == (root, 100, {})
    exact = start_game(make_posted(format=EXACT_FORMAT), 100, BOUNDS_LOCAL, SIGNING)
    assert exact.terms == replace(expected, is_exact=True)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"windows": replace(WINDOWS_LOCAL, respond=1)}, "WindowTooShort"),
        ({"windows": replace(WINDOWS_LOCAL, query=1 << 40)}, "WindowTooLong"),
        ({"amounts": replace(AMOUNTS, query_bond=0)}, "AmountTooSmall"),
        ({"draws": 21}, "AmountTooLarge"),
        ({"inner_steps": 1}, "AmountTooSmall"),
    ],
    ids=str,
)
def test_a_task_that_the_deployment_does_not_allow_is_refused_by_name(
    changes: dict[str, Any], name: str
) -> None:
    """A node asks again what the contract has asked: it stakes on what it folds."""
    with pytest.raises(GameRefusal) as refusal:
        start_game(make_posted(**changes), 100, BOUNDS_LOCAL, SIGNING)
    assert refusal.value.name == name


SOURCES = Path(logged_game.__file__).parent
KINDS = [one for one in vars(calls).values() if isinstance(one, type) and issubclass(one, GameCall)]


def test_every_refusal_is_given_somewhere_and_tested_somewhere() -> None:
    product = "".join(path.read_text() for path in SOURCES.glob("*.py"))
    plays = Path(__file__).parents[3] / "kit" / "plays"
    files = (*Path(__file__).parent.glob("test_*.py"), *plays.glob("*.py"))
    tests = "".join(path.read_text() for path in files)
    for name in REMEDIES:
        is_built = re.search("(Window|Amount)Too(Short|Long|Small|Large)|OutsideWindow", name)
        assert is_built or f'"{name}"' in product, f"{name} is never given"
        assert f'"{name}"' in tests, f"{name} is not tested"


def test_a_refusal_says_what_was_expected_found_and_what_to_do() -> None:
    refusal = check_game_call(make_world().state, calls.PayOut(99), "x", 100)
    assert isinstance(refusal, GameRefusal) and refusal.name == "SeatUnknown"
    assert "99" in str(refusal) and REMEDIES["SeatUnknown"] in str(refusal)


def test_every_call_has_a_rule() -> None:
    assert set(round_machine._RULES) == set(KINDS) - {GameCall}


def test_a_state_at_a_block_is_what_a_call_of_that_block_finds() -> None:
    world = make_quiet_world()
    assert get_state_at(world.state, 183).rounds[0].closed is None
    later = get_state_at(world.state, 184)
    assert later.rounds[0].closed == 183 and world.state.rounds[0].closed is None
    logged = apply(world.state, calls.LeaveSeat(solver(0)), "solver0", 184)
    assert fold_all(world.state, logged[:1], 184) == later, "the close comes first"


def test_all_upkeep_that_is_listed_passes() -> None:
    world, blocks = make_world(solvers=4, rounds=1), 0
    world.unserving, world.false_claims = {"solver1"}, {("solver2", 0)}
    while not world.state.is_closed:
        for call in list_upkeep(world.state, world.block):
            assert check_game_call(world.state, world.seal(call), "x", world.block) is None, call
        world.play_block()
        assert not list_upkeep(world.state, world.block), "all was done"
        world.block, blocks = world.block + 1, blocks + 1
    assert blocks > 500


@pytest.mark.parametrize("silent", [None, "solver0"])
def test_who_jumps_to_the_next_block_misses_nothing(silent: str | None) -> None:
    """Looking in every block gives the same events as looking where `get_next_block` says."""
    jumping = play_keepers(silent, is_jumping=True)
    walking = play_keepers(silent, is_jumping=False)
    assert jumping.log == walking.log and jumping.state.is_closed


def play_keepers(silent: str | None, is_jumping: bool) -> Simulation:
    world = make_quiet_world(rounds=1)
    for account in ("solver0", "solver1", "solver2"):
        if account != silent:
            commit(world, account)
    while not world.state.is_closed:
        world.play_block()
        later = get_next_block(world.state, world.block) if is_jumping else world.block + 1
        world.block = later or world.block + 1
    return world


def test_the_same_play_gives_the_same_events() -> None:
    assert play(None, 0).log == play(None, 0).log
