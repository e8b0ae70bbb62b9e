"""A party of a world by its name, and all that it can do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.kit.contract_calls import ContractCall, list_words
from tests.kit.dispute_moves import Move, Place
from tests.kit.members import make_word
from tests.kit.played_calls import encode_contract_call
from tests.kit.played_claims import PlayedClaim
from touchstone.protocol.adapters.keys.signatures import sign_statement
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind, SeatRole, SeatStatus
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.state import (
    GameState,
    MissedPlace,
    StatementRef,
)
from touchstone.protocol.spec.statements import Vote, VoteWord

if TYPE_CHECKING:
    from tests.kit.world import World

ANSWERS = (DisputeStage.ROOTS, DisputeStage.TRACE, DisputeStage.LEAVES)
"""Stages of a dispute in which the claimant has to answer."""


@dataclass(frozen=True)
class Actor:
    """A party of a world by its name, and all that it can do."""

    world: World
    name: str

    def send(self, call: GameCall) -> None:
        """Sends a call of the machine."""
        self.world.send(call, self.name)

    @property
    def seat(self) -> int:
        """The number of its seat."""
        return self.world.get_seat(self.name).number

    # Seats and money
    def deposits(self, wei: int) -> None:
        """Its money becomes credit."""
        self.send(calls.Deposit(wei))

    def withdraws(self) -> None:
        """All its credit leaves."""
        self.send(calls.WithdrawCredit())

    def joins(self, role: SeatRole, wei: int | None = None) -> None:
        """Takes a seat, with the task's stake unless told else."""
        amounts = self.world.state.terms.amounts
        least = amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake
        self.send(calls.JoinSeat(role, least if wei is None else wei))

    def tops_up(self, wei: int, *, seat: int | None = None) -> None:
        """Adds to the stake of its seat."""
        self.send(calls.TopUp(self.seat if seat is None else seat, wei))

    def leaves(self, *, seat: int | None = None) -> None:
        """Sits in no pool that is frozen later."""
        self.send(calls.LeaveSeat(self.seat if seat is None else seat))

    def pays_out(self, seat: int | str) -> None:
        """Sends the call that pays out somebody's stake."""
        number = self.world.get_seat(seat).number if isinstance(seat, str) else seat
        self.send(calls.PayOut(number))

    def halts(self) -> None:
        """Wants no later round."""
        self.send(calls.HaltTask())

    def marks_silent(self, seat: int | str, *missed: tuple[int, int, int] | int) -> None:
        """Says which rounds or draws a seat has missed."""
        number = self.world.get_seat(seat).number if isinstance(seat, str) else seat
        places = [MissedPlace(*one) if isinstance(one, tuple) else MissedPlace(one) for one in missed]
        self.send(calls.MarkSilent(number, tuple(places)))

    # Shares
    @property
    def shares(self) -> int:
        """How many shares it holds."""
        return self.world.shares.get(self.world.get_party(self.name).address).shares

    def sends_shares(self, to: str, count: int) -> None:
        """Sends shares."""
        self.world.sends_shares(self.name, to, count)

    def votes_halt(self, count: int | None = None) -> None:
        """Votes for the halt, with all of its shares unless told else."""
        self.world.votes_halt(self.name, self.shares if count is None else count)

    # Work
    def commits(self, segments: int | None = None, *, fault: str = "", **lies: Any) -> None:
        """Commits to a claim of the round that runs; `lies` are fields of the call that it says otherwise."""
        world = self.world
        index = lies.get("round", world.live.index)
        game_round = world.state.rounds.get(index, world.live)
        whole = world.state.terms.segment_count
        count = whole if segments is None else segments
        account = world.get_party(self.name).address
        before = world.find_carried(index, account) if world.carries and fault != "moments anew" else None
        claim = PlayedClaim(
            world.state.terms.domain, index, account, max(count, 1), whole, fault, world.model, before
        )
        world.claims[claim.root] = claim
        beacon = game_round.beacon or make_word("no beacon")
        call = calls.CommitRound(index, game_round.base_root, beacon, claim.root, count)
        self.send(replace(call, **lies))

    def _find_draw(self, claimant: str, index: int, draw: int | None) -> tuple[int, int]:
        """The draw and the rank in which this auditor is drawn for a claim."""
        world, seat = self.world, self.seat
        slot, game_round = world.get_slot(claimant, index), world.state.rounds[index]
        for place in world.list_places(index):
            for rank in range(3):
                drawn = get_drawn_seat(world.state, game_round, *place, rank)
                if place[0] == slot and draw in (None, place[1]) and drawn == seat:
                    return place[1], rank
        raise AssertionError(f"{self.name} is not drawn for the claim of {claimant} in round {index}")

    def says(
        self, word: VoteWord, claimant: str, *, index: int | None = None, draw: int | None = None, **more: Any
    ) -> None:
        """Votes on a claim for which it is drawn."""
        index = self.world.live.index if index is None else index
        draw, rank = self._find_draw(claimant, index, draw)
        self.world.votes(claimant, word, index=index, draw=draw, rank=rank, **more)

    def accepts(self, claimant: str, **more: Any) -> None:
        """Says that a claim is right."""
        self.says(VoteWord.ACCEPT, claimant, **more)

    def rejects(self, claimant: str, word: VoteWord = VoteWord.REJECT_STATE, **more: Any) -> None:
        """Says that a claim is wrong."""
        self.says(word, claimant, **more)

    def is_unserved_by(self, claimant: str, **more: Any) -> None:
        """Says that a solver showed it nothing."""
        self.says(VoteWord.UNSERVED, claimant, is_opened=False, **more)

    # Contests
    def contests(self, index: int, bond: int | None = None) -> int:
        """Contests a posted root; returns the contest's number."""
        state = self.world.state
        due = state.terms.amounts.contest_bond * (1 + len(state.contests))
        self.send(calls.OpenContest(index, due if bond is None else bond))
        return state.next_number

    def answers_contest(self, contest: int, **facts: Any) -> None:
        """Opens the contested node."""
        self.send(calls.AnswerContest(contest, **facts))

    def names_child(self, contest: int, child: int = 0) -> None:
        """Names the child that its own tree does not have."""
        self.send(calls.NameChild(contest, child))

    def brings_leaf(self, contest: int, **facts: Any) -> None:
        """Brings the inputs of the named leaf."""
        self.send(calls.BringLeaf(contest, **facts))

    def shows(self, function: str, contest: int, *shown: Any) -> None:
        """Sends a move of a contest with other nodes or inputs than the right ones: it is refused."""
        world = self.world
        assert world._refusal is not None
        made = ("Contests", function, world.task, world.ids[contest], *shown)
        world.send_refused(world._refusal, self.name, *made)

    def ends_contest(self, contest: int) -> None:
        """Says that the clock has run out, or that the root has gone."""
        self.send(calls.EndRootContest(contest))

    # Queries and disputes
    def queries(self, ref: StatementRef, word: VoteWord = VoteWord.ACCEPT, leaf: int = 0, **more: Any) -> int:
        """Asks the signer of a vote to show a leaf; returns the query's number."""
        state = self.world.state
        number = get_drawn_seat(state, state.rounds[ref.round], ref.slot, ref.draw or 0, ref.rank)
        due = state.terms.amounts.query_bond * (1 + sum(one.seat == number for one in state.queries.values()))
        self.send(calls.QueryVote(ref, word, leaf, more.pop("bond", due), **more))
        return state.next_number

    def queries_otherwise(self, refused: str, ref: StatementRef, signer: str = "", **lies: Any) -> None:
        """Asks about a vote that is not the drawn one's: `lies` are fields that it says otherwise."""
        vote, _, auditor = self.world._vote(ref, VoteWord.ACCEPT)
        self.queries_vote(refused, replace(vote, **lies), signer or self.world.get_name(auditor.address))

    def queries_vote(self, refused: str, vote: Vote, signer: str) -> None:
        """Asks about a vote of its own making. signer: a party, or nobody: then the signature is zeros."""
        world = self.world
        is_signed = signer != "nobody"
        signature = (
            sign_statement(world.get_party(signer).key, vote, world.signing) if is_signed else bytes(64)
        )
        signed = list_words(vote), signature[:32], signature[32:]
        world.send_refused(refused, self.name, "Queries", "queryVote", world.task, signed, 0, 1_000)

    def answers_query(self, query: int, **facts: Any) -> None:
        """Shows the leaf."""
        self.send(calls.AnswerQuery(query, **facts))

    def ends_query(self, query: int) -> None:
        """Says that nobody answered in time."""
        self.send(calls.EndQuery(query))

    def disputes(self, ref: StatementRef, **more: Any) -> int:
        """Disputes a claim or a vote; returns the dispute's number."""
        state = self.world.state
        number = find_accused(state, ref)
        open_count = sum(one.seat == number for one in state.disputes.values())
        due = state.terms.amounts.dispute_bond * (1 + open_count)
        if ref.draw is not None:
            more.setdefault("word", self.world._counted_word(ref))
        self.world.disputed_segment, lie = more.pop("segment", 0), more.pop("lie", None)
        self.send(calls.DisputeStatement(ref, more.pop("bond", due), **more))
        if lie is not None:
            self.world.disputes[state.next_number] = replace(self.world.disputes[state.next_number], lie=lie)
        return state.next_number

    def shows_roots(self, dispute: int, **other: Any) -> None:
        """Answers a dispute of its claim or vote with the states' roots along the segment."""
        self._moves(dispute, self.world.moves(dispute).post_roots(**other))

    def names_step(self, dispute: int, step: int, roots: list[bytes] | None = None) -> None:
        """Names the first step that it computes otherwise."""
        self._moves(dispute, self.world.moves(dispute).name_step(step, roots))

    def shows_trace(self, dispute: int, **other: Any) -> None:
        """Answers with the trace of the named step."""
        self._moves(dispute, self.world.moves(dispute).post_trace(**other))

    def demands(self, dispute: int, *places: Place, **other: Any) -> None:
        """Demands leaves of the trace."""
        self._moves(dispute, self.world.moves(dispute).demand(*places, **other))
        if self.world._refusal is None:
            played = self.world.disputes[dispute]
            self.world.disputes[dispute] = replace(played, demanded=places)

    def shows_leaves(self, dispute: int, first: int, last: int, **other: Any) -> None:
        """Shows demanded leaves, from the first to before the last."""
        self._moves(dispute, self.world.moves(dispute).show(first, last, **other))

    def proves_operation(self, dispute: int, element: int, /, **other: Any) -> None:
        """Proves an element of node 0 false."""
        self._proves(dispute, self.world.moves(dispute).prove_operation(element, **other))

    def proves_datum(self, dispute: int, buffer: int, position: int, **other: Any) -> None:
        """Proves an element of the step's data false."""
        self._proves(dispute, self.world.moves(dispute).prove_datum(buffer, position, **other))

    def _proves(self, dispute: int, move: Move) -> None:
        if self.world._refusal is not None:
            self._moves(dispute, move)
            return
        made = self.world.moves(dispute).write(move)
        self.world.send(calls.EndDispute(dispute, outcome=GameOutcome.CONVICTED), self.name, made)

    def _moves(self, dispute: int, move: Move) -> None:
        """A move inside a dispute, of which the machine knows its clocks alone."""
        world, moves = self.world, self.world.moves(dispute)
        world.count += 1
        if world._refusal is None:
            world.send_raw(self.name, *moves.write(move))
            moves.pass_turn(move)
        else:
            world.send_refused(world._refusal, self.name, *moves.write(move))

    def ends_dispute(self, dispute: int) -> None:
        """Says that the clock of a dispute has run out: who was on turn has lost."""
        world = self.world
        played, running = world.disputes.get(dispute), world.state.disputes.get(dispute)
        seat = None if running is None else world.state.seats[running.seat]
        is_closed = seat is not None and seat.status == SeatStatus.CONVICTED
        if running is not None and played is not None and not is_closed and world.block <= played.clock:
            world._expect("NotLate", f"the end of dispute {dispute}")
            self._moves(dispute, ("endDispute", ()))
            return
        is_answer = played is not None and played.stage in ANSWERS
        outcome = GameOutcome.CONVICTED if is_answer else GameOutcome.CLEARED
        self.send(calls.EndDispute(dispute, outcome=outcome))

    # Proofs
    def commits_proof(self, ref: StatementRef, proof: ProofKind, made: ContractCall | None = None) -> bytes:
        """Seals a proof, so that who copies it gains nothing; returns its digest. made: the proof, where it
        is not the world's."""
        digest = self.compute_digest(made or self.world.proofs.write(ref, proof))
        self.send(calls.CommitProof(digest))
        return digest

    def compute_digest(self, made: ContractCall) -> bytes:
        """Returns what seals the very call that brings a proof."""
        account = self.world.get_party(self.name).address
        data = encode_contract_call(made)
        return bytes(keccak(encode(["address", "bytes32"], [account, keccak(data)])))

    def convicts(
        self, ref: StatementRef, proof: ProofKind, made: ContractCall | None = None, **facts: Any
    ) -> None:
        """Commits to a proof, and brings it a block later."""
        self.commits_proof(ref, proof, made)
        self.world.passes()
        self.proves(ref, proof, made, **facts)

    def proves(
        self, ref: StatementRef, proof: ProofKind, made: ContractCall | None = None, **facts: Any
    ) -> None:
        """Brings a proof in one transaction."""
        made = made or self.world.proofs.write(ref, proof)
        self.world.send(calls.ConvictSeat(ref, proof, self.compute_digest(made), **facts), self.name, made)

    def fails_to_convict(self, ref: StatementRef, proof: ProofKind, *tried: tuple[ContractCall, str]) -> None:
        """Seals all these proofs, and brings each a block later: it is refused for its reason."""
        for made, _ in tried:
            self.commits_proof(ref, proof, made)
        self.world.passes()
        for made, reason in tried:
            with self.world.refuses("ProofInvalid", reason):
                self.proves(ref, proof, made, is_valid=False)


def find_accused(state: GameState, ref: StatementRef) -> int | None:
    """Returns the seat that made a statement, None where there is none."""
    game_round = state.rounds.get(ref.round)
    if game_round is None or ref.slot not in game_round.claims:
        return None
    if ref.draw is None:
        return game_round.claims[ref.slot].seat
    return get_drawn_seat(state, game_round, ref.slot, ref.draw, ref.rank)
