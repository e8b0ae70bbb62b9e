"""Who audits what, from a round's state."""

from dataclasses import replace

from protocol.spec.draw import compute_slot_seed, draw_auditors, draw_segments
from protocol.spec.drawn import (
    compute_draws,
    compute_late_draws,
    compute_leaf_indices,
    get_auditor,
    get_drawn,
)
from tests.protocol.spec.test_guards import play_to


def test_draws_apply_the_seed_to_the_enrolled() -> None:
    state, _, _, _ = play_to("openStart")
    assert state.draw_seed is not None
    seed = compute_slot_seed(state.draw_seed, 0)
    (drawn,) = compute_draws(state).values()
    assert [drawn.segment] == draw_segments(seed, 1, 2)
    assert drawn.auditors == tuple(state.verifiers[i] for i in draw_auditors(seed, 0, 3))
    assert len({*drawn.auditors}) == 3
    assert get_auditor(state, (0, 0, 2)) == drawn.reserves[1]


def test_nothing_is_drawn_before_the_seal() -> None:
    state, _, _, _ = play_to("sealDraw")
    assert not compute_draws(state) and not compute_late_draws(state)
    assert get_drawn(state, 0, 0) is None and get_auditor(state, (0, 0, 0)) is None


def test_late_audit_takes_an_undrawn_segment_of_a_claim_accepted_in_time() -> None:
    state, _, _, _ = play_to("openStart.late")
    (drawn,) = compute_late_draws(state).values()
    assert drawn.segment != compute_draws(state)[0, 0].segment
    assert drawn.primary in state.whistleblowers and drawn.reserves == ()
    too_late = {0: replace(state.claims[0], accepted_block=state.posted_block or 0)}
    assert compute_late_draws(replace(state, claims=too_late))
    too_late = {0: replace(state.claims[0], accepted_block=(state.posted_block or 0) + 1)}
    assert not compute_late_draws(replace(state, claims=too_late))


def test_names_outside_the_draw_are_nobody() -> None:
    state, _, _, _ = play_to("openStart")
    assert get_drawn(state, 1, 0) is None
    assert get_auditor(state, (0, 0, 3)) is None and get_auditor(state, (0, -1, 0)) is None


def test_leaf_indices_need_the_leaf_draw() -> None:
    state, _, _, _ = play_to("sealLeaves.0")
    assert compute_leaf_indices(state, 0, 0, 0) == ()
    state, _, call, _ = play_to("openLeaves.0")
    assert sorted(call.indices) == [0, 1]
