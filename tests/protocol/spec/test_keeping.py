"""The rotation of permissionless calls."""

from dataclasses import replace

from protocol.spec import calls
from protocol.spec.keeping import (
    SPREAD_BLOCKS,
    Due,
    get_claim_page,
    get_keeper_actions,
    get_my_keeper_actions,
    is_turn,
    keeper_turn,
    list_due,
)
from protocol.spec.round import RoundState
from tests.protocol.spec.play import OUTSIDER
from tests.protocol.spec.simulator import make_account
from tests.protocol.spec.test_guards import play_to


def list_turns(state: RoundState, due: Due, block: int) -> list[str]:
    parties = (*state.solvers, *state.verifiers, *state.whistleblowers)
    return [account for account in parties if is_turn(state, account, due, block)]


def make_parties(count: int) -> RoundState:
    state, _, _, _ = play_to("sealBeacon")
    return replace(state, verifiers=tuple(make_account(f"v{i}") for i in range(count)))


def test_one_party_after_the_other_may_send() -> None:
    state = make_parties(6)
    due = Due(calls.Judge(0, 0), 100)
    parties = 6 + len(state.solvers) + len(state.whistleblowers)
    counts = [len(list_turns(state, due, 100 + i)) for i in range(parties + 1)]
    assert counts == [*range(1, parties + 1), parties]
    assert list_turns(state, due, 99) == []


def test_the_spread_is_bounded_in_a_large_round() -> None:
    state = make_parties(200)
    due = Due(calls.Judge(0, 0), 100)
    assert 1 <= len(list_turns(state, due, 100)) <= 200 // SPREAD_BLOCKS + 1
    assert len(list_turns(state, due, 100 + SPREAD_BLOCKS)) == 202


def test_half_of_a_short_window_is_for_everybody() -> None:
    state = make_parties(50)
    due = Due(calls.SealDraw(0), 100, 108)
    assert len(list_turns(state, due, 104)) == 52


def test_rotations_differ_between_calls() -> None:
    state = make_parties(14)
    first = {slot: list_turns(state, Due(calls.Judge(0, slot), 100), 100)[0] for slot in range(400)}
    pages = {page: {first[s] for s in first if get_claim_page(state, s) == page} for page in range(40)}
    assert {len(senders) for senders in pages.values()} == {1}
    assert len({sender for senders in pages.values() for sender in senders}) > 8
    kinds = (calls.SealBeacon, calls.SealDraw, calls.SealLate, calls.Advance, calls.SettleMerge)
    assert len({list_turns(state, Due(kind(0), 100), 100)[0] for kind in kinds}) > 1


def test_strangers_come_last() -> None:
    state = make_parties(3)
    due = Due(calls.Judge(0, 0), 100)
    assert not is_turn(state, OUTSIDER, due, 104)
    assert is_turn(state, OUTSIDER, due, 105)
    assert keeper_turn(state, OUTSIDER, due.call, 105, 100)


def test_what_is_due_is_somebodys_turn_before_the_window_closes() -> None:
    for label in ("sealBeacon", "sealDraw", "sealLeaves.0", "sealLate", "judge", "postOuter", "advance"):
        state, _, call, block = play_to(label)
        assert call in get_keeper_actions(state, block)
        (due,) = (one for one in list_due(state, block) if one.call == call)
        latest = min(due.closes_block - 1, due.due_block + SPREAD_BLOCKS)
        assert all(call in get_my_keeper_actions(state, one, latest) for one in state.verifiers)


def test_leaves_are_not_drawn_where_all_agree() -> None:
    state, _, _, _ = play_to("judge")
    clock = state.deadlines
    honest = replace(state, audits={})
    found = {type(call) for call in get_keeper_actions(honest, clock.leaves_block + 1)}
    assert calls.SealLeaves not in found


def test_no_late_draw_without_a_rate() -> None:
    state, _, call, block = play_to("sealLate")
    none = replace(state, terms=replace(state.terms, late_rate=0))
    assert call not in get_keeper_actions(none, block)
