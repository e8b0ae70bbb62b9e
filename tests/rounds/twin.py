"""The pure machine and the contracts, side by side: each call goes to both, and they must agree.

A call passes in both or is refused in both by the same name. After each the money, the seats and the rounds
of the contracts are those of the machine's state. Signatures, headers and draws are real.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.rounds.chain import RoundChain, Sent
from tests.rounds.logged import LoggedTask
from tests.rounds.members import (
    ContractParty,
    Draw,
    HandedVote,
    Member,
    Party,
    hand_vote,
    make_member,
    make_vote,
    make_word,
    sign_merge,
)
from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment
from touchstone.protocol.spec.game.calls import GameCall, HandedOpening, SignedVote
from touchstone.protocol.spec.game.enums import GameOutcome, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.money_book import MoneyBook, note_event
from touchstone.protocol.spec.game.purse import BURNED, ESCROW, PotKind, credit_of, stake_of
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.round_machine import apply, get_state_at
from touchstone.protocol.spec.game.round_opening import SHARES
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import GameRound, GameState, StatementRef, create_game
from touchstone.protocol.spec.game.terms import GameTerms, compute_escrow
from touchstone.protocol.spec.game.timing import compute_draw_window, get_closing_from, is_late_draw
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import EXACT_FORMAT
from touchstone.protocol.spec.shard_draws import deal_shards
from touchstone.protocol.spec.statements import MergeSignature, VoteWord, compute_merged_hash
from touchstone.protocol.spec.typed_data import SigningDomain
from touchstone.scripts.network.devnet import CHAIN_ID

WEALTH_WEI = 10**24
STRANGER = "stranger"


class Disagreement(AssertionError):
    """Machine and contracts part."""


class Twin:
    """One task. parties: who may send, by name; numbers: bonds' ids on the chain by the machine's number."""

    def __init__(self, chain: RoundChain, terms: GameTerms, names: tuple[str, ...]) -> None:
        self.chain = chain
        names = ("submitter", STRANGER, *names)
        self.parties = {name: make_member(f"{name} of task {terms.domain.hex()}") for name in names}
        self.burned = int(chain.read("Purse", "burnPending"))
        start = chain.get_block() + 1
        for party in self.parties.values():
            self._fund(party, max(WEALTH_WEI, compute_escrow(terms)))
        submitter = self.parties["submitter"]
        self.task, root = self._post(submitter, terms)
        domain = hash_words("touchstone.domain", CHAIN_ID, chain.addresses["Tasks"], self.task)
        self.signing = SigningDomain(CHAIN_ID, chain.addresses["Tasks"])
        terms = replace(terms, submitter=submitter.address, domain=domain, root=root)
        self.state = create_game(terms, chain.limits, chain.get_block())
        self.money = MoneyBook()
        self.logged = LoggedTask(chain, self.task, self.signing, start)
        self.ids: dict[int, bytes] = {}
        self.behind: dict[bytes, tuple[bytes, bytes]] = {}
        self.questions: dict[int, tuple[Any, ...]] = {}
        self.count = 0
        self.calls: list[tuple[GameCall, str, int]] = []

    def _fund(self, party: Member, wei: int) -> None:
        self.chain.ask(("anvil_setBalance", [party.address, hex(WEALTH_WEI)]))
        purse = self.chain.addresses["Purse"]
        self._must(self.chain.send(party.address, "DevToken", "mint", party.address, wei))
        self._must(self.chain.send(party.address, "DevToken", "approve", purse, wei))

    def _must(self, sent: Sent) -> Sent:
        if sent.error is not None:
            raise Disagreement(f"the set-up is refused: {sent.error}")
        return sent

    def _post(self, submitter: Member, terms: GameTerms) -> tuple[bytes, bytes]:
        steps = 5
        encoded = (
            submitter.address, make_word("salt", terms.domain), make_word("W"), make_word("zero"),
            make_word("schedule"), make_word("step"), EXACT_FORMAT * terms.is_exact, 0, 200, terms.rounds,
            terms.segment_count * steps, steps, terms.solver_seats, terms.draws, terms.late_chance,
            terms.least_solvers, terms.least_verifiers, terms.least_whistleblowers, 0, 0x3F000000, 0x3F000000,
            tuple(asdict(terms.windows).values()), tuple(asdict(terms.amounts).values()), (1,) * 6,
        )  # fmt: skip
        escrow = compute_escrow(terms)
        self._must(self.chain.send(submitter.address, "Purse", "deposit", escrow))
        sent = self._must(self.chain.send(submitter.address, "Tasks", "postTask", encoded, b"text"))
        task = next(bytes(values["task"]) for _, name, values in sent.events if name == "TaskPosted")
        return task, hash_words("touchstone.outer", make_word("W"), make_word("zero"))

    # --- One call to both -----------------------------------------------------------------------------------
    def get_block(self) -> int:
        """The block that the next call is in."""
        return self.chain.get_block() + 1

    def do(self, call: GameCall, sender: str) -> str | None:
        """The name of the refusal, None where the call passed. Raises Disagreement."""
        if self.is_early(call):
            return "early"
        self.count += 1
        self.calls.append((call, sender, self.get_block()))
        block, party = self.get_block(), self._find_party(sender)
        account = SHARES if sender == SHARES else party.address
        prepared = self._prepare(call, block, sender)
        before, refused = self.state, None
        try:
            events = apply(self.state, prepared, account, block)
        except GameRefusal as refusal:
            refused, events = refusal.name, ()
        sent = self._send(prepared, party)
        self._compare(prepared, refused, sent)
        for event in events:
            self.money = note_event(self.money, self.state, event, block)
            self.state = fold(self.state, event, block)
        if refused is None:
            self._remember(prepared, before, party, sent)
            self.check()
        self._check_logs()
        return refused

    def _find_party(self, sender: str) -> Party:
        """A member, or the contract that halts a task for the majority of its shares."""
        return ContractParty(self.chain.addresses["Shares"]) if sender == SHARES else self.parties[sender]

    def _check_logs(self) -> None:
        """What the logs alone tell is the machine's state."""
        self.logged.catch_up()
        for difference in self.logged.list_differences(self.state):
            raise Disagreement(f"{difference}, after {self.calls[-1]}")
        for name, party in self.parties.items():
            held = self.state.purse.get_wei(credit_of(party.address))
            self._equal(f"logged credit of {name}", held, self.logged.credits[party.address])
        self._check_account_of_money()

    def _check_account_of_money(self) -> None:
        """By the task's logs alone it is the machine's. It explains the credits, of which the purse tells."""
        self._equal("book of money", self.money, self.logged.game.money)
        found = self.logged.compute_money()
        for account in {*found, *(party.address for party in self.parties.values())}:
            money = found.get(account, AccountMoney(account))
            explained = self.logged.brought[account] + money.change
            self._equal(f"explained credit of {account}", explained, self.logged.credits[account])

    def _compare(self, call: GameCall, refused: str | None, sent: Sent | None) -> None:
        if sent is None:
            if refused is None:
                raise Disagreement(f"{call}: passes in the machine, cannot be made for the chain")
            return
        if refused is None and isinstance(call, calls.JudgeVotes):
            return
        if sent.error != refused:
            raise Disagreement(
                f"{call}: the machine says {refused}, the contract {sent.error} at {self.get_block() - 1}"
            )

    def _remember(self, call: GameCall, before: GameState, party: Party, sent: Sent | None) -> None:
        if sent is None:
            return
        for _, name, values in sent.events:
            if name in ("AskOpened", "Contested", "DisputeOpened"):
                number = before.next_number
                self.ids[number] = bytes(values.get("id") or values["dispute"])
                if name == "AskOpened":
                    assert isinstance(call, calls.AskSigner)
                    vote, _, _ = self._vote(call.statement, call.word, call.leaf)
                    said = _words(vote)
                    self.questions[number] = (said, call.leaf, values["seat"], values["asker"])

    # --- Facts ----------------------------------------------------------------------------------------------
    def _prepare(self, call: GameCall, block: int, sender: str) -> GameCall:
        """The call with the facts that the chain will find."""
        if isinstance(call, calls.SealStart | calls.SealRound | calls.SealAudits | calls.SealClosing):
            decisive = self._decisive(call, block)
            if decisive is None or decisive >= block:
                return call
            return replace(call, randomness=self.chain.get_header(decisive)[1])
        if isinstance(call, calls.EndDispute) and call.dispute in self.ids:
            return replace(call, outcome=GameOutcome.CONVICTED)
        if isinstance(call, calls.AskSigner):
            return replace(call, is_leaf=call.leaf == 0, is_new=not self._is_asked(call, sender))
        return call

    def _is_asked(self, call: calls.AskSigner, sender: str) -> bool:
        """Whether the sender has asked this of the same vote, and no answer has ended it."""
        asked = (call.statement, call.word, call.leaf, self.parties[sender].address)
        return asked in {(one.statement, one.word, one.leaf, one.asker) for one in self.state.asks.values()}

    def is_early(self, call: GameCall) -> bool:
        """Whether a dispute cannot be ended yet: inside it the claimant, who says nothing here, has time."""
        if not isinstance(call, calls.EndDispute) or call.dispute not in self.ids:
            return False
        dispute = self.state.disputes.get(call.dispute)
        seat = None if dispute is None else self.state.seats.get(dispute.seat)
        if dispute is None or (seat is not None and seat.status == SeatStatus.CLOSED):
            return False
        clock = self.chain.read("Disputes", "disputeOf", self.task, self.ids[call.dispute])[1]
        return self.get_block() <= int(clock)

    def _decisive(self, call: GameCall, block: int) -> int | None:
        """The block whose randomness a seal takes."""
        state = get_state_at(self.state, block)
        if isinstance(call, calls.SealStart):
            return state.start.beacon_block if state.start else None
        if isinstance(call, calls.SealClosing):
            from_block = get_closing_from(state, block)
            return None if from_block is None else compute_draw_window(state, from_block)[0] - 1
        assert isinstance(call, calls.SealRound | calls.SealAudits)
        game_round = state.rounds.get(call.round)
        if game_round is None:
            return None
        if isinstance(call, calls.SealRound):
            return game_round.beacon_block
        return None if game_round.closed is None else compute_draw_window(state, game_round.closed)[0] - 1

    def _header(self, call: GameCall) -> bytes:
        decisive = self._decisive(call, self.get_block())
        return b"" if decisive is None or decisive >= self.get_block() else self.chain.get_header(decisive)[0]

    # --- Calls of the contracts -----------------------------------------------------------------------------
    def _send(self, call: GameCall, party: Party) -> Sent | None:
        """None where the call cannot even be written down for the chain."""
        made = _WRITERS[type(call)](self, call)
        return None if made is None else self.chain.send(party.address, *made)

    def _write_deposit(self, call: calls.Deposit) -> tuple[Any, ...]:
        return "Purse", "deposit", call.wei

    def _write_withdraw_credit(self, call: GameCall) -> tuple[Any, ...]:
        return "Purse", "withdraw"

    def _write_join_seat(self, call: calls.JoinSeat) -> tuple[Any, ...]:
        return "Tasks", "join", self.task, int(call.role), call.wei

    def _write_top_up(self, call: calls.TopUp) -> tuple[Any, ...]:
        return "Tasks", "topUp", self.task, call.seat, call.wei

    def _write_leave_seat(self, call: calls.LeaveSeat) -> tuple[Any, ...]:
        return "Tasks", "leave", self.task, call.seat

    def _write_pay_out(self, call: calls.PayOut) -> tuple[Any, ...]:
        return "Tasks", "payOut", self.task, call.seat

    def _write_mark_silent(self, call: calls.MarkSilent) -> tuple[Any, ...]:
        missed = [(one.round, one.slot, one.draw) for one in call.missed]
        return "Settlement", "markSilent", self.task, call.seat, missed

    def _write_halt_task(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "halt", self.task

    def _write_close_game(self, call: GameCall) -> tuple[Any, ...]:
        return "Tasks", "closeTask", self.task

    def _write_free_epoch(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "freeEpoch", self.task

    def _write_start_rounds(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "start", self.task

    def _write_seal_start(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "sealStart", self.task, self._header(call)

    def _write_seal_round(self, call: calls.SealRound) -> tuple[Any, ...]:
        return "Rounds", "sealRound", self.task, call.round, self._header(call)

    def _write_seal_audits(self, call: calls.SealAudits) -> tuple[Any, ...]:
        return "Rounds", "sealAudits", self.task, call.round, self._header(call)

    def _write_seal_closing(self, call: GameCall) -> tuple[Any, ...]:
        return "Rounds", "sealClosing", self.task, self._header(call)

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
        shards = deal_shards(game_round.beacon or bytes(32), len(game_round.pool.solvers))
        slots = sorted(set(call.merged) & set(game_round.claims), key=lambda slot: shards[slot])
        merged = compute_merged_hash([game_round.claims[slot].claim_root for slot in slots])
        domain = self.state.terms.domain
        bits = sum(1 << slot for slot in slots)
        merge = MergeSignature(domain, call.round, game_round.base_root, bits, merged, call.root)
        return sign_merge(self._member(self.state.seats[seat].account), merge, self.signing)

    def _member(self, account: str) -> Member:
        return next(one for one in self.parties.values() if one.address == account)

    # --- Votes ----------------------------------------------------------------------------------------------
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
        signer = next(
            (one for one in self.parties.values() if one.address == vote.signer), make_member("nobody")
        )
        is_shown = opening is not None and vote.word not in (VoteWord.UNSERVED, VoteWord.ABSTAIN)
        return hand_vote(made, shown if is_shown else None, signer, self.signing)

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

    # --- Contests, asks, disputes: their outer shell --------------------------------------------------------
    def _write_open_contest(self, call: calls.OpenContest) -> tuple[Any, ...]:
        return "Contests", "contest", self.task, call.round, call.bond_limit, make_word("contest", self.count)

    def _write_end_root_contest(self, call: calls.EndRootContest) -> tuple[Any, ...]:
        return "Contests", "endContest", self.task, self.ids.get(call.contest, bytes(32))

    def _write_ask_signer(self, call: calls.AskSigner) -> tuple[Any, ...] | None:
        game_round = self.state.rounds.get(call.statement.round)
        ref = call.statement
        drawn = None if game_round is None or ref.draw is None else get_drawn_seat(
            self.state, game_round, ref.slot, ref.draw, ref.rank
        )  # fmt: skip
        if drawn is None or drawn not in self.state.seats:
            return None
        vote, _, auditor = self._vote(ref, call.word, call.leaf)
        handed = hand_vote(vote, None, auditor, self.signing)
        return "Asks", "ask", self.task, (_words(vote), *handed[-2:]), call.leaf, call.bond_limit

    def _write_end_ask(self, call: calls.EndAsk) -> tuple[Any, ...] | None:
        question = self.questions.get(call.ask)
        return None if question is None else ("Asks", "endAsk", self.task, question)

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
        return "Disputes", "end", self.task, self.ids.get(call.dispute, bytes(32))

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
        return "Contests", "answer", self.task, name, self._nodes(call.contest)

    def _write_name_child(self, call: calls.NameChild) -> tuple[Any, ...]:
        name = self.ids.get(call.contest, bytes(32))
        return "Contests", "nameChild", self.task, name, call.child, self._nodes(call.contest)

    # --- Comparing states -----------------------------------------------------------------------------------
    def check(self) -> None:
        """Money, seats and rounds of the contracts are the machine's."""
        block = self.chain.get_block()
        state = get_state_at(self.state, block)
        self._check_money(state)
        views = [("Tasks", "seatAt", self.task, number) for number in state.seats]
        seen = self.chain.read_many(views)
        for (number, seat), (account, stake, status, settled, _) in zip(
            state.seats.items(), seen, strict=True
        ):
            expected = (
                seat.account,
                state.purse.get_wei(stake_of(number)),
                int(seat.status),
                seat.settled,
            )
            self._equal(f"seat {number}", expected, (account, stake, status, settled))
        for index in sorted(state.rounds)[-3:]:
            self._check_round(self.state, index)

    def _check_money(self, state: GameState) -> None:
        pots = state.purse.wei
        views = [("Purse", "creditOf", party.address) for party in self.parties.values()]
        seen = self.chain.read_many(views)
        for (name, party), held in zip(self.parties.items(), seen, strict=True):
            self._equal(f"credit of {name}", state.purse.get_wei(credit_of(party.address)), held)
        stakes = sum(wei for pot, wei in pots.items() if pot.kind == PotKind.STAKE)
        bonds = sum(wei for pot, wei in pots.items() if pot.kind == PotKind.BOND)
        for name, wei in {"escrow": state.purse.get_wei(ESCROW), "stakes": stakes, "bonds": bonds}.items():
            self._equal(name, wei, self.chain.read("Purse", "potOf", self._pot(name)))
        burned = self.chain.read("Purse", "burnPending") - self.burned
        self._equal("burned", state.purse.get_wei(BURNED), burned)

    def _pot(self, name: str) -> bytes:
        return bytes(keccak(encode(["string", "bytes32"], [name, self.task])))

    def _check_round(self, state: GameState, index: int) -> None:
        game_round = state.rounds[index]
        seen = self.chain.read("Rounds", "roundOf", self.task, index)
        phase, committed = seen[0], sum(1 << slot for slot in game_round.claims)
        self._equal(f"phase of round {index}", int(game_round.phase), phase)
        self._equal(f"claims of round {index}", committed, seen[3])
        self._equal(f"opened {index}", game_round.opened, seen[7])
        if game_round.closed is not None and game_round.phase != RoundPhase.UNDONE and seen[8]:
            self._equal(f"closed {index}", game_round.closed, seen[8])
        self._equal(f"late from {index}", game_round.late_from or 0, seen[9])
        late = sum(1 << slot for slot in game_round.late_slots)
        self._equal(f"late slots {index}", late, seen[6])
        if game_round.phase == RoundPhase.POSTED:
            merged = sum(1 << slot for slot in game_round.merged)
            self._equal(
                f"outcome of {index}",
                (merged, game_round.root_until, game_round.root),
                (seen[4], seen[10], seen[14]),
            )

    def _equal(self, what: str, expected: Any, actual: Any) -> None:
        if expected != actual:
            raise Disagreement(
                f"{what}: the machine has {expected}, the contracts {actual}, after {self.calls[-1]}"
            )


def _words(vote: Any) -> tuple[Any, ...]:
    """A vote as the ABI takes it."""
    return tuple(asdict(vote).values())


_WRITERS: Mapping[type[GameCall], Callable[[Twin, Any], tuple[Any, ...] | None]] = {
    calls.Deposit: Twin._write_deposit,
    calls.WithdrawCredit: Twin._write_withdraw_credit,
    calls.JoinSeat: Twin._write_join_seat,
    calls.TopUp: Twin._write_top_up,
    calls.LeaveSeat: Twin._write_leave_seat,
    calls.PayOut: Twin._write_pay_out,
    calls.MarkSilent: Twin._write_mark_silent,
    calls.HaltTask: Twin._write_halt_task,
    calls.CloseGame: Twin._write_close_game,
    calls.FreeEpoch: Twin._write_free_epoch,
    calls.StartRounds: Twin._write_start_rounds,
    calls.SealStart: Twin._write_seal_start,
    calls.SealRound: Twin._write_seal_round,
    calls.SealAudits: Twin._write_seal_audits,
    calls.SealClosing: Twin._write_seal_closing,
    calls.CommitRound: Twin._write_commit_round,
    calls.SettleSeat: Twin._write_settle_seat,
    calls.LetStand: Twin._write_let_stand,
    calls.PostRoot: Twin._write_post_root,
    calls.JudgeVotes: Twin._write_judge_votes,
    calls.OpenContest: Twin._write_open_contest,
    calls.EndRootContest: Twin._write_end_root_contest,
    calls.AnswerContest: Twin._write_answer_contest,
    calls.NameChild: Twin._write_name_child,
    calls.AskSigner: Twin._write_ask_signer,
    calls.EndAsk: Twin._write_end_ask,
    calls.DisputeStatement: Twin._write_dispute_statement,
    calls.EndDispute: Twin._write_end_dispute,
}
"""How a call is written for the chain; None where it cannot be."""
