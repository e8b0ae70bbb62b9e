"""From a step of the shared sequences to a transaction: what the cards decide is taken from the round as it
stands, and every proof is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.drawn import compute_leaf_indices, get_drawn
from protocol.spec.hashing import sha256_of
from protocol.spec.keeping import Seal, get_sealed_block
from protocol.spec.round import RoundState, get_audit_ref, get_included, get_phase, get_slot
from protocol.spec.statuses import AuditRef, Role
from protocol.spec.tolerance import Judgement
from tests.e2e.twin_chain import Sending
from tests.e2e.twin_world import LEARNING_RATE_SUM, Claims, State, move_state, prove_schedule
from tests.protocol.spec.play import get_function

CONTRACTS: dict[str, tuple[type[Call], ...]] = {
    "TaskRegistry": (calls.Enrol, calls.SealBeacon, calls.Advance),
    "RoundLedger": (
        calls.CommitClaim, calls.SealDraw, calls.Judge, calls.PostOuter, calls.SettleMerge, calls.SealLate,
        calls.SettleClaim, calls.SettleEnrolments,
    ),
    "AuditBook": (
        calls.OpenStart, calls.CommitReplay, calls.SayUnserved, calls.Abstain, calls.OpenEnd, calls.Reveal,
        calls.SealLeaves, calls.OpenLeaves, calls.CompareLeaves,
    ),
}  # fmt: skip
CONTRACT_OF = {kind: name for name, kinds in CONTRACTS.items() for kind in kinds}
KINDS: dict[str, Any] = {
    (kind.__name__[0].lower() + kind.__name__[1:]).replace("commitClaim", "commit"): kind
    for kind in CONTRACT_OF
}


@dataclass(frozen=True)
class CallMaker:
    """Makes the calls of one account for one block. results: what an auditor's replay gives, by
    `slot.draw.rank`; read_header: the header of a block, as the randomness contract wants it."""

    state: RoundState
    sender: str
    results: Mapping[str, str]
    block: int
    read_header: Callable[[int], bytes]

    @property
    def claims(self) -> Claims:
        """All claims of the round, with whatever is proven from them."""
        return Claims(self.state)

    @property
    def slot(self) -> int:
        """The sender's slot; whoever has none shows what slot 0 would."""
        return get_slot(self.state, self.sender) or 0

    def make_call(self, step: Mapping[str, Any]) -> Call:
        """The call of a step, with what the draw decides filled in."""
        kind, given = KINDS[step["call"]], dict(step["args"])
        if "audit" in given:
            given["audit"] = get_audit_ref(self.state, *given["audit"])
        if "role" in given:
            given["role"] = Role[given["role"]]
        call: Call = kind(**given, **self._deal(kind, given))
        return call

    def _deal(self, kind: type[Call], given: Mapping[str, Any]) -> dict[str, Any]:
        state, last = self.state, self.state.terms.segment_count
        if kind is calls.OpenStart:
            return {"boundary": self.segment_of(self.slot, given["draw"])}
        if kind is calls.OpenEnd:
            return {"boundary": self.segment_of(self.slot, given["draw"]) + 1, "last_boundary": last}
        if kind is calls.OpenLeaves:
            return {"indices": compute_leaf_indices(state, self.slot, given["draw"], given["phase"])}
        if kind is calls.CommitReplay:
            return {"segment": self.segment_of(given["audit"].slot, given["audit"].draw)}
        if kind is calls.CompareLeaves:
            return self._deal_comparison(given["audit"])
        return {"included": get_included(state)} if kind is calls.PostOuter else {}

    def _deal_comparison(self, ref: AuditRef) -> dict[str, Any]:
        indices = compute_leaf_indices(
            self.state, ref.slot, ref.draw, get_phase(self.state, ref.draw, ref.rank)
        )
        worst = Judgement.REJECT if self.result_of(ref) == "far" else Judgement.ACCEPT
        return {"indices": indices, "worst": worst}

    def segment_of(self, slot: int, draw: int) -> int:
        """The drawn segment; 0 where nothing is drawn, for a call that is refused anyway."""
        drawn = get_drawn(self.state, slot, draw)
        return drawn.segment if drawn else 0

    def result_of(self, ref: AuditRef) -> str:
        """What the replay of an audit gives."""
        return self.results.get(".".join(map(str, ref.key)), "equal")

    def found_by(self, ref: AuditRef) -> State:
        """The end state that an auditor's replay gives."""
        end = self.segment_of(ref.slot, ref.draw) + 1
        return move_state(self.claims.state_at(ref.slot, end), self.result_of(ref))

    def make_sending(self, call: Call) -> Sending:
        """The transaction of a call."""
        contract = CONTRACT_OF[type(call)]
        make: Arguments = _ARGUMENTS.get(type(call), _take_fields)
        arguments = make(self, call)
        # An audit's name holds task and round; the registry knows which round is to be advanced.
        head: tuple[Any, ...] = () if hasattr(call, "audit") else (self.state.task, call.round)
        if isinstance(call, calls.Advance):
            head = head[:1]
        return Sending(self.sender, contract, get_function(call), (*head, *arguments))


def _take_fields(maker: CallMaker, call: Call) -> tuple[Any, ...]:
    """Calls whose arguments are their fields."""
    return tuple(value for name, value in vars(call).items() if name != "round")


def _seal(maker: CallMaker, call: Seal) -> tuple[Any, ...]:
    sealed_block = get_sealed_block(maker.state, call, maker.block)
    return *_take_fields(maker, call), maker.read_header(sealed_block)


def _open_start(maker: CallMaker, call: calls.OpenStart) -> tuple[Any, ...]:
    return call.draw, maker.claims.prove_boundary(maker.slot, call.boundary)


def _open_end(maker: CallMaker, call: calls.OpenEnd) -> tuple[Any, ...]:
    claims = maker.claims
    proofs = (claims.prove_boundary(maker.slot, one) for one in (call.boundary, call.last_boundary))
    return call.draw, *proofs


def _open_leaves(maker: CallMaker, call: calls.OpenLeaves) -> tuple[Any, ...]:
    end = maker.claims.state_at(maker.slot, maker.segment_of(maker.slot, call.draw) + 1)
    return call.draw, call.phase, end.header, end.prove_leaves(call.indices)


def _commit(maker: CallMaker, call: calls.CommitClaim) -> tuple[Any, ...]:
    claims, slot = maker.claims, maker.slot
    return claims.root(slot), claims.delta_root(slot), claims.prove_boundary(slot, 0)


def _post_outer(maker: CallMaker, call: calls.PostOuter) -> tuple[Any, ...]:
    """Any roots: nobody contests them here (OuterContest has its own tests)."""
    return len(call.included), sha256_of(b"weights"), sha256_of(b"momentum")


def _commit_replay(maker: CallMaker, call: calls.CommitReplay) -> tuple[Any, ...]:
    ref = call.audit
    return ref, maker.claims.commit_audit(ref, maker.sender, maker.found_by(ref))


def _reveal(maker: CallMaker, call: calls.Reveal) -> tuple[Any, ...]:
    return call.audit, maker.found_by(call.audit).header, maker.claims.audit_salt(call.audit)


def _compare(maker: CallMaker, call: calls.CompareLeaves) -> tuple[Any, ...]:
    ref, segment = call.audit, maker.segment_of(call.audit.slot, call.audit.draw)
    claimed, replayed = maker.claims.state_at(ref.slot, segment + 1), maker.found_by(ref)
    ends = (claimed.header, replayed.header)
    leaves = (claimed.prove_leaves(call.indices), replayed.prove_leaves(call.indices))
    return ref, ends, *leaves, (), LEARNING_RATE_SUM, prove_schedule(maker.state.terms, segment)


Arguments = Callable[[CallMaker, Any], tuple[Any, ...]]
_ARGUMENTS: dict[type[Call], Arguments] = {
    calls.Advance: lambda maker, call: (),
    **dict.fromkeys(get_args(Seal), _seal),
    calls.OpenStart: _open_start,
    calls.OpenEnd: _open_end,
    calls.OpenLeaves: _open_leaves,
    calls.CommitClaim: _commit,
    calls.PostOuter: _post_outer,
    calls.CommitReplay: _commit_replay,
    calls.Reveal: _reveal,
    calls.CompareLeaves: _compare,
    calls.SayUnserved: lambda maker, call: (call.audit,),
    calls.Abstain: lambda maker, call: (call.audit,),
}
