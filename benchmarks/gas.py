"""What does a round cost on the chain, and does a solver pay more where there are many?

Whole transactions on a real Anvil, base and calldata included: honest rounds of 10, 100 and 1,000 solvers
with as many verifiers, two drawn segments a claim, everybody's transactions from enrolment to settlement; and
the moves of one dispute. States are made up, but all roots, paths, salts and commitments are real, and every
replay agrees. A round takes 64 solvers at most (docs/spec.md, section 5): more are dealt to several tasks of
equal size. Writes build/gas/report.json.
"""

import argparse
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.setting import write_report
from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.containers import TaskTerms
from protocol.spec.dispute_moves import compute_opening_seal
from protocol.spec.drawn import compute_draws, compute_late_draws
from protocol.spec.events import RoundStarted
from protocol.spec.hashing import sha256_of
from protocol.spec.keeping import get_claim_page
from protocol.spec.params import LATE_RATE_ONE, MAX_SHARDS
from protocol.spec.round import (
    RoundState,
    get_audit_ref,
    get_included,
    get_settle_block,
    process_event,
    start_round,
)
from protocol.spec.schedule import compute_schedule_levels
from protocol.spec.statuses import ClaimRef, ClaimStatus, Role
from tests.e2e.twin import STAKE_WEI, SUBMITTER, WEALTH_WEI, make_account
from tests.e2e.twin_calls import CallMaker
from tests.e2e.twin_chain import Sending, TwinChain, open_twin_chain
from tests.e2e.twin_step import PROGRAM, DealtData, StepTrace, make_facts, prove_node
from tests.e2e.twin_world import (
    LEARNING_RATE_SUM,
    TENSORS,
    Claims,
    make_tensor,
    make_twin_terms,
    state_after,
)

SIZES, QUICK_SIZES = (10, 100, 1000), (10,)
SEGMENTS, SEGMENT_STEPS, DRAWS = 16, 10, 2
BLOCK_TRANSACTIONS = 40
"""Anvil keeps their order in a block, for no more than some seventy."""
TARGETS = {
    "commit": 90_000,
    "challenge": 120_000,
    "respond": 70_000,
    "settle": 110_000,
    "solver_round": 800_000,
}
Thing = TypeVar("Thing")


class Joined(Enum):
    """How a transaction lists several calls: audits by name, draws in order, slots as a page."""

    AUDITS = "audits"
    DRAWS = "draws"
    SLOTS = "slots"


TOGETHER = {
    calls.OpenStart: (Joined.DRAWS, "AuditBook", "openStarts"),
    calls.CommitReplay: (Joined.AUDITS, "AuditBook", "commitReplays"),
    calls.OpenEnd: (Joined.DRAWS, "AuditBook", "openEnds"),
    calls.Reveal: (Joined.AUDITS, "AuditBook", "reveals"),
    calls.Judge: (Joined.SLOTS, "RoundLedger", "judgeClaims"),
    calls.SettleClaim: (Joined.SLOTS, "RoundLedger", "settleClaims"),
}
DISPUTED_STEP = 1
"""of segment 0."""


def make_terms(salt: str, solvers: int, late_rate: int) -> TaskTerms:
    """A task of 16 segments of ten steps, two of them drawn, with room for these solvers."""
    terms = replace(
        make_twin_terms(SUBMITTER),
        salt=sha256_of(salt.encode()),
        inner_steps=SEGMENTS * SEGMENT_STEPS,
        segment_steps=SEGMENT_STEPS,
        segment_draws=DRAWS,
        max_solvers=solvers,
        max_verifiers=max(solvers, 3),
        late_rate=late_rate,
    )
    sums = [LEARNING_RATE_SUM] * (terms.rounds * terms.segment_count)
    return replace(terms, schedule_root=compute_schedule_levels(sums)[-1][0])


@dataclass
class GasRound:
    """One honest round of one task. gas: of every transaction, by function; `state` is folded from logs."""

    chain: TwinChain
    terms: TaskTerms
    solvers: Sequence[str]
    verifiers: Sequence[str]
    whistleblowers: Sequence[str] = ()
    gas: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    state: RoundState = field(init=False)

    def __post_init__(self) -> None:
        (outcome,) = self.chain.mine(
            [Sending(SUBMITTER, "TaskRegistry", "createTask", (self.terms, b"training"))]
        )
        started = next(event for event in outcome.events if isinstance(event, RoundStarted))
        domain = self.chain.read("TaskRegistry", "domainOf", started.task)
        self.state = start_round(self.terms, domain, started)

    # Sending ------------------------------------------------------------------------------------------------
    def send(self, sendings: Iterable[Sending]) -> None:
        """All in the next blocks; none may be refused."""
        for sent in batched(sendings):
            for sending, outcome in zip(sent, self.chain.mine(sent), strict=True):
                if outcome.error is not None:
                    raise RuntimeError(f"{sending.function}: expected to be accepted, got {outcome.error}")
                self.gas[sending.function].append(outcome.gas)
                for event in outcome.events:
                    self.state = process_event(self.state, event)

    def call(self, *made: tuple[str, Call]) -> None:
        """Calls of the round, each by its sender, in the next blocks."""
        self.send(self.make_maker(sender).make_sending(call) for sender, call in made)

    def make_maker(self, sender: str) -> CallMaker:
        """Makes the calls of one account for the next block."""
        return CallMaker(self.state, sender, {}, self.chain.head + 1, self.chain.read_header)

    def call_together(self, made: Mapping[str, Sequence[Call]]) -> None:
        """Calls of one kind, all of one sender's in one transaction."""
        self.send(self.join(sender, same) for sender, same in made.items() if same)

    def join(self, sender: str, same: Sequence[Call]) -> Sending:
        """The transaction that makes all of these calls."""
        maker = self.make_maker(sender)
        columns = list(zip(*(maker.make_sending(call).arguments for call in same), strict=True))
        place, (kind, contract, function) = (self.state.task, 0), TOGETHER[type(same[0])]
        if kind is Joined.AUDITS:
            arguments: tuple[Any, ...] = tuple(columns)
        elif kind is Joined.DRAWS:
            # Each has task, round, draw, its proof and maybe the last state, which is the same for all.
            arguments = (*place, columns[3], *(column[0] for column in columns[4:]))
        else:
            arguments = (*place, columns[2][0], columns[2][-1] + 1)
        return Sending(sender, contract, function, arguments)

    def wait(self, opens: int) -> None:
        """Until the next block is block `opens`."""
        self.chain.mine_to(max(opens - 1, self.chain.head))

    # The round ----------------------------------------------------------------------------------------------
    def play(self) -> None:
        """From enrolment to settlement."""
        self.play_to_reveals()
        self.judge_and_merge()
        if self.whistleblowers:
            self.audit_late()
        self.settle()

    def play_to_reveals(self) -> None:
        """Until the primaries have revealed."""
        deadlines = self.state.deadlines
        seats = {
            Role.SOLVER: self.solvers,
            Role.VERIFIER: self.verifiers,
            Role.WHISTLEBLOWER: self.whistleblowers,
        }
        self.call(*((one, calls.Enrol(0, role)) for role, ones in seats.items() for one in ones))
        self.wait(deadlines.beacon_block + 1)
        self.call((SUBMITTER, calls.SealBeacon(0)))
        self.call(*((one, calls.CommitClaim(0)) for one in self.solvers))
        self.wait(deadlines.draw_block + 1)
        self.call((SUBMITTER, calls.SealDraw(0)))
        self.audit(deadlines.replay_end, compute_draws(self.state))

    def call_each(self, made: Mapping[str, Sequence[Call]]) -> None:
        """A transaction for each call."""
        self.call(*((sender, call) for sender, same in made.items() for call in same))

    def audit(self, replay_end: int, drawn: Mapping[tuple[int, int], Any]) -> None:
        """Starts, blind commitments, ends and reveals of all these draws."""
        places = sorted(drawn)
        last = self.terms.segment_count
        starts, commitments, ends, reveals = (defaultdict(list) for _ in range(4))
        for slot, draw in places:
            one, ref = drawn[slot, draw], get_audit_ref(self.state, slot, draw, 0)
            starts[self.solvers[slot]].append(calls.OpenStart(0, draw, one.segment))
            commitments[one.primary].append(calls.CommitReplay(0, ref, one.segment))
            ends[self.solvers[slot]].append(calls.OpenEnd(0, draw, one.segment + 1, last))
            reveals[one.primary].append(calls.Reveal(0, ref))
        is_late = places[0][1] == DRAWS
        send_draws = self.call_each if is_late else self.call_together
        send_draws(starts)
        self.call_together(commitments)
        self.wait(replay_end)
        send_draws(ends)
        self.call_together(reveals)

    def judge_and_merge(self) -> None:
        """Verdicts, the outer root, the next round."""
        self.wait(self.state.deadlines.show_end)
        self.send(self.join(SUBMITTER, page) for page in self.list_pages(calls.Judge))
        accepted = [one.status for one in self.state.claims.values()]
        if accepted != [ClaimStatus.ACCEPTED] * len(self.solvers):
            raise RuntimeError(f"expected all claims to be accepted, got {accepted}")
        self.call((self.solvers[0], calls.PostOuter(0, get_included(self.state))))

    def audit_late(self) -> None:
        """One late audit of every claim."""
        merged = self.state.posted_block
        assert merged is not None
        self.wait(merged + self.terms.windows.delay + 1)
        self.call((SUBMITTER, calls.SealLate(0)))
        windows = self.terms.windows
        end = merged + windows.seal + windows.start + windows.replay
        self.audit(end, compute_late_draws(self.state))

    def settle(self) -> None:
        """The poster's, the next round, all claims, all enrolments."""
        assert self.state.ready_block is not None
        self.wait(self.state.ready_block)
        self.call((SUBMITTER, calls.SettleMerge(0)))
        self.call((SUBMITTER, calls.Advance(0)))
        self.wait(get_settle_block(self.state, self.chain.head))
        self.send(self.join(SUBMITTER, page) for page in self.list_pages(calls.SettleClaim))
        seats = len(self.verifiers) + len(self.whistleblowers)
        self.call((SUBMITTER, calls.SettleEnrolments(0, 0, seats)))
        left = [one for one in self.accounts if self.chain.read("StakeVault", "lockedOf", one)]
        if left:
            raise RuntimeError(f"expected nothing to stay locked, got {len(left)} accounts with a lock")

    def list_pages(self, kind: type[calls.Judge | calls.SettleClaim]) -> list[list[Call]]:
        """What the nodes judge or settle in one transaction."""
        pages = groupby(range(len(self.solvers)), lambda slot: get_claim_page(self.state, slot))
        return [[kind(0, slot) for slot in page] for _, page in pages]

    @property
    def accounts(self) -> list[str]:
        """Everybody who enrols."""
        return [*self.solvers, *self.verifiers, *self.whistleblowers]

    @property
    def total(self) -> int:
        """Gas of all transactions so far."""
        return sum(map(sum, self.gas.values()))


def deal_solvers(count: int) -> list[int]:
    """Solvers of each task: as few tasks as there may be, of equal size."""
    tasks = -(-count // MAX_SHARDS)
    return [count // tasks + (index < count % tasks) for index in range(tasks)]


def open_rounds(chain: TwinChain, count: int, late: bool = False) -> Iterable[GasRound]:
    """The rounds of `count` solvers, one after the other, everybody funded."""
    for number, solvers in enumerate(deal_solvers(count)):
        name = f"{count}.{number}.{late}"
        names = {"solver": solvers, "verifier": max(solvers, 3), "whistleblower": 2 * late}
        seats = [[make_account(f"{name} {seat} {i}") for i in range(many)] for seat, many in names.items()]
        prepare(chain, [one for seat in seats for one in seat])
        terms = make_terms(name, solvers, LATE_RATE_ONE if late else 0)
        yield GasRound(chain, terms, seats[0], seats[1], seats[2])


def prepare(chain: TwinChain, accounts: Sequence[str]) -> None:
    """Money and a stake for everybody."""
    for some in batched(accounts):
        chain.fund(some[: len(some) // 2], WEALTH_WEI)
        chain.fund(some[len(some) // 2 :], WEALTH_WEI)
        outcomes = chain.mine([Sending(one, "StakeVault", "deposit", (STAKE_WEI,)) for one in some])
        assert not any(one.error for one in outcomes)


def batched(things: Iterable[Thing]) -> Iterator[list[Thing]]:
    """What goes into one block after the other."""
    left = iter(things)
    while batch := list(islice(left, BLOCK_TRANSACTIONS)):
        yield batch


# --- A dispute ----------------------------------------------------------------------------------------------
def play_dispute(chain: TwinChain) -> dict[str, int]:
    """Gas of the moves of one dispute about a solver's claim, the last of them a demanded leaf's answer."""
    (one,) = open_rounds(chain, 1)
    opener, claimant = make_account("gas opener"), one.solvers[0]
    prepare(chain, [opener])
    one.play_to_reveals()
    one.gas.clear()
    claim = ClaimRef(get_audit_ref(one.state, 0, 0, 0), 0, True)
    salt = sha256_of(b"gas")
    dispute = compute_opening_seal(claim, opener, salt)

    def move(sender: str, function: str, *arguments: Any) -> None:
        one.send([Sending(sender, "DisputeGame", function, arguments)])

    roots = [state_after(0, step).root for step in range(SEGMENT_STEPS + 1)]
    ends = [Claims(one.state).prove_boundary(0, boundary) for boundary in range(2)]
    trace = make_trace(one.state)
    move(opener, "sealOpening", dispute)
    move(opener, "openDispute", claim, salt)
    move(claimant, "postStepRoots", dispute, roots, ends)
    move(opener, "nameStep", dispute, DISPUTED_STEP, roots)
    move(
        claimant,
        "postTrace",
        dispute,
        make_facts(),
        trace.root,
        trace.start,
        trace.end,
        trace.prove_outputs(),
    )
    node = len(PROGRAM.nodes) - 1
    move(opener, "demandLeaf", dispute, make_facts(), prove_node(node), 0, 0)
    move(claimant, "answerDemand", dispute, 0, trace.start, trace.open_place(node, 0, 0))
    return {function: gas[0] for function, gas in one.gas.items()}


def make_trace(state: RoundState) -> StepTrace:
    """The trace of the disputed step."""
    start, end = state_after(0, DISPUTED_STEP), state_after(0, DISPUTED_STEP + 1)
    outputs = PROGRAM.outputs
    tensors = {number: make_tensor(start[number])[0] for number in range(TENSORS)}
    for number, buffer in enumerate((outputs.weights, outputs.first_moment, outputs.second_moment)):
        tensors[buffer] = make_tensor(end[number])[0]
    return StepTrace(DealtData(state, DISPUTED_STEP), start.header, end.header, tensors)


# --- The report ---------------------------------------------------------------------------------------------
def measure_rounds(chain: TwinChain, count: int, late: bool = False) -> dict[str, Any]:
    """Gas for each solver of `count`, and of each function: how often for each solver, median and largest."""
    gas: dict[str, list[int]] = defaultdict(list)
    for one in open_rounds(chain, count, late):
        one.play()
        for function, used in one.gas.items():
            gas[function] += used
    functions = {
        function: {
            "for_each_solver": round(len(used) / count, 2),
            "median": int(statistics.median(used)),
            "largest": max(used),
            "gas_for_each_solver": round(sum(used) / count),
        }
        for function, used in gas.items()
    }
    return {"gas": round(sum(map(sum, gas.values())) / count), "functions": functions}


def main() -> None:
    """All sizes; `--quick` the smallest."""
    parser = argparse.ArgumentParser(description="What does a round cost on the chain?")
    parser.add_argument("--quick", action="store_true", help="ten solvers, a few seconds")
    sizes = QUICK_SIZES if parser.parse_args().quick else SIZES
    with tempfile.TemporaryDirectory() as folder, open_twin_chain(Path(folder)) as chain:
        prepare(chain, [SUBMITTER])
        dispute = play_dispute(chain)
        rounds = {str(count): measure_rounds(chain, count) for count in sizes}
        late = measure_rounds(chain, QUICK_SIZES[0], late=True)
    functions = rounds[str(sizes[-1])]["functions"]
    report = {
        "commit": functions["commit"]["largest"],
        "challenge": dispute["openDispute"],
        "respond": max(dispute["postStepRoots"], dispute["postTrace"]),
        "settle": functions["settleClaims"]["gas_for_each_solver"],
        "solver_round": max(one["gas"] for one in rounds.values()),
        "per_solver": {count: one["gas"] for count, one in rounds.items()},
        "late_audit": late["gas"] - rounds[str(QUICK_SIZES[0])]["gas"],
        "targets": TARGETS,
        "dispute": dispute,
        "functions": {count: one["functions"] for count, one in rounds.items()},
    }
    print(write_report("gas", report))


if __name__ == "__main__":
    main()
