"""Describes a task in plain words: a line for each event."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from touchstone.explorer.names import Names, show_wei
from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.pots import BONDS, STAKES, name_pot
from touchstone.protocol.spec.game.assignments import list_draws
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerDispute
from touchstone.protocol.spec.game.log_values import list_bits, read_statement
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.logs import VOTE_BYTES
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.timing import is_late_draw
from touchstone.protocol.spec.statements import VoteWord

TOLD_POTS = (BONDS, STAKES)
"""Pots of which each payment is described by its own event."""


def group_names(events: Iterable[Event]) -> dict[bytes, set[str]]:
    """Returns the names of the events of each transaction."""
    found: dict[bytes, set[str]] = {}
    for event in events:
        found.setdefault(event.transaction_hash, set()).add(event.name)
    return found


@dataclass(frozen=True)
class Conviction:
    """A seat that was closed. `dispute` is the one that ended with it, None if another proof did. `statement`
    is the false one, `shares` are who got how many wei of the stake, `is_model_untouched` says that no false
    claim was merged; None if not known."""

    block: int
    transaction_hash: bytes
    seat: int
    account: str
    finder: str
    proof: ProofKind
    stake_wei: int
    dispute: bytes | None
    statement: StatementRef | None = None
    shares: tuple[tuple[str, int], ...] | None = None
    is_model_untouched: bool | None = None

    @property
    def name(self) -> str:
        """Names the conviction in addresses."""
        return f"{self.block}-{self.seat}"


WORDS = {
    VoteWord.ACCEPT: "the auditor's replay agrees: ACCEPT",
    VoteWord.REJECT_STATE: "the auditor's replay ends elsewhere: REJECT_STATE",
    VoteWord.REJECT_DELTA: "the pseudo-gradient is not what was trained: REJECT_DELTA",
    VoteWord.REJECT_START: "the claim does not start from the model of the round: REJECT_START",
    VoteWord.UNSERVED: "the solver does not serve its data: UNSERVED",
    VoteWord.ABSTAIN: "no verdict: ABSTAIN",
}
ENDS = {
    DisputeStage.CLEARED: "the statement stands, and half of the opener's bond goes to the accused",
    DisputeStage.CONVICTED: "the statement is false",
    DisputeStage.MOOT: "there is nothing left to dispute, and the bond goes back",
}


class Teller:
    """Describes events of one task. `state` is the chain's state after them."""

    def __init__(self, names: Names, state: ChainState, task: bytes) -> None:
        self._names, self._state, self._task = names, state, task
        self._pots = {name_pot(kind, task): kind for kind in TOLD_POTS}

    @property
    def _game(self) -> LoggedGame:
        return self._state.games[self._task]

    def describe_event(self, event: Event, beside: set[str]) -> Iterator[str]:
        """Yields lines about an event. `beside` are the names of all events in its transaction."""
        if event.name == "Given":
            yield from self._describe_given(event.arguments, beside)
        elif event.name in _TELLERS:
            yield from _TELLERS[event.name](self, event.arguments)

    def _dispute(self, values: Mapping[str, Any]) -> tuple[InnerDispute, str, str]:
        """Returns the dispute, its opener, and who must answer."""
        dispute = self._state.inner[self._task].disputes[bytes(values["dispute"])]
        return dispute, self._names.of(dispute.opener), self._names.of_seat(self._game, dispute.seat)

    def _posted(self, v: Mapping[str, Any]) -> Iterator[str]:
        terms = v["terms"]
        yield (
            f"{self._names.of(v['submitter'])} posts the task: {terms.parameter_count:,} parameters, "
            f"{terms.rounds} rounds of {terms.inner_steps} steps; {show_wei(v['escrow_wei'])} in escrow"
        )

    def _joined(self, v: Mapping[str, Any]) -> Iterator[str]:
        yield f"{self._names.of(v['account'])} takes a seat and stakes {show_wei(v['stake_wei'])}"

    def _convicted(self, v: Mapping[str, Any]) -> Iterator[str]:
        who, finder = self._names.of_seat(self._game, v["seat"]), self._names.of(v["finder"])
        kind = ProofKind(int(v["proof"])).name
        stake = show_wei(v["stake_wei"])
        yield f"{who} IS CONVICTED by {finder} ({kind}): its stake of {stake} is gone"

    def _settled(self, v: Mapping[str, Any]) -> Iterator[str]:
        who = self._names.of_seat(self._game, v["seat"])
        if v["paid_wei"]:
            yield f"{who} is paid {show_wei(v['paid_wei'])}, settled up to round {v['until_round']}"
        if v["fee_wei"]:
            yield f"{who} loses a fee of {show_wei(v['fee_wei'])}"

    def _freed(self, v: Mapping[str, Any]) -> Iterator[str]:
        if v["stake_wei"]:
            who = self._names.of_seat(self._game, v["seat"])
            yield f"{who} has its stake of {show_wei(v['stake_wei'])} back"

    def _closed(self, v: Mapping[str, Any]) -> Iterator[str]:
        yield f"the task is closed; {show_wei(v['refund_wei'])} of the escrow go back to the submitter"

    def _halted(self, v: Mapping[str, Any]) -> Iterator[str]:
        yield "the task is halted: no later round opens, and what is open settles as always"

    def _voted_halt(self, v: Mapping[str, Any]) -> Iterator[str]:
        shares = show_wei(v["shares"]).removesuffix(" tokens")
        majority = f"; they are the majority since block {v['since']}" if v["since"] else ""
        yield f"{self._names.of(v['holder'])} votes with {shares} shares to halt the task{majority}"

    def _revenue_paid(self, v: Mapping[str, Any]) -> Iterator[str]:
        yield f"{self._names.of(v['payer'])} pays {show_wei(v['wei_'])} of revenue to the holders of shares"

    def _revenue_claimed(self, v: Mapping[str, Any]) -> Iterator[str]:
        yield f"{self._names.of(v['holder'])} claims {show_wei(v['wei_'])} of revenue"

    def _describe_given(self, v: Mapping[str, Any], beside: set[str]) -> Iterator[str]:
        kind, who = self._pots.get(v["pot"]), self._names.of(v["account"])
        if kind == STAKES and "SeatConvicted" in beside:
            yield f"{who} gets {show_wei(v['wei_'])} of the slashed stake"
        elif kind == BONDS:
            yield f"{who} gets {show_wei(v['wei_'])} of a bond"

    def _opened(self, v: Mapping[str, Any]) -> Iterator[str]:
        solvers = [self._names.of_seat(self._game, n) for n in self._game.rounds[v["round"]].pool.solvers]
        yield f"round {v['round']} opens for {', '.join(solvers)}"

    def _claimed(self, v: Mapping[str, Any]) -> Iterator[str]:
        who = self._names.of_slot(self._game, v["round"], v["slot"])
        yield f"{who} commits to its training of round {v['round']}: {v['segments']} segments, one root"

    def _drawn(self, v: Mapping[str, Any]) -> Iterator[str]:
        """Yields the primaries; reserves are looked up only if a primary does not accept."""
        yield from self._list_primaries(int(v["round"]), is_late=False)
        yield from self._list_primaries(int(v["round"]) - 1, is_late=True)

    def _closing(self, v: Mapping[str, Any]) -> Iterator[str]:
        yield from self._list_primaries(self._game.next_round - 1, is_late=True)

    def _list_primaries(self, index: int, *, is_late: bool) -> Iterator[str]:
        game_round, game = self._game.rounds.get(index), self._game
        found = []
        for slot, draw in list_draws(game, game_round) if game_round is not None else ():
            drawn = get_drawn(game, index, slot, draw, 0)
            if is_late_draw(game, draw) == is_late and drawn is not None:
                who, solver = self._names.of(drawn.seat.account), self._names.of(drawn.solver)
                found.append(f"{who} for segment {drawn.segment} of {solver}")
        kind = "late audits" if is_late else "audits"
        if found:
            yield f"randomness draws the {kind} of round {index}: {', '.join(found)}"

    def _voted(self, v: Mapping[str, Any]) -> Iterator[str]:
        said, game, index = bytes(v["votes"]), self._game, int(v["round"])
        for at in range(0, len(said), VOTE_BYTES):
            slot, draw, rank, word = said[at : at + VOTE_BYTES]
            drawn = get_drawn(game, index, slot, draw, rank)
            who = "an auditor" if drawn is None else self._names.of(drawn.seat.account)
            solver, where = self._names.of_slot(game, index, slot), "" if drawn is None else drawn.segment
            vote = f"{who}'s vote counts: segment {where} of {solver} in round {index}"
            yield f"{vote}, {WORDS[VoteWord(word)]}"

    def _rooted(self, v: Mapping[str, Any]) -> Iterator[str]:
        index = int(v["round"])
        merged = [self._names.of_slot(self._game, index, slot) for slot in list_bits(v["merged"])]
        root = bytes(v["root"]).hex()[:16]
        yield (
            f"round {index} is merged: claims of {', '.join(merged)}, "
            f"signed by {len(list_bits(v['signers']))} solvers, root {root}"
        )

    def _disputed(self, v: Mapping[str, Any]) -> Iterator[str]:
        about = self._names.of_statement(self._game, read_statement(v["statement"]))
        opener, bond = self._names.of(v["opener"]), show_wei(v["bond_wei"])
        yield f"{opener} disputes {about}, segment {v['segment']}, with a bond of {bond}"

    def _answered(self, v: Mapping[str, Any]) -> Iterator[str]:
        _, _, accused = self._dispute(v)
        yield f"{accused} answers: the states after each of {len(v['roots']) - 1} steps of the segment"

    def _named(self, v: Mapping[str, Any]) -> Iterator[str]:
        _, opener, accused = self._dispute(v)
        yield f"{opener} names step {v['step']} of the segment as the first one where {accused} errs"

    def _traced(self, v: Mapping[str, Any]) -> Iterator[str]:
        _, _, accused = self._dispute(v)
        yield f"{accused} answers: the root over every number of that step, {v['trace_root'].hex()[:16]}"

    def _demanded(self, v: Mapping[str, Any]) -> Iterator[str]:
        _, opener, _ = self._dispute(v)
        yield f"{opener} demands leaf {v['leaf_index']} at node {v['node']} on chain"

    def _shown(self, v: Mapping[str, Any]) -> Iterator[str]:
        _, _, accused = self._dispute(v)
        yield f"{accused} shows leaf {v['number']}"

    def _ended(self, v: Mapping[str, Any]) -> Iterator[str]:
        _, opener, accused = self._dispute(v)
        stage = DisputeStage(int(v["outcome"]))
        yield f"the dispute of {opener} against {accused} ends {stage.name}: {ENDS.get(stage, '')}"


_TELLERS: Mapping[str, Callable[[Teller, Mapping[str, Any]], Iterator[str]]] = {
    "TaskPosted": Teller._posted,
    "SeatJoined": Teller._joined,
    "SeatConvicted": Teller._convicted,
    "SeatSettled": Teller._settled,
    "SeatFreed": Teller._freed,
    "TaskClosed": Teller._closed,
    "TaskHalted": Teller._halted,
    "HaltVoted": Teller._voted_halt,
    "RevenuePaid": Teller._revenue_paid,
    "RevenueClaimed": Teller._revenue_claimed,
    "RoundOpened": Teller._opened,
    "ClaimTaken": Teller._claimed,
    "AuditsDrawn": Teller._drawn,
    "ClosingDrawn": Teller._closing,
    "VotesCounted": Teller._voted,
    "RootPosted": Teller._rooted,
    "DisputeOpened": Teller._disputed,
    "StepRootsPosted": Teller._answered,
    "StepNamed": Teller._named,
    "TracePosted": Teller._traced,
    "LeafDemanded": Teller._demanded,
    "LeafShown": Teller._shown,
    "DisputeEnded": Teller._ended,
}
