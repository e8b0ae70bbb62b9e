"""When a query is answered: not before what the answer shows is of no use to a reserve."""

from dataclasses import replace

import pytest

from tests.kit.nodes import make_view
from tests.protocol.spec.game.simulation import is_drawn, make_world
from tests.whistleblower.test_known_statements import make_vote
from touchstone.node.defending import query_answers
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerQuery
from touchstone.protocol.spec.game.state import CountedVote
from touchstone.protocol.spec.game.timing import compute_query_clock
from touchstone.protocol.spec.statements import VoteWord


@pytest.mark.parametrize(
    ("word", "rank", "is_at_once"),
    [(VoteWord.ACCEPT, 0, True), (VoteWord.REJECT_STATE, 0, False), (VoteWord.ACCEPT, 1, False)],
)
def test_an_answer_waits_as_long_as_a_reserve_could_copy_it(
    word: VoteWord, rank: int, is_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reserve that asks a primary whose draw is undecided would have its replay for a bond."""
    world = make_world().play(is_drawn)
    block, undecided = world.block, replace(world.state.rounds[0], votes={})
    game = replace(world.state, rounds={0: undecided})
    known = make_vote(game)
    if is_at_once:
        counted = {(known.ref.slot, known.ref.draw or 0): {0: CountedVote(word, block)}}
        game = replace(game, rounds={0: replace(undecided, votes=counted)})
    vote = replace(known.vote, word=word, rank=rank)
    seat = get_drawn_seat(game, game.rounds[vote.round], vote.slot, vote.draw, rank)
    assert seat is not None
    clock = compute_query_clock(game, replace(known.ref, rank=rank), block)
    ask = InnerQuery(b"a" * 32, seat, vote, 3, "reserve", clock)
    monkeypatch.setattr(query_answers, "get_inner", lambda view: InnerBook(10, queries={ask.name: ask}))
    monkeypatch.setattr(query_answers, "get_now", lambda view: game)
    view = make_view(account=game.seats[seat].account, game=game)
    assert bool(list(query_answers.list_own_asked(view, block + 1))) == is_at_once
    last_vote = clock - game.terms.windows.respond
    assert bool(list(query_answers.list_own_asked(view, last_vote))) == is_at_once
    assert (
        list(query_answers.list_own_asked(view, last_vote + 1))
        == [ask]
        == list(query_answers.list_own_asked(view, clock))
    )
