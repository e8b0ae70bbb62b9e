"""Machine calls as calls of the contracts: signatures, headers and draws are real.

A call of the machine has facts, which the contracts compute. Here a call gets the facts that the chain will
find, and becomes a contract, a function and its arguments.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, replace
from typing import Any

from tests.kit.members import (
    Draw,
    Member,
    hand_vote,
    make_member,
    make_vote,
    make_word,
    sign_merge,
)
from touchstone.node.records.handed_votes import HandedVote
from touchstone.protocol.adapters.chain.abi import to_snake_case
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment
from touchstone.protocol.spec.game.calls import GameCall, HandedOpening, SignedVote
from touchstone.protocol.spec.game.enums import GameOutcome, SeatRole
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState, StatementRef
from touchstone.protocol.spec.game.timing import compute_draw_window, get_closing_from, is_late_draw
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.statements import MergeSignature, Vote, VoteWord, compute_merged_hash
from touchstone.protocol.spec.typed_data import SigningDomain

ContractCall = tuple[Any, ...]
"""A contract, a function, and its arguments."""


class ContractCalls(ABC):
    """Writes the calls of one task.

    parties: by name; ids: of contests, queries and disputes on the chain by the machine's number; questions:
    of queries by the same; behind: the two nodes below an outer root; count: calls so far, for salts."""

    task: bytes
    signing: SigningDomain
    state: GameState
    parties: dict[str, Member]
    ids: dict[int, bytes]
    questions: dict[int, tuple[Any, ...]]
    behind: dict[bytes, tuple[bytes, bytes]]
    count: int

    @abstractmethod
    def get_block(self) -> int:
        """Returns the block that the next call is in."""

    @abstractmethod
    def get_header(self, block: int) -> tuple[bytes, bytes]:
        """Returns the header of a past block, and the randomness in it."""

    def write(self, call: GameCall) -> ContractCall | None:
        """Returns the call as the contracts take it, None where it cannot even be written down."""
        writer = getattr(self, "_write_" + to_snake_case(type(call).__name__))
        made: ContractCall | None = writer(call)
        return made

    def prepare(self, call: GameCall, block: int, sender: str) -> GameCall:
        """The call with the facts that the chain will find."""
        if isinstance(call, calls.DrawStart | calls.DrawRound | calls.DrawAudits | calls.DrawClosing):
            decisive = self._decisive(call, block)
            if decisive is None or decisive >= block:
                return call
            return replace(call, randomness=self.get_header(decisive)[1])
        if isinstance(call, calls.EndDispute) and call.dispute in self.ids:
            return replace(call, outcome=GameOutcome.CONVICTED)
        if isinstance(call, calls.QueryVote):
            return replace(call, is_leaf=call.leaf == 0, is_new=not self._is_asked(call, sender))
        return call

    def _is_asked(self, call: calls.QueryVote, sender: str) -> bool:
        """Whether the sender has asked this of the same vote, and no answer has ended it."""
        asked = (call.statement, call.word, call.leaf, self.parties[sender].address)
        return asked in {
            (one.statement, one.word, one.leaf, one.asker) for one in self.state.queries.values()
        }

    def _decisive(self, call: GameCall, block: int) -> int | None:
        """The block whose randomness a seal takes."""
        state = get_state_at(self.state, block)
        if isinstance(call, calls.DrawStart):
            return state.start.beacon_block if state.start else None
        if isinstance(call, calls.DrawClosing):
            from_block = get_closing_from(state, block)
            return None if from_block is None else compute_draw_window(state, from_block)[0] - 1
        assert isinstance(call, calls.DrawRound | calls.DrawAudits)
        game_round = state.rounds.get(call.round)
        if game_round is None:
            return None
        if isinstance(call, calls.DrawRound):
            return game_round.beacon_block
        return None if game_round.closed is None else compute_draw_window(state, game_round.closed)[0] - 1

    def _header(self, call: GameCall) -> bytes:
        decisive = self._decisive(call, self.get_block())
        return b"" if decisive is None or decisive >= self.get_block() else self.get_header(decisive)[0]

    def _write_deposit(self, call: calls.Deposit) -> tuple[Any, ...]:
        return "Vault", "deposit", call.wei

    def _write_withdraw_credit(self, call: GameCall) -> tuple[Any, ...]:
        return "Vault", "withdraw"

    def _write_join_seat(self, call: calls.JoinSeat) -> tuple[Any, ...]:
        return "Seats", "join", self.task, int(call.role), call.wei

    def _write_top_up(self, call: calls.TopUp) -> tuple[Any, ...]:
        return "Seats", "topUp", self.task, call.seat, call.wei

    def _write_leave_seat(self, call: calls.LeaveSeat) -> tuple[Any, ...]:
        return "Seats", "leave", self.task, call.seat

    def _write_pay_out(self, call: calls.PayOut) -> tuple[Any, ...]:
        return "Seats", "payOut", self.task, call.seat

    def _write_mark_silent(self, call: calls.MarkSilent) -> tuple[Any, ...]:
        missed = [(one.round, one.slot, one.draw) for one in call.missed]
        return "Settlement", "markSilent", self.task, call.seat, missed

    def _write_halt_task(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "halt", self.task

    def _write_close_task(self, call: GameCall) -> tuple[Any, ...]:
        return "Tasks", "closeTask", self.task

    def _write_free_epoch(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "freeEpoch", self.task

    def _write_start_rounds(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "start", self.task

    def _write_draw_start(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "drawStart", self.task, self._header(call)

    def _write_draw_round(self, call: calls.DrawRound) -> tuple[Any, ...]:
        return "Rounds", "drawRound", self.task, call.round, self._header(call)

    def _write_draw_audits(self, call: calls.DrawAudits) -> tuple[Any, ...]:
        return "Rounds", "drawAudits", self.task, call.round, self._header(call)

    def _write_draw_closing(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "drawClosing", self.task, self._header(call)

    def _write_commit_round(self, call: calls.CommitRound) -> tuple[Any, ...]:
        words = (call.base_root, call.beacon, call.claim_root, call.segments)
        return "Rounds", "commit", self.task, call.round, *words

    def _write_settle_seat(self, call: calls.SettleSeat) -> tuple[Any, ...]:
        return "Settlement", "settle", self.task, [call.seat], call.until_round

    def _write_let_stand(self, call: calls.LetStand) -> tuple[Any, ...]:
        return "Rounds", "stand", self.task, call.round

    def _write_post_root(self, call: calls.PostRoot) -> tuple[Any, ...]:
        game_round = self.state.rounds.get(call.round)
        bits = sum(1 << slot for slot in set(call.merged))
        solvers = sorted(seat for seat in set(call.signers) if seat >> 16 == SeatRole.SOLVER)
        signatures = b"".join(self._sign_merge(game_round, call, seat) for seat in solvers)
        numbers = sum(1 << (seat & 0xFFFF) for seat in solvers)
        return "Rounds", "post", self.task, call.round, bits, call.root, numbers, signatures

    def _sign_merge(self, game_round: GameRound | None, call: calls.PostRoot, seat: int) -> bytes:
        if game_round is None or seat not in self.state.seats:
            return bytes(64)
        shards = assign_shards(game_round.beacon or bytes(32), len(game_round.pool.solvers))
        slots = sorted(set(call.merged) & set(game_round.claims), key=lambda slot: shards[slot])
        merged = compute_merged_hash([game_round.claims[slot].claim_root for slot in slots])
        domain = self.state.terms.domain
        bits = sum(1 << slot for slot in slots)
        merge = MergeSignature(domain, call.round, game_round.base_root, bits, merged, call.root)
        return sign_merge(self._member(self.state.seats[seat].account), merge, self.signing)

    def _member(self, account: str) -> Member:
        return next(one for one in self.parties.values() if one.address == account)

    def _write_judge_votes(self, call: calls.JudgeVotes) -> tuple[Any, ...]:
        opened = {(one.slot, one.draw, one.rank): one for one in call.openings}
        handed = [
            self._hand(call.round, vote, opened.pop((vote.slot, vote.draw, vote.rank), None))
            for vote in call.votes
        ]
        handed += [self._hand_again(call.round, one) for one in opened.values()]
        return "Votes", "judge", self.task, call.round, [one for one in handed if one is not None]

    def _hand_again(self, index: int, opening: HandedOpening) -> HandedVote | None:
        votes = self.state.rounds[index].votes.get((opening.slot, opening.draw), {})
        if opening.rank not in votes:
            return None
        ref = StatementRef(index, opening.slot, opening.draw, opening.rank)
        vote, shown, auditor = self._vote(ref, votes[opening.rank].word)
        return hand_vote(
            vote, shown if opening.is_fitting else (*shown[:3], bytes(32)), auditor, self.signing
        )

    def _hand(self, index: int, vote: SignedVote, opening: HandedOpening | None) -> HandedVote | None:
        ref = StatementRef(index, vote.slot, vote.draw, vote.rank)
        if get_drawn_seat(self.state, self.state.rounds[index], vote.slot, vote.draw, vote.rank) is None:
            return None
        made, shown, _ = self._vote(ref, vote.word)
        made = self._notify(made, vote, ref)
        signer = next(
            (one for one in self.parties.values() if one.address == vote.signer), make_member("nobody")
        )
        is_shown = opening is not None and vote.word not in (VoteWord.UNSERVED, VoteWord.ABSTAIN)
        return hand_vote(made, shown if is_shown else None, signer, self.signing)

    def _notify(self, made: Vote, vote: SignedVote, ref: StatementRef) -> Vote:
        """With what the vote says otherwise than a right one."""
        start = made.start_leaf if vote.is_complete else bytes(32)
        about = replace(made, claim_root=vote.claim_root, seed=vote.seed, segment=vote.segment)
        return replace(about, start_leaf=start)

    def _vote(self, ref: StatementRef, word: VoteWord, leaf: int = 0) -> tuple[Any, Any, Member]:
        """The vote that the drawn seat would sign, what opens it, and who it is."""
        state, game_round = self.state, self.state.rounds[ref.round]
        assert ref.draw is not None
        seat = get_drawn_seat(state, game_round, ref.slot, ref.draw, ref.rank)
        segment = get_drawn_segment(state, game_round, ref.slot, ref.draw)
        assert seat is not None and segment is not None
        claim, auditor = game_round.claims[ref.slot], self._member(state.seats[seat].account)
        seed = (game_round.late_seed if is_late_draw(state, ref.draw) else game_round.seed) or b""
        about = Draw(
            state.terms.domain, ref.round, game_round.base_root, seed, ref.slot, claim.claim_root, ref.draw,
            ref.rank, segment, claim.account,
        )  # fmt: skip
        named = leaf if word in (VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA) else 0
        vote, shown = make_vote(about, auditor, word, named, word == VoteWord.ACCEPT)
        return vote, shown, auditor

    def _write_open_contest(self, call: calls.OpenContest) -> tuple[Any, ...]:
        return "Contests", "contest", self.task, call.round, call.bond_limit, make_word("contest", self.count)

    def _write_end_root_contest(self, call: calls.EndRootContest) -> tuple[Any, ...]:
        return "Contests", "endContest", self.task, self.ids.get(call.contest, bytes(32))

    def _write_query_vote(self, call: calls.QueryVote) -> tuple[Any, ...] | None:
        game_round = self.state.rounds.get(call.statement.round)
        ref = call.statement
        drawn = None if game_round is None or ref.draw is None else get_drawn_seat(
            self.state, game_round, ref.slot, ref.draw, ref.rank
        )  # fmt: skip
        if drawn is None or drawn not in self.state.seats:
            return None
        vote, _, auditor = self._vote(ref, call.word, call.leaf)
        handed = hand_vote(vote, None, auditor, self.signing)
        return "Queries", "queryVote", self.task, (list_words(vote), *handed[-2:]), call.leaf, call.bond_limit

    def _write_end_query(self, call: calls.EndQuery) -> tuple[Any, ...] | None:
        question = self.questions.get(call.query)
        return None if question is None else ("Queries", "endQuery", self.task, question)

    def _write_dispute_statement(self, call: calls.DisputeStatement) -> tuple[Any, ...] | None:
        ref = call.statement
        if ref.draw is not None:
            return None
        return (
            "Disputes",
            "disputeClaim",
            self.task,
            ref.round,
            ref.slot,
            0,
            call.bond_limit,
            make_word("d", self.count),
        )

    def _write_end_dispute(self, call: calls.EndDispute) -> tuple[Any, ...] | None:
        return "Disputes", "endDispute", self.task, self.ids.get(call.dispute, bytes(32))

    def make_root(self, *about: object) -> bytes:
        """An outer root, of which this remembers what is behind it."""
        behind = make_word("weights", *about), make_word("momentum", *about)
        root = hash_words("touchstone.outer", *behind)
        self.behind[root] = behind
        return root

    def _nodes(self, number: int) -> tuple[bytes, ...]:
        contest = self.state.contests.get(number)
        return () if contest is None else self.behind[contest.root]

    def _write_answer_contest(self, call: calls.AnswerContest) -> tuple[Any, ...]:
        name = self.ids.get(call.contest, bytes(32))
        return "Contests", "answerContest", self.task, name, self._nodes(call.contest)

    def _write_name_child(self, call: calls.NameChild) -> tuple[Any, ...]:
        name = self.ids.get(call.contest, bytes(32))
        return "Contests", "nameChild", self.task, name, call.child, self._nodes(call.contest)


def list_words(vote: Any) -> tuple[Any, ...]:
    """A vote as the ABI takes it."""
    return tuple(asdict(vote).values())
