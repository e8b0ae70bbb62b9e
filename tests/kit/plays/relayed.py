"""Votes that come by way of a contract, or with the root in one call: nobody can hide what it hands in."""

from tests.kit.played_task import STRANGER
from tests.kit.plays.collection import Plays
from tests.kit.plays.rounds import make_running
from tests.kit.plays.votes import make_drawn
from tests.kit.world import World
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import HandedOpening
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("relayed")
ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN = VoteWord
ALL = ("ann", "bob", "cid")


@PLAYS.add
def votes_by_a_contract_are_logged_whole() -> World:
    """The chain shows the data of transactions alone. Of votes that do not count nothing is logged."""
    world = make_drawn("votes by a contract are logged whole")
    with world.relays():
        world.all_accept()
    with world.relays(is_all=False):
        world.all_accept()
    return world


@PLAYS.add
def an_opening_by_a_contract_is_logged_whole() -> World:
    """It tells as much as a vote."""
    world = make_drawn("an opening by a contract is logged whole")
    world.votes("ann", ACCEPT, is_opened=False)
    with world.relays():
        world.votes("ann", ACCEPT)
    return world


@PLAYS.add
def what_is_not_taken_is_not_logged() -> World:
    """Else anybody could make nodes read long logs with one vote of its own."""
    world = make_drawn("what is not taken is not logged")
    first, *others = world.list_places(0)
    wrong = [world.make_vote(0, *place, 0, ABSTAIN, signer="zoe") for place in others]
    right = world.make_vote(0, *first, 0, ACCEPT)
    votes = (*wrong[:3], right, *wrong[3:], right)
    with world.relays(3):
        world.send(calls.JudgeVotes(0, votes, (HandedOpening(*first, 0),)), STRANGER)
    return world


@PLAYS.add
def an_account_with_code_is_a_contract() -> World:
    """Delegated code (EIP-7702) may be called by a transaction that its own account sends."""
    world = make_drawn("an account with code is a contract")
    with world.relays(is_coded=True):
        world.all_accept()
    return world


@PLAYS.add
def a_root_comes_with_its_votes() -> World:
    """And with late votes of the round before. Before the first round there is none: what comes with it as
    late is not looked at."""
    world = make_drawn("a root comes with its votes", late_chance=1 << 16)
    world.judges_and_posts(("bob", ACCEPT), merged=ALL)
    world.all_commit()
    world.draws()
    world.judges_and_posts(("bob", ACCEPT), ("cid", REJECT_STATE), merged=ALL)
    return world


@PLAYS.add
def a_root_by_a_contract_logs_its_votes() -> World:
    """Those of the round that it ends."""
    world = make_running("a root by a contract logs its votes")
    world.all_commit()
    world.draws()
    with world.relays():
        world.judges_and_posts(merged=ALL)
    return world
