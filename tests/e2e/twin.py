"""Plays the shared sequences of rounds (tests/vectors/round.json) against the contracts on a chain.

After each block three answers are laid side by side: the vector's, the contracts', and that of the Python
machine that was fed with nothing but the chain's logs. They must be the same: refusals, events, statuses and
money.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import Any

from eth_account import Account

from protocol.spec import calls, game_events
from protocol.spec.calls import Call
from protocol.spec.clock import NEVER
from protocol.spec.containers import TaskTerms
from protocol.spec.drawn import get_auditor, get_drawn
from protocol.spec.economics import compute_escrow_wei
from protocol.spec.events import ClaimJudged, Event, RoundStarted
from protocol.spec.guards import Refusal, check_call, get_status, has_poster, is_merged
from protocol.spec.hashing import sha256_of
from protocol.spec.round import (
    RoundState,
    get_audit,
    get_audit_ref,
    get_claim,
    get_slot,
    process_event,
    start_round,
)
from protocol.spec.settlement import REVEALED_STATUSES, settle
from protocol.spec.statuses import AuditStatus, ClaimStatus, RoundStatus
from protocol.spec.verdict import Penalty, PenaltyKind, Verdict, judge
from tests.e2e.twin_calls import CallMaker
from tests.e2e.twin_chain import Outcome, Sending, TwinChain
from tests.e2e.twin_world import make_twin_terms

Script = Mapping[str, Any]
"""One script of round.json or dispute.json."""
Step = Mapping[str, Any]
"""One step of a script."""
WEALTH_WEI = 10**24
"""of everybody: enough for any script."""
STAKE_WEI = WEALTH_WEI // 2
SEATS = ("solver", "verifier", "whistleblower")
CROWD = {"solver": 4, "verifier": 8, "whistleblower": 2}
BOUND_AUDITS = REVEALED_STATUSES | {AuditStatus.COMMITTED}
"""Their stake is exposed until the claim is settled."""


def make_key(name: str) -> bytes:
    """The private key behind a name, for whom it is to sign by itself."""
    return sha256_of(name.encode())


@cache
def make_account(name: str) -> str:
    """The address behind a name."""
    return str(Account.from_key(make_key(name)).address).lower()


SUBMITTER = make_account("submitter")
OTHERS = ("keeper", "outsider", "opener", "other")
STAKED = [make_account(f"{seat}:{i}") for seat in SEATS for i in range(CROWD[seat])]
STAKED += [make_account(name) for name in OTHERS]


def prepare(chain: TwinChain) -> None:
    """Money for everybody, and a stake for all but the submitter."""
    chain.fund([SUBMITTER, *STAKED], WEALTH_WEI)
    deposits = [Sending(one, "StakeVault", "deposit", (STAKE_WEI,)) for one in STAKED]
    assert not any(one.error for one in chain.mine(deposits))


@dataclass
class Books:
    """What settlement.py and verdict.py say that everybody has, in wei."""

    terms: TaskTerms
    lost: Counter[str] = field(default_factory=Counter)
    credits: Counter[str] = field(default_factory=Counter)
    paid: int = 0
    burned: int = 0

    def book_penalty(self, penalty: Penalty) -> None:
        """F, or the audit's exposure, a part of which is the submitter's."""
        amounts = self.terms.amounts
        if penalty.kind == PenaltyKind.FEE:
            self.lost[penalty.account] += amounts.no_show_fee
            return
        self.lost[penalty.account] += amounts.audit_stake
        self.credits[SUBMITTER] += min(amounts.audit_pay, amounts.audit_stake // 4)

    def move(self, loser: str, winner: str, lost_wei: int, won_wei: int) -> None:
        """Stake of one that becomes credit of another, as far as it is not burned."""
        self.lost[loser] += lost_wei
        self.credits[winner] += won_wei

    def book_pay(self, account: str, amount_wei: int) -> None:
        """Escrow to credit."""
        self.credits[account] += amount_wei
        self.paid += amount_wei


class RoundTwin:
    """One script on one chain. `state` is folded from the chain's logs alone."""

    def __init__(self, chain: TwinChain, script: Script, rounds: int = 2) -> None:
        """rounds: of the task; a script plays the first."""
        self.chain, self.script = chain, script
        salt = sha256_of(script["name"].encode())
        self.terms = replace(make_twin_terms(SUBMITTER, rounds), salt=salt)
        self.books = Books(self.terms)
        self.state = self._create_task()

    def _create_task(self) -> RoundState:
        create = Sending(SUBMITTER, "TaskRegistry", "createTask", (self.terms, b"training"))
        (outcome,) = self.chain.mine([create])
        assert outcome.error is None, outcome
        started = next(event for event in outcome.events if isinstance(event, RoundStarted))
        return start_round(self.terms, self.chain.read("TaskRegistry", "domainOf", started.task), started)

    # Playing ------------------------------------------------------------------------------------------------
    def play(self) -> None:
        """All steps, then the script's end."""
        self.play_steps()
        self.check_end()

    def play_steps(self) -> None:
        """All steps, block by block."""
        for offset, steps in groupby(self.script["steps"], key=lambda step: int(step["block"])):
            self.play_block(self.state.start_block + offset, list(steps))

    def play_block(self, block: int, steps: Sequence[Step]) -> None:
        """Steps of one block, mined together and then compared one by one."""
        self.chain.mine_to(block - 1)
        made = [self.make(step) for step in steps]
        outcomes = self.chain.mine([sending for _, sending in made])
        for step, (call, sending), outcome in zip(steps, made, outcomes, strict=True):
            self.compare_step(step, call, sending.sender, block, outcome)
        self.compare_statuses(block)

    def make(self, step: Step) -> tuple[Call, Sending]:
        """The call of a step and its transaction."""
        maker = self.open_maker(self.account_of(step["sender"]))
        call = maker.make_call(step)
        return call, maker.make_sending(call)

    def open_maker(self, sender: str) -> CallMaker:
        """Makes calls of `sender` for the next block."""
        results, chain = self.script["results"], self.chain
        return CallMaker(self.state, sender, results, chain.head + 1, chain.read_header)

    def account_of(self, name: str) -> str:
        """Who a sender of the script is in this round."""
        if not name.startswith("auditor:"):
            return make_account(name)
        account = get_auditor(self.state, _to_key(name.removeprefix("auditor:")))
        assert account is not None, f"{name} was not drawn"
        return account

    def segment_of(self, slot: int, draw: int) -> int:
        """The segment that a draw gave."""
        drawn = get_drawn(self.state, slot, draw)
        assert drawn is not None, (slot, draw)
        return drawn.segment

    # Comparing ----------------------------------------------------------------------------------------------
    def compare_step(self, step: Step, call: Call, sender: str, block: int, outcome: Outcome) -> None:
        """One transaction: its refusal, or its events and the money it moved; then the logs are folded in."""
        where = ", ".join(str(step[name]) for name in ("block", "sender", "call", "args"))
        refusal = check_call(self.state, call, sender, block)
        compare_refusals(step["error"], refusal, outcome, where)
        if refusal:
            return
        ours = [event for event in outcome.events if _is_of_round(event)]
        assert sorted(type(event).__name__ for event in ours) == sorted(step["events"]), where
        judged = [(e.status, e.reason) for e in ours if isinstance(e, ClaimJudged)]
        assert judged == self.expect_verdicts(call, block), where
        self.compare_money(step, call, block, outcome, where)
        for event in outcome.events:
            self.state = process_event(self.state, event)

    def compare_money(self, step: Step, call: Call, block: int, outcome: Outcome, where: str) -> None:
        """Penalties by the vector, by verdict.py and settlement.py, and in the vault; then the pay."""
        expected, pays = self.expect_money(call, block)
        found = [one for event in outcome.events for one in _to_penalty(event)]
        assert Counter(found) == Counter(expected), where
        self.compare_penalties(step, found, where)
        paid = [(e.account, e.amount_wei) for e in outcome.events if isinstance(e, game_events.Paid)]
        assert Counter(paid) == Counter(pays), where
        burned = sum(e.amount_wei for e in outcome.events if isinstance(e, game_events.EscrowBurned))
        assert burned == self.expect_burned_pay(call, block), where
        self.books.burned += burned
        for penalty in expected:
            self.books.book_penalty(penalty)
        for account, amount_wei in pays:
            self.books.book_pay(account, amount_wei)

    def compare_penalties(self, step: Step, found: Sequence[Penalty], where: str) -> None:
        """Whom the vector names; whoever audits two claims has two names, so there the kinds must do."""
        kinds = Counter(PenaltyKind[kind] for _, kind in step["penalties"])
        assert kinds == Counter(one.kind for one in found), where
        if self.script["cast"]["solvers"] == 1:
            named = Counter((self.account_of(name), PenaltyKind[kind]) for name, kind in step["penalties"])
            assert named == Counter((one.account, one.kind) for one in found), where

    def expect_verdicts(self, call: Call, block: int) -> list[tuple[ClaimStatus, bytes]]:
        """What the Python twin says a call makes of a claim, stage by stage, and why."""
        verdicts: tuple[Verdict, ...] = ()
        if isinstance(call, calls.Judge):
            verdicts = judge(self.state, call.slot, block)
        elif isinstance(call, calls.SettleClaim):
            verdicts = settle(self.state, call.slot, block).verdicts
        return [(one.status, one.reason) for one in verdicts]

    def expect_money(self, call: Call, block: int) -> tuple[list[Penalty], list[tuple[str, int]]]:
        """What the Python twin says a call costs whom and pays whom."""
        amounts = self.terms.amounts
        if isinstance(call, calls.Judge):
            return [one for verdict in judge(self.state, call.slot, block) for one in verdict.penalties], []
        if isinstance(call, calls.SettleMerge) and self.state.outer is not None:
            return [], [(self.state.outer.poster, amounts.merge_pay)]
        if not isinstance(call, calls.SettleClaim):
            return [], []
        done = settle(self.state, call.slot, block)
        lost = [one for verdict in done.verdicts for one in verdict.penalties]
        pays = [(account, self.pay_of(account)) for account in done.paid_auditors]
        if done.is_solver_paid:
            pays.append((self.state.solvers[call.slot], amounts.solver_pay))
        if done.silence_pay_wei:
            pays.append((self.state.solvers[call.slot], done.silence_pay_wei))
        return [*lost, *done.penalties], pays

    def expect_burned_pay(self, call: Call, block: int) -> int:
        """What the Python twin says a settlement burns of the escrow, in wei."""
        if not isinstance(call, calls.SettleClaim):
            return 0
        return settle(self.state, call.slot, block).burned_pay_wei

    def pay_of(self, auditor: str) -> int:
        """What an auditor gets for an audit."""
        is_late = auditor in self.state.whistleblowers
        return self.terms.amounts.late_pay if is_late else self.terms.amounts.audit_pay

    def compare_statuses(self, block: int) -> None:
        """The contracts' statuses of the round, its claims and audits beside those of the folded state."""
        expected = dict(self.list_statuses(block))
        found = self.chain.read_all(list(expected))
        answers = {question: _status_of(answer) for question, answer in zip(expected, found, strict=True)}
        assert answers == expected, block

    def list_statuses(self, block: int) -> Iterator[tuple[tuple[str, str, tuple[Any, ...]], Any]]:
        """Every question about a status, with the folded state's answer."""
        state, place = self.state, (self.state.task, self.state.index)
        yield ("TaskRegistry", "roundOf", place), _rank_of(get_status(state, block))
        if state.outer is not None:
            yield ("RoundLedger", "isMerged", place), is_merged(state, block)
        for slot in range(len(state.solvers)):
            yield ("RoundLedger", "claimOf", (*place, slot)), get_claim(state, slot).status
        for key in list(state.audits):
            yield ("AuditBook", "statusOf", (get_audit_ref(state, *key),)), get_audit(state, key).status
        if state.outer is not None:
            roots = (state.outer.poster, state.outer.weights_root, state.outer.momentum_root)
            yield ("RoundLedger", "outerOf", place), roots

    # The end ------------------------------------------------------------------------------------------------
    def check_end(self) -> None:
        """What the round came to, by the vector; and everybody's money to the last wei."""
        state, script = self.state, self.script
        outer = "none" if state.outer is None else "posted" if has_poster(state) else "empty"
        assert outer == script["outer"]
        assert {str(slot): one.status.name for slot, one in state.claims.items()} == script["claims"]
        assert {_to_name(key): one.status.name for key, one in state.audits.items()} == script["audits"]
        assert sorted(state.settled_slots) == script["settledSlots"]
        self.check_money({})

    def check_money(self, bonds: Mapping[str, int]) -> None:
        """Stakes, locks and credits beside the books. bonds: locked for other reasons than the round's."""
        accounts, vault, books = [SUBMITTER, *STAKED], "StakeVault", self.books
        found = {
            name: dict(
                zip(accounts, self.chain.read_all([(vault, name, (one,)) for one in accounts]), strict=True)
            )
            for name in ("stakeOf", "creditOf", "lockedOf")
        }
        assert found["creditOf"] == {one: books.credits[one] for one in accounts}
        staked = {one: STAKE_WEI - books.lost[one] for one in STAKED}
        assert found["stakeOf"] == {SUBMITTER: 0, **staked}
        locked = {one: self.compute_locked(one) + bonds.get(one, 0) for one in STAKED}
        assert found["lockedOf"] == {SUBMITTER: 0, **locked}
        paid = self.chain.read("StakeVault", "escrowOf", self.state.task)
        assert paid == compute_escrow_wei(self.terms) - books.paid - books.burned

    def compute_locked(self, account: str) -> int:
        """What the round still holds of an account that paid no fee, in wei; nothing once all is settled."""
        state, amounts = self.state, self.terms.amounts
        is_poster = state.outer is not None and state.outer.poster == account
        locked = amounts.merge_bond if is_poster and not state.is_merge_settled else 0
        if account in (*state.verifiers, *state.whistleblowers) and account not in state.settled_accounts:
            locked += amounts.enrol_stake
        slot = get_slot(state, account)
        if slot is not None and slot not in state.settled_slots:
            locked += amounts.solver_stake if get_claim(state, slot).status != ClaimStatus.CONVICTED else 0
        audits = [one for (slot, _, _), one in state.audits.items() if slot not in state.settled_slots]
        bound = [one for one in audits if one.auditor == account and one.status in BOUND_AUDITS]
        return locked + amounts.audit_stake * len(bound)


def compare_refusals(vector: str | None, python: Refusal, chain: Outcome, where: str) -> None:
    """The refusal's name by all three, and those of its values that the Python guard knows."""
    names = {"vector": vector, "python": python.name if python else None, "chain": chain.error}
    assert len(set(names.values())) == 1, (where, names, chain.values)
    shared = {name: value for name, value in python.values.items() if name in chain.values} if python else {}
    assert _plain(shared) == _plain({name: chain.values[name] for name in shared}), (where, chain.error)


def _to_key(name: str) -> tuple[int, int, int]:
    slot, draw, rank = map(int, name.split("."))
    return slot, draw, rank


def _to_name(key: tuple[int, int, int]) -> str:
    return ".".join(map(str, key))


def _is_of_round(event: Event) -> bool:
    return type(event).__module__ == RoundStarted.__module__


def _to_penalty(event: Event) -> Iterator[Penalty]:
    if isinstance(event, game_events.FeeBurned):
        yield Penalty(event.account, PenaltyKind.FEE, event.reason)
    elif isinstance(event, game_events.Slashed):
        yield Penalty(event.account, PenaltyKind.STAKE, event.reason)


def _status_of(answer: Any) -> Any:
    """The part of a view's answer that is compared."""
    if not isinstance(answer, list):
        return answer
    first, second, *_ = answer
    if isinstance(first, RoundStatus):
        return _rank_of(first)
    return second if isinstance(second, ClaimStatus) else tuple(answer[:3])


def _rank_of(status: RoundStatus) -> RoundStatus:
    """The registry says MERGED once the next round starts, the machine when the outer root is posted; whether
    it stands is asked for by itself (isMerged)."""
    return RoundStatus.TRAINING if status == RoundStatus.MERGED else status


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Addresses in lower case; whatever never happens as the twin's NEVER."""
    cut = {name: min(value, NEVER) if isinstance(value, int) else value for name, value in values.items()}
    return {name: value.lower() if isinstance(value, str) else value for name, value in cut.items()}
