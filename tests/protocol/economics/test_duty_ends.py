"""When a task ends, by the length of the rounds so far; and when a stake comes back."""

from tests.protocol.spec.game.mishaps import make_mishaps
from touchstone.protocol.economics.duty_ends import estimate_end, estimate_release, estimate_round_blocks
from touchstone.protocol.spec.game.round_machine import get_state_at


def test_a_task_ends_after_as_many_rounds_as_are_left() -> None:
    world = make_mishaps()
    world.play(until=lambda w: w.state.next_round == 4)
    now, block = get_state_at(world.state, world.block), world.block
    end, left = estimate_end(now, block), now.terms.rounds - 3
    opened = now.rounds[3].opened
    assert end == max(block, opened + left * estimate_round_blocks(now)) > block
    assert all(estimate_release(now, seat, block) > end for seat in now.seats.values())


def test_no_round_is_to_come_once_a_task_is_over() -> None:
    world = make_mishaps()
    world.play()
    assert estimate_end(get_state_at(world.state, world.block), world.block) == world.block
