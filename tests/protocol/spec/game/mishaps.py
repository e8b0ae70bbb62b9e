"""A task of six rounds in which money is lost in each ordinary way, by name.

0  one solver misses the round; nobody audits the claim of another one
1  a claim is false: its auditors reject it
2  a solver serves no auditor
3  a claim is false and is disputed: its solver is convicted. A pest disputes an honest one in vain
4  whistleblowers reject an honest claim late
5  nobody records the randomness of its draw
"""

from collections.abc import Iterator, Mapping

from tests.protocol.spec.game.simulation import KEEPER, Simulation, make_world
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.claim_status import get_claim_status
from touchstone.protocol.spec.game.enums import ClaimStatus, GameOutcome
from touchstone.protocol.spec.game.open_questions import count_open_disputes
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.game.timing import is_late_draw
from touchstone.protocol.spec.statements import VoteWord

ROUNDS = 6
MISSED, REJECTED, UNSERVED, CONVICTED, LATE_REJECTED, UNDRAWN = range(ROUNDS)
FINDER, PEST = "whistle0", "pest"


class MishapSimulation(Simulation):
    """roles: which solver each mishap befalls, by its name."""

    roles: Mapping[str, str] = {
        "missing": "solver3", "unaudited": "solver2", "rejected": "solver1", "unserving": "solver2",
        "convicted": "solver0", "late": "solver3", "honest": "solver1",
    }  # fmt: skip

    def begin(self) -> None:
        self.false_claims = {(self.roles["rejected"], REJECTED), (self.roles["convicted"], CONVICTED)}
        self.plans = [list_disputes]

    def is_served(self, account: str, index: int) -> bool:
        return (account, index) != (self.roles["unserving"], UNSERVED)

    def choose_word(self, key: tuple[int, int, int, int], account: str) -> VoteWord:
        index, slot, draw, _ = key
        is_late = is_late_draw(self.state, draw) and index == LATE_REJECTED
        if is_late and self.claimants[index, slot] == self.roles["late"]:
            return VoteWord.REJECT_STATE
        return self.get_true_word(self.state.rounds[index], slot)

    def list_duties(self) -> Iterator[tuple[str, GameCall]]:
        return (one for one in super().list_duties() if not self.is_left_out(*one))

    def is_left_out(self, sender: str, call: GameCall) -> bool:
        if isinstance(call, calls.CommitRound):
            return (sender, call.round) == (self.roles["missing"], MISSED)
        if isinstance(call, calls.JudgeVotes) and call.round == MISSED:
            slots = {one.slot for one in call.votes} | {one.slot for one in call.openings}
            return self.roles["unaudited"] in {self.claimants[MISSED, slot] for slot in slots}
        return isinstance(call, calls.DrawAudits) and call.round == UNDRAWN


def list_disputes(world: Simulation) -> Iterator[tuple[str, GameCall]]:
    """Of the false claim by a whistleblower, of an honest one by a pest; how they end."""
    assert isinstance(world, MishapSimulation)
    now = world.get_now()
    game_round = now.rounds.get(CONVICTED)
    for slot in game_round.claims if game_round is not None else ():
        account, ref = world.claimants[CONVICTED, slot], StatementRef(CONVICTED, slot)
        opener = {world.roles["convicted"]: FINDER, world.roles["honest"]: PEST}.get(account)
        if opener and is_disputable(world, now, ref, opener):
            bonds = 1 + count_open_disputes(now, now.rounds[CONVICTED].claims[slot].seat)
            yield opener, calls.DisputeStatement(ref, now.terms.amounts.dispute_bond * bonds)
    for number, dispute in now.disputes.items():
        is_false = world.is_statement_false(dispute.statement)
        outcome = GameOutcome.CONVICTED if is_false else GameOutcome.CLEARED
        yield KEEPER, calls.EndDispute(number, outcome=outcome)


def is_disputable(world: Simulation, now: GameState, ref: StatementRef, opener: str) -> bool:
    """Whether it is decided, and was not disputed yet."""
    status = get_claim_status(now, now.rounds[ref.round], ref.slot, world.block)
    done = {
        (sender, call.statement) for _, sender, call in world.acts if isinstance(call, calls.DisputeStatement)
    }
    return status in (ClaimStatus.ACCEPTED, ClaimStatus.VOID) and (opener, ref) not in done


def make_mishaps() -> MishapSimulation:
    """The task before its first block, all members seated."""
    world = make_world(solvers=4, verifiers=7, whistleblowers=4, rounds=ROUNDS, late_chance=1 << 16)
    world.__class__ = MishapSimulation
    assert isinstance(world, MishapSimulation)
    world.begin()
    return world


def play_mishaps() -> MishapSimulation:
    world = make_mishaps()
    world.play()
    assert world.state.is_closed
    return world
