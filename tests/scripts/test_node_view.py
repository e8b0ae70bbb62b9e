"""`touchstone top`: what it says of a node that runs, of one that does not, and of a silent chain."""

from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.adapters.reports.node_state import End, NodeState
from touchstone.scripts.status.node_view import ChainLook, list_lines

NOW_S = 1_000
SEEN = ChainLook(Pace(100, 2.0), ("task 0x3fa9: you have earned 100 tokens",))


def make_state(**changes: object) -> NodeState:
    values = {
        "account": "0xab", "started_s": 900, "seen_s": NOW_S, "end": End.KILLED, "restarts": 0, "kills": 0,
        "earlier_end": None, "head_block": 100, "health_issues": (), "next_duty": "vote on a drawn segment",
        "next_block": 130, "peers": 3, **changes,
    }  # fmt: skip
    return NodeState(**values)  # type: ignore[arg-type]


def test_a_running_node_says_what_it_owes_by_when_and_what_it_has() -> None:
    lines = list(list_lines(make_state(model="the model is at 3.45 and falling"), SEEN, NOW_S))
    assert lines[0] == "the node of this home has run for 100 s, at block 100"
    assert "the model is at 3.45 and falling" in lines
    assert "next: vote on a drawn segment, by block 130 (in about 1 min)" in lines
    assert "up to date with the chain; 3 other members of the task can be reached" in lines
    assert lines[-1] == SEEN.money[0]
    assert "next: nothing is owed to the chain now" in list(list_lines(make_state(next_duty=""), SEEN, NOW_S))


def test_a_node_that_is_behind_is_told_with_the_number_of_blocks() -> None:
    lines = list(list_lines(make_state(head_block=90), SEEN, NOW_S))
    assert any(line.startswith("WARNING: 10 blocks behind the chain") for line in lines)


def test_a_node_that_has_ended_owes_nothing_that_could_be_known() -> None:
    lines = list(list_lines(make_state(end=End.STOPPED), SEEN, NOW_S))
    assert not any(line.startswith("next: ") for line in lines) and "does not run" in lines[0]
    assert "no node has run in this home yet" in next(list_lines(None, SEEN, NOW_S))


def test_a_silent_chain_is_told() -> None:
    lines = list(list_lines(make_state(), ChainLook(Pace(0, None), fault="the chain is silent"), NOW_S))
    assert lines[-1] == "WARNING: the chain was not asked: the chain is silent"
