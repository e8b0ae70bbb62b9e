"""Until which block each thing stays: its window's last block is inside, the next one is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.node.upkeep.stage import SEGMENTS, Node
from tests.protocol.spec.game.simulation import Simulation, make_world
from touchstone.node.kit.retention_windows import name_delta, name_outer, name_state, name_tensors
from touchstone.node.upkeep.retention import list_kept
from touchstone.protocol.adapters.store.blobs import BlobKey
from touchstone.protocol.spec.game.assignments import get_late_draw, get_segments
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit, get_drawn
from touchstone.protocol.spec.game.enums import ContestTurn, RoundPhase
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerDispute
from touchstone.protocol.spec.game.state import (
    GameRound,
    GameState,
    RootContest,
    RunningDispute,
    StatementRef,
)
from touchstone.protocol.spec.game.timing import get_duty_until, get_query_until
from touchstone.protocol.spec.statements import VoteWord

SOLVER = "solver0"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(SOLVER, tmp_path / "blobs")


def play(node: Node, opened: int, **changes: object) -> Simulation:
    """The node lives until so many rounds are open; nothing is pruned on the way."""
    world = make_world(rounds=8, late_chance=1 << 16, **changes)  # type: ignore[arg-type]
    node.prune = lambda state, block: None  # type: ignore[method-assign]

    def watch(played: Simulation) -> bool:
        node.live(played)
        return played.state.next_round >= opened

    return world.play(until=watch)


def get_slot(game_round: GameRound, account: str, state: GameState) -> int:
    accounts = [state.seats[number].account for number in game_round.pool.solvers]
    return accounts.index(account)


def is_kept(node: Node, state: GameState, block: int, keys: list[BlobKey]) -> bool:
    """Whether all of them stay; asserts that they stay or go together."""
    kept = list_kept(state, node.books, block)
    stay = {key in kept for key in keys}
    assert len(stay) == 1, keys
    return stay == {True}


def ends_after(node: Node, state: GameState, until: int, keys: list[BlobKey]) -> bool:
    return is_kept(node, state, until, keys) and not is_kept(node, state, until + 1, keys)


# A solver
def list_boundary(node: Node, state: GameState, index: int, boundary: int) -> list[BlobKey]:
    return list(name_state(node.claims.find(state.rounds[index]).boundaries[boundary]))


def list_undrawn(state: GameState, index: int, slot: int) -> list[int]:
    """Boundaries inside the claim that no audit needs."""
    one = state.rounds[index]
    late = get_late_draw(state, one, slot)
    drawn = {*get_segments(state, one, slot), *([] if late is None else [late.segment])}
    return [b for b in range(1, SEGMENTS) if not {b, b - 1} & drawn]


def test_two_rounds_are_whole_and_the_third_is_a_start(node: Node) -> None:
    world = play(node, 3)
    state, block = world.get_now(), world.block
    for index, is_whole in ((2, True), (1, True), (0, False)):
        slot = get_slot(state.rounds[index], SOLVER, state)
        for boundary in list_undrawn(state, index, slot):
            keys = list_boundary(node, state, index, boundary)
            assert is_kept(node, state, block, keys) == is_whole, (index, boundary)
        assert is_kept(node, state, block, list_boundary(node, state, index, 0))


def test_a_start_stays_until_the_duties_of_its_round_end(node: Node) -> None:
    state = play(node, 3).get_now()
    until = get_duty_until(state, state.rounds[0])
    assert until is not None
    second = [key for key in list_boundary(node, state, 0, 0) if key.root not in (node.zero,)]
    assert ends_after(node, state, until, second)


def test_ends_of_audited_segments_stay_while_votes_count(node: Node) -> None:
    """Of the late audit: from its draw on, in a round that is pruned by then. The start stays while its steps
    may be asked for."""
    state = play(node, 3).get_now()
    one, audit_max = state.rounds[0], state.terms.windows.audit_max
    slot = get_slot(one, SOLVER, state)
    late = get_late_draw(state, one, slot)
    assert late is not None and one.late_from is not None
    drawn = get_segments(state, one, slot)
    for boundary in {late.segment, late.segment + 1} - {0, *drawn, *(d + 1 for d in drawn)}:
        keys = list_boundary(node, state, 0, boundary)
        windows = 3 if boundary == late.segment else 2
        assert ends_after(node, state, one.late_from + windows * audit_max, keys)
        undrawn = replace(state, rounds={**state.rounds, 0: replace(one, late_seed=None)})
        assert not is_kept(node, undrawn, one.late_from, keys), "before the draw nobody can ask"
    final = list(name_tensors(node.claims.find(one).boundaries[SEGMENTS].weights_root))
    assert ends_after(node, state, one.late_from + 2 * audit_max, final)


def test_inputs_of_the_outer_step_stay_until_the_root_cannot_be_contested(node: Node) -> None:
    state = play(node, 4).get_now()
    one = state.rounds[1]
    roots = [proof.delta_root for name, proof in node.claims.proofs.items() if name.round == 1]
    others = [name_delta(root) for root in roots if root != node.claims.find(one).finished.delta_root]  # type: ignore[union-attr]
    momentum = list(name_tensors(node.models[one.base_root].momentum_root))
    assert len(others) == len(one.claims) - 1 > 0
    for keys in (others, momentum):
        assert ends_after(node, state, one.root_until, keys)
    contest = RootContest(9, 1, one.root or b"", one.root_until, "x", ContestTurn.ANSWER, 1 << 30)
    contested = replace(state, contests={9: contest})
    assert is_kept(node, contested, one.root_until + 1, others), "a contest that runs on"


def test_the_start_of_a_claim_stays_while_a_fall_may_bring_its_moments_back(node: Node) -> None:
    """The root of round 2 is contested for longer than anything of round 1 can be asked about."""
    state = play(node, 4).get_now()
    until, one = get_duty_until(state, state.rounds[1]), replace(state.rounds[2], phase=RoundPhase.POSTED)
    assert until is not None
    start = node.claims.find(state.rounds[1]).boundaries[0]
    keys = list(name_tensors(start.first_moment_root))
    settled = replace(state, rounds={**state.rounds, 2: replace(one, root_until=until)})
    assert ends_after(node, settled, until, keys)
    contest = RootContest(9, 2, one.root or b"", until, "x", ContestTurn.ANSWER, 1 << 30)
    assert is_kept(node, replace(settled, contests={9: contest}), until + 1, keys)


def test_the_own_pseudo_gradient_stays_while_the_claim_can_be_disputed(node: Node) -> None:
    """Also where it was not merged: the base root stands."""
    state = play(node, 3).get_now()
    one = replace(state.rounds[0], phase=RoundPhase.STANDING, root=None, merged=())
    finished = node.claims.find(one).finished
    assert finished is not None and one.closed is not None
    standing = replace(state, rounds={**state.rounds, 0: replace(one, late_from=None, late_seed=None)})
    until = one.closed + state.terms.windows.dispute
    assert ends_after(node, standing, until, [name_delta(finished.delta_root)])


def test_an_open_dispute_keeps_the_start_of_its_segment(node: Node) -> None:
    state = play(node, 3).get_now()
    slot, until = get_slot(state.rounds[0], SOLVER, state), get_duty_until(state, state.rounds[0])
    assert until is not None
    keys, ref = list_boundary(node, state, 0, 3), StatementRef(0, slot)
    assert not is_kept(node, state, until, keys)
    running = RunningDispute(7, ref, state.rounds[0].claims[slot].seat, "x", 1 << 30)
    node.inner = InnerBook(10, {b"n": InnerDispute(b"n", running.seat, ref, 3, "x", 1 << 30)})
    disputed = replace(state, disputes={7: running})
    assert is_kept(node, disputed, until + 1, keys)
    assert is_kept(node, disputed, until + 1, list_boundary(node, state, 0, 0)), "whoever asks late"


def test_what_is_trained_ahead_stays_whole_on_whatever_guess(node: Node) -> None:
    world = play(node, 2)
    state = world.get_now()
    ahead = node.claims.works[state.next_round, b"guess"]
    ahead.boundaries[1] = node.put_state("ahead")
    keys = list(name_state(ahead.boundaries[1]))
    assert is_kept(node, state, world.block, keys)
    opened = replace(state, next_round=state.next_round + 1)
    assert is_kept(node, opened, world.block, keys) is False, "its round is not there"
    last = state.rounds[max(state.rounds)]
    wrong = replace(opened, rounds={**state.rounds, state.next_round: replace(last, index=state.next_round)})
    dealt = max(last.opened, last.trained_from or 0)
    assert ends_after(node, wrong, dealt, keys), "it was dealt on another base; a reorg may take that back"


def test_moments_stay_until_the_next_claim_has_gone_on_from_them(node: Node) -> None:
    """Where the node has missed rounds since, its last merged claim is older than two of them."""
    state = play(node, 4).get_now()
    rounds = {i: replace(one, merged=one.merged if i == 0 else ()) for i, one in state.rounds.items()}
    missed = replace(state, rounds=rounds)
    keys = list_boundary(node, state, 0, SEGMENTS)
    until = get_duty_until(state, state.rounds[0])
    assert until is not None and is_kept(node, missed, until + 1, keys)
    later = [key for key in keys if key not in list_boundary(node, state, 1, 0)]
    assert not is_kept(node, state, until + 1, later)


def test_the_model_of_the_next_round_and_the_settled_one_stay(node: Node) -> None:
    state = play(node, 4).get_now()
    rounds = {index: one for index, one in state.rounds.items() if one.root is not None}
    over, far, newest = replace(state, rounds=rounds), 1 << 40, rounds[max(rounds)].root
    assert newest == state.root is not None
    model = list(name_outer(node.models[state.root]))
    assert is_kept(node, over, far, model), "twice: it is the settled one as well"
    assert is_kept(node, replace(over, root=b"r" * 32), far, model), "the settled one, for whoever exports"
    assert is_kept(node, replace(over, rounds={}), far, model), "what the next round starts from"
    before = list(name_tensors(node.models[rounds[0].root or b""].weights_root))
    assert not is_kept(node, over, far, before)


def test_on_other_bits_nothing_of_an_open_round_is_pruned(node: Node) -> None:
    state = play(node, 3).get_now()
    until, keys = get_duty_until(state, state.rounds[0]), list_boundary(node, state, 0, 3)
    assert until is not None and not is_kept(node, state, until, keys)
    node.memory.unlike_until = 0
    assert ends_after(node, state, until, keys)


# An auditor
def get_audit(state: GameState, draw: int = 0) -> DrawnAudit:
    drawn = get_drawn(state, 0, 0, draw, 0)
    assert drawn is not None
    return drawn


def get_windows(state: GameState) -> tuple[int, int, int]:
    """Last blocks of votes, of queries and of disputes."""
    closed, windows = state.rounds[0].closed or 0, state.terms.windows
    asked = get_query_until(state, StatementRef(0, 0, 0))
    assert asked is not None
    return closed + 2 * windows.audit_max, asked, closed + windows.dispute


def extend_dispute(state: GameState) -> GameState:
    """With a `dispute` that is longer than the window of queries, as on a main net."""
    windows = replace(state.terms.windows, dispute=2_000)
    return replace(state, terms=replace(state.terms, windows=windows))


@pytest.mark.parametrize("is_dispute_longer", [False, True])
@pytest.mark.parametrize("word", [VoteWord.ACCEPT, VoteWord.REJECT_STATE])
def test_an_auditor_keeps_both_ends_while_it_can_be_asked_then_the_start(
    node: Node, word: VoteWord, is_dispute_longer: bool
) -> None:
    world = play(node, 3)
    state = extend_dispute(world.get_now()) if is_dispute_longer else world.get_now()
    made, voted = node.vote(get_audit(state), word)
    assert voted.ends is not None
    _, asked, disputed = get_windows(state)
    last = max(asked, disputed)
    assert ends_after(node, state, last, list(name_state(made.start.header)))
    for end in (made.own_end, voted.ends.end.header):
        until = last if word == VoteWord.REJECT_STATE else asked
        assert ends_after(node, state, until, list(name_state(end)))


@pytest.mark.parametrize("word", [VoteWord.ACCEPT, VoteWord.REJECT_DELTA])
def test_final_weights_and_pseudo_gradient_stay_while_votes_count_or_one_rejects_it(
    node: Node, word: VoteWord
) -> None:
    state = extend_dispute(play(node, 3).get_now())
    _, voted = node.vote(get_audit(state), word)
    assert voted.ends is not None
    votes, _, disputed = get_windows(state)
    keys = [*name_tensors(voted.ends.last.header.weights_root), name_delta(voted.ends.work.delta_root)]
    assert ends_after(node, state, disputed if word == VoteWord.REJECT_DELTA else votes, keys)


def test_an_open_question_of_the_round_keeps_an_auditors_ends(node: Node) -> None:
    state = play(node, 3).get_now()
    made, _ = node.vote(get_audit(state), VoteWord.ACCEPT)
    _, asked, _ = get_windows(state)
    running = RunningDispute(7, StatementRef(0, 0, 0), 0, "x", 1 << 30)
    disputed = replace(state, disputes={7: running})
    assert is_kept(node, disputed, asked + 1, list(name_state(made.own_end)))
