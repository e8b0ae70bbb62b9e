"""A round on the contracts with claims of small states, each wrong in one thing or right, and what a member
knows of them: for proofs in one transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import torch

from tests.kit.members import Member as Solver
from tests.kit.members import make_member, make_word
from tests.kit.nodes import Told, get_told, open_joined
from tests.node.specs import get_spec
from tests.rounds.campaign import AMOUNTS
from tests.rounds.chain import RoundChain, Sent
from tests.rounds.twin import Twin
from touchstone.node.records.claim_records import ClaimName, WorkProof
from touchstone.node.records.heard_statements import ClaimOpenings, KnownSeal, KnownVote
from touchstone.protocol.adapters.chain.abi import load_own_abi, to_snake_case
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof, decode_values, encode_call
from touchstone.protocol.adapters.keys.signatures import sign_statement
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.compute.digest import build_delta_tree, state_header, tensor_bytes, tensor_root
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.claim_tree import compute_carried_root, compute_claim_root, compute_work_leaf
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_segment
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, WINDOWS_LOCAL
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.merkle import compute_levels, compute_path
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Sealed, Vote, VoteOpening, VoteWord, compute_seal
from touchstone.scripts.roles.role_nodes import Member

PARAMETERS, SEGMENTS, STEPS = 200, 5, 5
FAULTS = ("right", "start", "delta", "scale", "carried", "steps")
"""By slot: what is wrong with its claim."""
GLOBAL = torch.linspace(-1, 1, PARAMETERS)
ZERO = make_word("zero")


@dataclass(frozen=True)
class ToyClaim:
    """A claim with states of a few numbers. leaves: of its tree."""

    solver: Solver
    headers: tuple[StateHeader, ...]
    salts: tuple[bytes, ...]
    delta: bytes
    work: WorkProof
    leaves: tuple[bytes, ...]

    @property
    def levels(self) -> Any:
        return compute_levels(list(self.leaves))

    @property
    def root(self) -> bytes:
        return compute_claim_root(self.leaves)

    def open(self, boundary: int) -> BoundaryProof:
        path = tuple(compute_path(self.levels, boundary))
        return BoundaryProof(self.headers[boundary], self.salts[boundary], path)

    def open_work(self) -> WorkProof:
        return replace(self.work, path=tuple(compute_path(self.levels, len(self.leaves) - 1)))


def make_claim(domain: bytes, solver: Solver, fault: str) -> ToyClaim:
    """A claim of round 0."""
    states = [
        TrainingState(GLOBAL + 0.01 * b, *_moments(b), b * STEPS, b * STEPS) for b in range(SEGMENTS + 1)
    ]
    headers = [state_header(state) for state in states]
    first = tensor_root(GLOBAL + 1) if fault == "start" else tensor_root(GLOBAL)
    headers[0] = StateHeader(first, ZERO, ZERO, 0, int(fault == "steps"))
    delta = bytearray(encode_delta(GLOBAL, states[-1].weights))
    if fault == "delta":
        delta[1] ^= 1
    if fault == "scale":
        delta[0] = 221
    carried = make_word("none") if fault == "carried" else compute_carried_root(headers[-1])
    salts = tuple(make_word("salt", solver.address, b) for b in range(SEGMENTS + 1))
    place = (domain, 0, solver.address)
    leaves = [
        compute_boundary_leaf(*place, b, salts[b], compute_state_root(headers[b]))
        for b in range(SEGMENTS + 1)
    ]
    root = build_delta_tree(bytes(delta)).root
    leaves.append(compute_work_leaf(*place, SEGMENTS, root, carried))
    work = WorkProof(root, carried, ())
    return ToyClaim(solver, tuple(headers), salts, bytes(delta), work, tuple(leaves))


def _moments(boundary: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((PARAMETERS,), 0.1 * boundary), torch.full((PARAMETERS,), 0.01 * boundary)


class Proofs:
    """A task with one closed and drawn round, its claims by slot, and the member that proves."""

    def __init__(self, chain: RoundChain, folder: Path, *, is_exact: bool = False) -> None:
        solvers = [f"solver {i}" for i in range(len(FAULTS))]
        auditors = [f"auditor {i}" for i in range(3)]
        terms = GameTerms(
            submitter="", domain=bytes([50 + is_exact]) * 32, root=b"", rounds=4, segment_count=SEGMENTS,
            draws=1, late_chance=0, solver_seats=len(FAULTS), least_solvers=1, least_verifiers=3,
            least_whistleblowers=0, contest_levels=1, is_exact=is_exact, windows=WINDOWS_LOCAL,
            amounts=AMOUNTS,
        )  # fmt: skip
        self.chain, self.folder = chain, folder
        self.twin = Twin(chain, terms, (*solvers, *auditors, "prover"))
        self._join(solvers, auditors)
        self.claims = self._commit()
        self._wait(lambda: self.twin.state.rounds[0].seed is not None)

    # Playing
    def _join(self, solvers: list[str], auditors: list[str]) -> None:
        for names, role, wei in (
            (solvers, SeatRole.SOLVER, AMOUNTS.solver_stake),
            ([*auditors, "prover"], SeatRole.VERIFIER, AMOUNTS.auditor_stake),
        ):
            for name in names:
                self._must(calls.Deposit(wei), name)
                self._must(calls.JoinSeat(role, wei), name)
        self._wait(lambda: bool(self.twin.state.rounds))

    def _must(self, call: calls.GameCall, name: str) -> None:
        refused = self.twin.do(call, name)
        assert refused is None, (call, refused)

    def _wait(self, is_there: Any) -> None:
        """Upkeep, block by block, until something is there."""
        for _ in range(200):
            if is_there():
                return
            due = list(list_upkeep(self.twin.state, self.twin.get_block()))
            if due:
                self.twin.do(due[0], "stranger")
            else:
                self.chain.mine_to(self.chain.get_block() + 1)
        raise AssertionError("nothing comes")

    def _commit(self) -> dict[int, ToyClaim]:
        state, found = self.twin.state, {}
        game_round = state.rounds[0]
        for slot, seat in enumerate(game_round.pool.solvers):
            solver = self._member(state.seats[seat].account)
            found[slot] = make_claim(state.terms.domain, solver, FAULTS[slot])
            root = found[slot].root
            name = next(one for one, party in self.twin.parties.items() if party == solver)
            words = (game_round.base_root, game_round.beacon or b"", root)
            self._must(calls.CommitRound(0, *words, SEGMENTS), name)
        return found

    def _member(self, account: str) -> Solver:
        return next(one for one in self.twin.parties.values() if one.address == account)

    # Statements
    def make_vote(
        self, slot: int, word: VoteWord, leaf: int = 0, *, by: str = "auditor 0", **lies: Any
    ) -> KnownVote:
        """A vote on a claim, with its opening; `lies` are fields of the vote that it says otherwise."""
        auditor, vote, opening = self._notify(slot, word, leaf, by)
        vote = replace(vote, **lies)
        signature = sign_statement(auditor.key, vote, self.twin.signing)
        return KnownVote(vote, signature, auditor.address, replace(opening, vote=vote))

    def make_seal(self, known: KnownVote, **lies: Any) -> KnownSeal:
        """What a vote's auditor sealed, but for `lies`."""
        names = Sealed.__dataclass_fields__
        said = replace(Sealed(**{name: getattr(known.vote, name) for name in names}), **lies)
        key = self._member(known.auditor).key
        return KnownSeal(said, sign_statement(key, said, self.twin.signing), known.auditor)

    def _notify(self, slot: int, word: VoteWord, leaf: int, by: str) -> tuple[Solver, Vote, VoteOpening]:
        state, claim, auditor = self.twin.state, self.claims[slot], self.twin.parties[by]
        game_round = state.rounds[0]
        segment = get_drawn_segment(state, game_round, slot, 0)
        assert segment is not None
        own, salt = compute_state_root(claim.headers[segment + 1]), make_word("seal", slot)
        place = (state.terms.domain, 0, slot, 0, 0)
        seal = compute_seal(*place, auditor.address, claim.leaves[segment], own, salt)
        where = (
            state.terms.domain,
            0,
            game_round.base_root,
            game_round.seed,
            slot,
            claim.root,
            0,
            0,
        )
        ends = (segment, claim.leaves[segment], seal, claim.leaves[segment + 1])
        vote = Vote(*where, *ends, word, leaf)  # type: ignore[arg-type]
        return auditor, vote, VoteOpening(vote, own, claim.salts[segment + 1], own, salt)

    # The prover
    @contextmanager
    def open_prover(self, told: Told, by: str = "prover") -> Iterator[tuple[Member, list[Sent]]]:
        """The node of the member that proves, and what came of its transactions."""
        account, sent, home = self.twin.parties[by].address, list[Sent](), mkdtemp(dir=self.folder)
        terms = replace(
            get_spec().terms, parameter_count=PARAMETERS, carry_moments=0,
            initial_weights_root=tensor_root(GLOBAL), zero_root=ZERO,
        )  # fmt: skip
        game, spec = self.twin.state, replace(get_spec(), terms=terms)
        with open_joined(Path(home), game, task=self.twin.task, account=account, spec=spec) as node:
            node.state.head_block, chain, store = self.chain.get_block(), cast(Any, node.chain), node.store
            chain.game = Contract(self.chain, "Evidence", account, sent)
            for claim in self.claims.values():
                name = ClaimName(0, claim.solver.address, claim.root)
                node.rooms.tools.claims.proofs[name] = claim.open_work()
                store.put_delta(claim.work.delta_root, claim.delta)
                store.put_tensor(claim.headers[-1].weights_root, tensor_bytes(GLOBAL + 0.01 * SEGMENTS))
            store.put_tensor(tensor_root(GLOBAL), tensor_bytes(GLOBAL))
            vars(get_told(node)).update(vars(told))
            yield node, sent

    def forget_final(self, node: Member, slot: int) -> None:
        """The prover lacks the final weights of a claim."""
        root = self.claims[slot].headers[-1].weights_root
        node.store.delete(BlobKey(BlobKind.TENSOR, root))

    def show(self, slot: int) -> ClaimOpenings:
        """All that the solver of a slot could have shown."""
        claim = self.claims[slot]
        boundaries = {b: claim.open(b) for b in range(SEGMENTS + 1)}
        return ClaimOpenings(boundaries, claim.open_work(), claim.open(SEGMENTS))

    def get_accused(self, ref: StatementRef | KnownVote) -> int:
        """The seat of a claim's solver or of a vote's signer."""
        if isinstance(ref, KnownVote):
            return next(n for n, seat in self.twin.state.seats.items() if seat.account == ref.auditor)
        return self.twin.state.rounds[0].claims[ref.slot].seat


class Contract:
    """A contract as a node calls it, sent by an account that the chain impersonates."""

    def __init__(self, chain: RoundChain, name: str, sender: str, sent: list[Sent]) -> None:
        self._chain, self._name, self._sender, self._sent = chain, name, sender, sent
        self._functions = {to_snake_case(e.name): e for e in load_own_abi(name) if e.kind == "function"}

    def __getattr__(self, name: str) -> Any:
        entry = self._functions[name]

        async def call(*arguments: Any) -> Any:
            data = encode_call(entry, arguments)
            if entry.is_view:
                ask = {"to": self._chain.addresses[self._name], "data": "0x" + data.hex()}
                (answer,) = self._chain.ask(("eth_call", [ask, "latest"]))
                return decode_values(entry.outputs, bytes.fromhex(answer[2:]))[0]
            self._sent.append(self._chain.send_data(self._sender, self._name, data))
            return None

        return call


def open_proofs(chain: RoundChain, folder: Path, monkeypatch: Any, *, is_exact: bool = False) -> Proofs:
    """A round as above: its base is the model that the claims start from."""
    real = make_word
    root = tensor_root(GLOBAL)
    monkeypatch.setattr(
        "tests.rounds.twin.make_word", lambda *parts: root if parts == ("W",) else real(*parts)
    )
    return Proofs(chain, folder, is_exact=is_exact)


__all__ = ["FAULTS", "BOUNDS_LOCAL", "Proofs", "make_member", "open_proofs"]
