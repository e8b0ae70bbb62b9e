"""The task in which each kind of thing happens (`tests/protocol/spec/game/faulty_simulation.py`) on real
contracts.

The world plays as in memory; each call that passes there goes to machine and contracts side by side, in a
block of its own. Left out: what needs a real merge or a proof (the leaf of a contest, `Evidence`). So the
pest gives its contest up, and nobody answers for the forged root.
"""

from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from tests.protocol.spec.game.faulty_simulation import (
    CHEAT,
    FALSE_ROUND,
    FORGERS,
    PARTIES,
    PEST,
    SOLVERS,
    VERIFIERS,
    WHISTLES,
    FaultySimulation,
    name_act,
)
from tests.protocol.spec.game.simulation import SUBMITTER, get_needed_wei, make_right_root, make_terms
from tests.rounds.answering import AnsweringTwin
from tests.rounds.chain import RoundChain
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall, SignedVote
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.round_machine import apply, fold_all
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import GameRound, GameState, RunningDispute
from touchstone.protocol.spec.game.terms import GameTerms, GameWindows
from touchstone.protocol.spec.statements import VoteWord

WINDOWS = GameWindows(
    delay=1, draw_grid=2, train_min=85, train_max=120, audit_max=60, post=20, respond=30, dispute=400,
    query=1_200,
)  # fmt: skip
"""Each call takes a block here."""
NOT_ON_CHAIN = (calls.CommitProof, calls.ConvictSeat, calls.BringLeaf)


@dataclass(frozen=True)
class SilentAct:
    """A party that leaves out its count-th act, or all from there on."""

    party: str
    count: int
    is_for_good: bool


@dataclass
class ChainSimulation(FaultySimulation):
    """twin: the same task with accounts of the chain, beside the contracts."""

    twin: AnsweringTwin = field(kw_only=True)
    silent: SilentAct | None = field(default=None, kw_only=True)

    # Calls
    def send(self, call: GameCall, sender: str, is_funded: bool = True) -> None:
        needed = get_needed_wei(call) if is_funded else 0
        self.twin.chain.mine_to(self.block - 1)
        self._require_passing(call, sender, needed)
        for one in ((calls.Deposit(needed),) if needed else ()) + (call,):
            self._send_one(one, sender)
        for dispute in list(self.state.disputes.values()):
            self._defend(dispute)

    def _require_passing(self, call: GameCall, sender: str, needed: int) -> None:
        """Refused by the machine: no call is made."""
        state = self.state
        if needed:
            logged = apply(state, calls.Deposit(needed), sender, self.block)
            state = fold_all(state, logged, self.block)
        apply(state, self._prepare(call, sender), sender, self.block)

    def _send_one(self, call: GameCall, sender: str) -> None:
        prepared = self._prepare(call, sender)
        if not apply(self.state, prepared, sender, self.block):
            return
        refused = self.twin.do(self._translate(prepared), sender)
        if refused is not None:
            raise GameRefusal(name="NotLate" if refused == "early" else refused)
        super().send(prepared, sender, is_funded=False)
        assert _list_unnamed(self.twin.state) == _list_unnamed(self.state), call
        self.block = self.twin.get_block()

    def _prepare(self, call: GameCall, sender: str) -> GameCall:
        """With what the chain will find, and the words that stand on it."""
        if isinstance(call, calls.CommitRound):
            claim = self.twin.make_claim(call.round, self.twin.parties[sender].address)
            call = replace(call, claim_root=claim.root)
        if isinstance(call, calls.PostRoot):
            call = replace(call, root=self.twin.make_root(call.root))
        return self.twin.prepare(call, self.block, sender)

    def _translate(self, call: GameCall) -> GameCall:
        """Accounts in place of names."""
        if not isinstance(call, calls.JudgeVotes):
            return call
        votes = [replace(one, signer=self._address(one)) for one in call.votes]
        return replace(call, votes=tuple(votes))

    def _address(self, vote: SignedVote) -> str:
        return self.twin.parties[vote.signer].address

    def _defend(self, dispute: RunningDispute) -> None:
        """Who said the truth answers, where it is awake."""
        account, act = self.accounts[dispute.seat], ("defended", dispute.number)
        is_true = not self.is_statement_false(dispute.statement)
        if is_true and (account, act) not in self.done and self.is_doing(account, "defend", dispute.number):
            self.done.append((account, act))
            self.twin.defend(dispute)
            self.block = self.twin.get_block()

    # What is true
    def is_right(self, index: int) -> bool:
        game_round = self.state.rounds[index]
        return game_round.root == self.twin.make_root(make_right_root(game_round, game_round.merged))

    def _leave_out(self, sender: str, call: GameCall) -> GameCall | None:
        is_pests = isinstance(call, calls.NameChild) and sender == PEST
        is_forgers = isinstance(call, calls.AnswerContest) and sender in FORGERS
        if is_pests or is_forgers or isinstance(call, NOT_ON_CHAIN) or self._is_lie(call):
            return None
        return super()._leave_out(sender, call)

    def _is_lie(self, call: GameCall) -> bool:
        """Whether a liar is asked: there is no state behind its word that it could show."""
        ask = self.state.queries.get(call.query) if isinstance(call, calls.AnswerQuery) else None
        return ask is not None and ask.word != VoteWord.ACCEPT

    # Silence
    def _play_call(self, sender: str, call: GameCall) -> None:
        one = self.silent
        if one is not None and sender == one.party and self._count_acts(sender) == one.count:
            if one.is_for_good:
                self.silenced = {sender: self.block}
            else:
                self.left_out.add((sender, name_act(self, call)))
            self.silent = None
            return
        if not self.is_silent(sender):
            super()._play_call(sender, call)

    def _count_acts(self, party: str) -> int:
        return sum(sender == party for _, sender, _ in self.acts)


Kind = TypeVar("Kind", bound=ChainSimulation)


def _list_unnamed(state: GameState) -> list[GameRound]:
    """The rounds without the solvers' accounts, which have names in the world and addresses on the chain."""
    rounds = []
    for one in state.rounds.values():
        claims = {slot: replace(claim, account="") for slot, claim in one.claims.items()}
        rounds.append(replace(one, claims=claims))
    return rounds


def open_faulty(chain: RoundChain, salt: int, silent: SilentAct | None = None) -> ChainSimulation:
    """The task, posted, its members seated."""
    world = open_world(chain, salt, ChainSimulation, 9)
    world.false_claims = {(CHEAT, FALSE_ROUND)}
    world.silent = silent
    return world


def open_world(chain: RoundChain, salt: int, kind: type[Kind], rounds: int) -> Kind:
    """A task of so many rounds, posted, its members seated."""
    terms: GameTerms = make_terms(
        rounds=rounds, solver_seats=6, late_chance=1 << 16, windows=WINDOWS, contest_levels=1,
        domain=bytes([180 + salt]) * 32,
    )  # fmt: skip
    others = tuple(party for party in PARTIES if party != SUBMITTER)
    twin = AnsweringTwin(chain, terms, others)
    state = replace(twin.state, terms=replace(twin.state.terms, submitter=SUBMITTER))
    world = kind(state, block=twin.get_block(), twin=twin)
    for role, members in zip(SeatRole, (SOLVERS, VERIFIERS, WHISTLES), strict=True):
        amounts = terms.amounts
        stake = amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake
        for member in members:
            world.send(calls.JoinSeat(role, stake), member)
    return world


def choose_silences(world: ChainSimulation, seed: int, count: int) -> list[SilentAct]:
    """Points of a play that nobody's silence disturbed."""
    dice = Random(seed)
    acts = [(sender, act) for sender, act in world.done if act[0] != "defended"]
    chosen = []
    for _ in range(count):
        place = dice.randrange(len(acts))
        party = acts[place][0]
        number = sum(sender == party for sender, _ in acts[:place])
        chosen.append(SilentAct(party, number, dice.random() < 0.5))
    return chosen
