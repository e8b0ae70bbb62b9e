"""A contest as its events tell it."""

from typing import Any

from tests.protocol.spec.game.simulation import make_word
from touchstone.protocol.spec.contest_tree import compute_nodes_below
from touchstone.protocol.spec.game.inner_contest import ContestFolds, InnerTurn, fold_contest
from touchstone.protocol.spec.merkle import compute_levels, hash_node

NAME, DEPTH = make_word("contest"), 5
OPENED = {"id": NAME, "round": 3, "root": make_word("root"), "contester": "0xAA", "clock_block": 110}


def play(*events: tuple[str, dict[str, Any]]) -> ContestFolds:
    book = ContestFolds(DEPTH)
    for name, values in events:
        book = fold_contest(book, name, {"id": NAME, **values})
    return book


def name_child(level: int, index: int, tensor: int = 1) -> tuple[str, dict[str, Any]]:
    return "ChildNamed", {"tensor": tensor, "level": level, "index": index, "clock_block": 130}


def test_it_goes_down_from_the_two_roots_to_a_leaf() -> None:
    opened = play(("Contested", OPENED)).contests[NAME]
    assert (opened.turn, opened.level, opened.round) == (InnerTurn.ANSWER, 0, 3)
    assert opened.contester == "0xaa"
    posted = ("NodesPosted", {"answerer": "0xBB", "nodes": [make_word(1), make_word(2)], "clock_block": 120})
    answered = play(("Contested", OPENED), posted).contests[NAME]
    assert (answered.turn, answered.clock, len(answered.nodes)) == (InnerTurn.CONTESTER, 120, 2)
    moves = (("Contested", OPENED), posted, name_child(0, 0))
    named = play(*moves).contests[NAME]
    assert (named.turn, named.tensor, named.level, named.nodes) == (InnerTurn.ANSWER, 1, 1, ())
    deeper = play(*moves, posted, name_child(4, 9)).contests[NAME]
    assert (deeper.turn, deeper.level, deeper.index) == (InnerTurn.ANSWER, 5, 9)
    leaf = play(*moves, posted, name_child(4, 9), posted, name_child(5, 19)).contests[NAME]
    assert (leaf.turn, leaf.level, leaf.index) == (InnerTurn.LEAF, 6, 19)
    ended = play(("Contested", OPENED), ("ContestEnded", {"outcome": 5})).contests[NAME]
    assert ended.turn is InnerTurn.FALLS


def test_the_nodes_of_an_answer_hash_to_the_contested_one() -> None:
    levels = compute_levels([make_word(i) for i in range(20)])
    top = compute_nodes_below(levels, 0, 0)
    assert len(top) == 16 and compute_root_of(top) == levels[-1][0]
    assert compute_root_of(compute_nodes_below(levels, 4, 9)) == top[9]


def compute_root_of(nodes: list[bytes]) -> bytes:
    """Of a whole level, padding included."""
    while len(nodes) > 1:
        nodes = [hash_node(*nodes[i : i + 2]) for i in range(0, len(nodes), 2)]
    return nodes[0]


def test_events_of_other_contracts_change_nothing() -> None:
    book = play(("Contested", OPENED))
    assert fold_contest(book, "RoundOpened", {"round": 1}) is book
