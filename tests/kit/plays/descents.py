"""Contests down to a leaf of a model of 20 leaves: five levels, two answers below the root of a tensor."""

from typing import Any

from tests.kit.actor import Actor
from tests.kit.played_claims import Model
from tests.kit.played_roots import TensorLeaf, write_claim
from tests.kit.plays.collection import Plays
from tests.kit.plays.contests import require_phases
from tests.kit.plays.rounds import make_running
from tests.kit.world import World
from touchstone.protocol.spec.game.enums import ContestTurn, RoundPhase
from touchstone.protocol.spec.game.vault import BURNED

PLAYS = Plays("descents")
LEAVES, DEPTH = 20, 5
TWENTY = Model(256 * LEAVES - 100, is_filled=True)
BASE_BYTES = 2 * (1024 + 32 * DEPTH)
"""Of a leaf's inputs: the leaves of weights and momentum with their paths."""
DELTA_BYTES = 260
WEIGHTS, MOMENTUM = 0, 1


def make_posted(
    name: str,
    wrong: TensorLeaf | None = None,
    merged: tuple[str, ...] = ("ann", "bob", "cid"),
    fault: str = "",
    **changes: Any,
) -> tuple[World, Actor]:
    """Returns a posted root, and who contests it. wrong: a leaf of it that is another."""
    world = make_running(name, **{"model": TWENTY, **changes})
    for solver in ("ann", "bob", "cid"):
        world.anybody(solver).commits(fault=fault)
    root = world.make_outer(merged, wrong)
    world.draws()
    world.all_accept()
    world.posts(root=root, merged=merged)
    return world, world.anybody("zoe")


def descends(world: World, contest: int, tensor: int, leaf: int) -> None:
    """Answers show the nodes, and the contester names those above a leaf."""
    for child in (tensor, leaf >> 1, leaf & 1):
        world.anybody("bob").answers_contest(contest)
        world.anybody("zoe").names_child(contest, child)
    assert world.state.contests[contest].turn == ContestTurn.LEAF


def refuses_inputs(world: World, contest: int, inputs: bytes, reason: str) -> None:
    """Nobody can bring these inputs."""
    with world.refuses("ProofInvalid", reason):
        world.anybody("yan").shows("bringLeaf", contest, inputs)


def falls(name: str, tensor: int, leaf: int) -> World:
    """Plays a root with a wrong leaf: nobody can bring its inputs, and it falls with the clock."""
    world, zoe = make_posted(name, (tensor, leaf))
    contest = zoe.contests(0)
    descends(world, contest, tensor, leaf)
    refuses_inputs(world, contest, world.write_inputs(contest), "leaf")
    world.comes_to(world.state.contests[contest].clock)
    with world.refuses("NotLate"):
        zoe.ends_contest(contest)
    world.passes()
    zoe.ends_contest(contest)
    require_phases(world, RoundPhase.FALLEN)
    return world


@PLAYS.add
def a_wrong_leaf_of_the_weights_falls() -> World:
    """A contester leads the descent to it."""
    return falls("a wrong leaf of the weights falls", WEIGHTS, 7)


@PLAYS.add
def a_wrong_last_leaf_falls() -> World:
    """It is short: behind its last element there are zeros."""
    return falls("a wrong last leaf falls", WEIGHTS, LEAVES - 1)


@PLAYS.add
def a_wrong_leaf_of_the_momentum_falls() -> World:
    """The other tensor of the root."""
    return falls("a wrong leaf of the momentum falls", MOMENTUM, 12)


@PLAYS.add
def a_wrong_padding_falls() -> World:
    """Behind the last leaf a tree has nothing."""
    return falls("a wrong padding falls", WEIGHTS, LEAVES)


@PLAYS.add
def every_leaf_of_a_right_root_is_brought() -> World:
    """Wherever a contester leads the descent, padding too, half of its bond is the answerer's."""
    world, zoe = make_posted("every leaf of a right root is brought")
    places = (
        (WEIGHTS, 0),
        (MOMENTUM, 0),
        (WEIGHTS, 6),
        (MOMENTUM, 13),
        (WEIGHTS, 19),
        (MOMENTUM, 19),
        (WEIGHTS, 20),
        (MOMENTUM, 31),
    )
    for count, (tensor, leaf) in enumerate(places, 1):
        contest = zoe.contests(0)
        descends(world, contest, tensor, leaf)
        world.anybody("ann").brings_leaf(contest)
        assert world.get_credit("ann") == 150 * count
        assert world.state.vault.get_wei(BURNED) == 150 * count
    require_phases(world, RoundPhase.POSTED)
    return world


@PLAYS.add
def what_claims_have_behind_the_last_element_counts_nothing() -> World:
    """The right root is that of tensors, which end with the last element, in weights and in momentum."""
    world, zoe = make_posted("what claims have behind the last element counts nothing", fault="behind")
    for tensor in (WEIGHTS, MOMENTUM):
        contest = zoe.contests(0)
        descends(world, contest, tensor, LEAVES - 1)
        world.anybody("ann").brings_leaf(contest)
    return world


@PLAYS.add
def a_leaf_is_computed_from_merged_claims_alone() -> World:
    """A root that merges two of three claims."""
    world, zoe = make_posted("a leaf is computed from merged claims alone", merged=("ann", "cid"))
    contest = zoe.contests(0)
    descends(world, contest, WEIGHTS, 6)
    world.anybody("ann").brings_leaf(contest)
    return world


@PLAYS.add
def other_inputs_are_refused() -> World:
    """A byte of each part, another leaf, another length, and claims in another order than their shards'."""
    world, zoe = make_posted("other inputs are refused")
    contest = zoe.contests(0)
    descends(world, contest, WEIGHTS, 6)
    inputs = world.write_inputs(contest)
    for other in (inputs + b"\0", inputs[:-1], b""):
        refuses_inputs(world, contest, other, "inputs")
    claims = world.list_merged(0, world.state.rounds[0].merged)
    parts = [write_claim(claim, 6) for claim in claims]
    paths = BASE_BYTES + DELTA_BYTES
    carried = paths + 32 * DEPTH
    bases, claimed = (
        (3, 1024 + 5, BASE_BYTES - 1),
        (BASE_BYTES, paths, carried, carried + 32, len(inputs) - 1),
    )
    for places, reason in ((bases, "base"), (claimed, "claim")):
        for at in places:
            changed = inputs[:at] + bytes([inputs[at] ^ 1]) + inputs[at + 1 :]
            refuses_inputs(world, contest, changed, reason)
    turned = inputs[:BASE_BYTES] + b"".join([parts[1], parts[0], parts[2]])
    refuses_inputs(world, contest, turned, "claim")
    neighbour = zoe.contests(0)
    descends(world, neighbour, WEIGHTS, 7)
    refuses_inputs(world, contest, world.write_inputs(neighbour), "base")
    world.anybody("ann").brings_leaf(contest)
    return world


@PLAYS.add
def nodes_lead_to_their_parent() -> World:
    """The two roots to the posted one, in their order; then 16 nodes to the named one, then two."""
    world, zoe = make_posted("nodes lead to their parent")
    bob, contest = world.anybody("bob"), zoe.contests(0)
    roots = world.trees[world.state.rounds[0].root or b""].roots

    def refuses_nodes(nodes: tuple[bytes, ...]) -> None:
        with world.refuses("ProofInvalid", "nodes"):
            bob.shows("answerContest", contest, nodes)

    for wrong in (roots[::-1], roots[:1], (), (*roots, roots[0])):
        refuses_nodes(wrong)
    bob.answers_contest(contest)
    with world.refuses("NotContester"):
        bob.names_child(contest)
    for child, wrong, reason in (
        (2, roots, "child"),
        (0, (bytes(32), roots[1]), "nodes"),
        (0, roots[:1], "nodes"),
    ):
        with world.refuses("ProofInvalid", reason):
            zoe.shows("nameChild", contest, child, wrong)
    with world.refuses("WrongTurn"):
        bob.answers_contest(contest)
    with world.refuses("WrongTurn"):
        bob.brings_leaf(contest)
    zoe.names_child(contest)
    nodes = world._nodes(contest)
    assert len(nodes) == 16
    for other in ((*nodes[:3], bytes(32), *nodes[4:]), roots, nodes[:8]):
        refuses_nodes(other)
    bob.answers_contest(contest)
    with world.refuses("ProofInvalid", "child"):
        zoe.shows("nameChild", contest, 16, nodes)
    zoe.names_child(contest, 15)
    refuses_nodes(nodes)
    bob.answers_contest(contest)
    zoe.names_child(contest)
    with world.refuses("WrongTurn"):
        bob.answers_contest(contest)
    return world


@PLAYS.add
def each_level_of_a_contest_has_its_clock() -> World:
    """The last block takes the answer, the one behind it does not; silence below the root fells it too."""
    world, zoe = make_posted("each level of a contest has its clock")
    bob, contest = world.anybody("bob"), zoe.contests(0)
    for child in (WEIGHTS, 3):
        world.passes(10)
        bob.answers_contest(contest)
        world.passes(10)
        zoe.names_child(contest, child)
    world.passes(11)
    with world.refuses("OutsideWindow"):
        bob.answers_contest(contest)
    zoe.ends_contest(contest)
    require_phases(world, RoundPhase.FALLEN)
    return world
