"""Utilisation by hand: two rounds of two solvers, a claim that is not merged, a root that falls."""

from typing import Any

import pytest

from lab.benchmarks.utilisation_run.plan import Phase, list_phases
from lab.benchmarks.utilisation_run.run_report import count_phase, cut_phase, fold_rounds, list_disputes
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.spec.game.inner_dispute import DisputeStage

ANNA, BERT = "0xa", "0xb"
SENDERS = {b"\1": ANNA, b"\2": BERT}
TRAIN_S = {ANNA: 100.0, BERT: 90.0}


def make_events(*told: tuple[int, str, dict[str, Any], bytes]) -> list[Event]:
    """(block, name, values, hash of the transaction)."""
    return [Event("Rounds", name, values, block, 0, bytes(32), sent) for block, name, values, sent in told]


def make_round(index: int, opened: int, merged: int) -> list[Event]:
    """A round that closes 50 blocks after its opening, is drawn after 53 and posted after 60."""
    here = {"round": index}
    return make_events(
        (opened, "RoundOpened", here, b""),
        (opened + 48, "ClaimTaken", {**here, "slot": 0}, b"\1"),
        (opened + 50, "ClaimTaken", {**here, "slot": 1}, b"\2"),
        (opened + 51, "RoundClosed", {**here, "closing_block": opened + 50}, b""),
        (opened + 53, "AuditsDrawn", here, b""),
        (opened + 60, "RootPosted", {**here, "merged": merged}, b""),
    )


def get_times() -> dict[int, float]:
    """Blocks of 2 s."""
    return {block: 2.0 * block for block in range(400)}


def test_a_round_is_told_with_its_blocks_and_merged_claims() -> None:
    told = fold_rounds(make_round(0, 10, 0b10), SENDERS)[0]
    assert (told.opened, told.closed, told.drawn, told.ended) == (10, 60, 63, 70)
    assert told.claims == {ANNA: 58, BERT: 60} and told.merged == {BERT}


def test_phases_tile_the_time_from_close_to_close() -> None:
    rounds = fold_rounds([*make_round(0, 10, 0b11), *make_round(1, 70, 0b01)], SENDERS)
    first = count_phase(rounds, Phase("first", 0, 0), TRAIN_S, get_times())
    second = count_phase(rounds, Phase("second", 1, 1), TRAIN_S, get_times())
    assert (first.train_s, first.wall_s) == (190.0, 100.0)
    assert first.utilisation == pytest.approx(190 / 200)
    assert (second.train_s, second.wall_s, second.seats) == (100.0, 120.0, 2)
    assert second.utilisation == pytest.approx(100 / 240)
    assert second.until_posted == pytest.approx(100 / (2 * 120))


def test_a_seat_that_is_not_honest_counts_neither_as_work_nor_as_time() -> None:
    rounds = fold_rounds(make_round(0, 0, 0b11), SENDERS)
    told = count_phase(rounds, Phase("one", 0, 0), {ANNA: 90.0}, get_times())
    assert (told.seats, told.train_s) == (1, 90.0)
    assert told.utilisation == pytest.approx(0.9)


def test_a_root_that_falls_takes_later_rounds_with_it() -> None:
    events = [*make_round(0, 0, 0b11), *make_round(1, 60, 0b11), *make_round(2, 120, 0b11)]
    fallen = make_events((190, "RootFell", {"round": 1}, b""))
    rounds = fold_rounds([*events, *fallen], SENDERS)
    assert [len(rounds[index].merged) for index in range(3)] == [2, 0, 0]


def test_a_round_that_stands_has_an_end_and_no_merged_claims() -> None:
    events = [event for event in make_round(0, 0, 0b11) if event.name != "RootPosted"]
    rounds = fold_rounds([*events, *make_events((70, "RootStood", {"round": 0}, b""))], SENDERS)
    told = count_phase(rounds, Phase("one", 0, 0), TRAIN_S, get_times())
    assert told.utilisation == 0.0


def test_a_phase_is_cut_to_the_rounds_that_are_over() -> None:
    rounds = fold_rounds([*make_round(0, 0, 0b11), *make_round(1, 60, 0b11)[:-1]], SENDERS)
    assert cut_phase(rounds, Phase("two", 0, 1)) == Phase("two", 0, 0)
    assert cut_phase(rounds, Phase("later", 1, 1)) is None
    assert cut_phase(rounds, Phase("last", 2, 3)) is None


def test_phases_follow_each_other() -> None:
    assert [(one.first, one.last) for one in list_phases((8, 6, 6))] == [(0, 7), (8, 13), (14, 19)]


def test_disputes_are_told_with_their_ends() -> None:
    events = make_events(
        (5, "DisputeOpened", {"dispute": b"x", "seat": 3}, b""),
        (9, "DisputeEnded", {"dispute": b"x", "outcome": int(DisputeStage.CONVICTED)}, b""),
    )
    assert list_disputes(events) == [{"seat": 3, "opened": 5, "ended": 9, "outcome": "CONVICTED"}]
