"""How a task is posted and closed, and what is refused of it."""

from tests.kit.members import make_word
from tests.kit.played_task import STRANGER
from tests.kit.plays.collection import Plays
from tests.kit.plays.rounds import make_running
from tests.kit.world import World
from touchstone.protocol.spec.game.enums import SeatRole

PLAYS = Plays("tasks")


@PLAYS.add
def terms_are_refused() -> World:
    """Windows that do not fit into one another, amounts and numbers beyond what the deployment allows."""
    world = World("terms are refused")
    for refused, changes in (
        ("WindowTooShort", {"windows": {"train_min": 9}}),
        ("WindowTooShort", {"windows": {"respond": 3}}),
        ("WindowTooLong", {"windows": {"dispute": 1_000_001}}),
        ("WindowTooShort", {"windows": {"train_max": 39}}),
        ("WindowTooShort", {"windows": {"train_min": 38}}),
        ("WindowTooShort", {"windows": {"dispute": 183}}),
        ("WindowTooShort", {"windows": {"query": 695}}),
        ("AmountTooSmall", {"amounts": {"solver_stake": 0}}),
        ("AmountTooSmall", {"amounts": {"contest_bond": 0}}),
        ("AmountTooLarge", {"amounts": {"query_bond": 501}}),
        ("AmountTooLarge", {"amounts": {"solver_pay": (1 << 90) + 1}}),
        ("AmountTooSmall", {"rounds": 0}),
        ("AmountTooLarge", {"rounds": 1 << 16}),
        ("AmountTooSmall", {"draws": 0}),
        ("AmountTooLarge", {"late_chance": 65_537}),
        ("AmountTooLarge", {"solver_seats": 65}),
        ("AmountTooLarge", {"least_solvers": 5}),
        ("AmountTooSmall", {"least_verifiers": 2}),
        ("AmountTooSmall", {"late_chance": 1, "least_whistleblowers": 2}),
    ):
        world.posts_other_terms(refused, **changes)
    return world


@PLAYS.add
def only_its_submitter_posts_a_task() -> World:
    """And only once, with the whole escrow in its credit."""
    world = World("only its submitter posts a task")
    posted = world.log[-1].made
    assert posted is not None
    world.send_refused("NotSubmitter", "stranger", *posted)
    world.send_refused("TaskExists", "submitter", *posted)
    poor = world._encode_terms(world.state.terms)
    world.send_refused("CreditTooSmall", "submitter", *posted[:2], poor, b"another text")
    return world


@PLAYS.add
def a_task_closes_when_all_have_left() -> World:
    """While a round runs, a seat is left or a contest is open it goes on; closed, it takes nobody."""
    world = make_running("a task closes when all have left", rounds=2)
    with world.refuses("TaskRuns"):
        world.closes_task()
    world.plays_round()
    world.plays_round()
    with world.refuses("TaskRuns"):
        world.closes_task()
    world.passes_duties()
    world.all_settle()
    for number in list(world.state.seats):
        with world.refuses("TaskRuns"):
            world.closes_task()
        world.submitter.pays_out(number)
    world.closes_task()
    with world.refuses("TaskIsClosed"):
        world.closes_task()
    with world.refuses("TaskIsClosed"):
        world.anybody("zoe").joins(SeatRole.SOLVER)
    with world.refuses("TaskIsClosed"):
        world.submitter.pays_out(1 << 16)
    with world.refuses("TaskIsClosed"):
        world.anybody("ann").tops_up(1, seat=1 << 16)
    with world.refuses("TaskIsClosed"):
        world.anybody("ann").leaves(seat=1 << 16)
    return world


@PLAYS.add
def a_task_that_nobody_posted_is_unknown() -> World:
    """Nobody joins, leaves, starts or closes it."""
    world, other = World("a task that nobody posted is unknown"), make_word("another task")
    for call in (
        ("Seats", "join", other, 1, 1), ("Seats", "topUp", other, 1, 1), ("Seats", "leave", other, 1),
        ("Seats", "payOut", other, 1), ("Tasks", "closeTask", other), ("Tasks", "termsOf", other),
        ("Tasks", "isClosed", other), ("Rounds", "start", other),
    ):  # fmt: skip
        world.send_refused("TaskUnknown", STRANGER, *call)
    return world
