"""Wakes of the loop: one a block for each account."""

from protocol.actions.runtime.wakes import Wakes


def test_an_account_wakes_the_loop_once_a_block_and_hinders_no_other() -> None:
    wakes = Wakes()
    assert [wakes.take("alice", 7), wakes.take("alice", 7), wakes.take("bob", 7)] == [True, False, True]
    assert [wakes.take("alice", 8), wakes.take("alice", 8)] == [True, False]
