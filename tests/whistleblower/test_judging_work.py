"""Wrong starts and pseudo-gradients: a node proves what it found itself, by as little as the proof takes."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kit.nodes import TASK, NoJournal, Told, change_spec, get_told, make_view
from tests.node.upkeep.test_pruning import open_solver
from tests.protocol.spec.game.simulation import is_drawn, make_word, make_world
from tests.verifier.stage import begin_model
from tests.whistleblower.stage import (
    ONLOOKER,
    get_solver,
    make_boundary,
    make_vote,
    open_onlooker,
    play_round,
)
from touchstone.node.kit.view import View
from touchstone.node.models.claim_openings import ClaimData
from touchstone.node.models.global_model import GlobalModel
from touchstone.node.models.own_openings import open_boundary, open_work
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.claim_records import WorkProof
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.handed_votes import HandedVote
from touchstone.node.records.heard_statements import ClaimOpenings, KnownVote
from touchstone.protocol.adapters.chain.abi import find_function, load_own_abi
from touchstone.protocol.adapters.chain.abi_values import encode_call, encode_values
from touchstone.protocol.adapters.chain.contract_events import decode_event
from touchstone.protocol.compute.digest import build_delta_tree
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.spec.claim_tree import compute_carried_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.state import CountedVote, GameRound, SlotClaim, StatementRef
from touchstone.protocol.spec.game.timing import get_statement_until
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES, SCALE_BYTE_MAX
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.roles.role_nodes import Member
from touchstone.whistleblower import judging_work, votes_on_chain
from touchstone.whistleblower.challenging import ProveWork, next_actions
from touchstone.whistleblower.judging_work import (
    FalseClaim,
    FalseStart,
    FalseWorkVote,
    WorkFault,
    list_work_faults,
)
from touchstone.whistleblower.proof_calls import NO_WORK, Proof, ProofCalls
from touchstone.whistleblower.votes_on_chain import VotesOnChain
from touchstone.whistleblower.work_proofs import get_openings

CLAIM = StatementRef(0, 0)
REJECTS = (VoteWord.REJECT_START, VoteWord.REJECT_DELTA)


def list_found(node: Member, *votes: KnownVote, block: int = 0) -> list[WorkFault]:
    """What the node would prove in a block, by default the next one."""
    get_told(node).votes = list(votes)
    next_block = node.state.head_block + 1
    return list(list_work_faults(node.get_view(), node.game.rounds[0], block or next_block))


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Any, ...]]]:
    """What is proven: the function of Evidence and its arguments."""
    sent: list[tuple[str, tuple[Any, ...]]] = []

    async def note(calls: ProofCalls, proof: Proof) -> None:
        sent.append((proof.function, proof.arguments))

    monkeypatch.setattr(ProofCalls, "send_proof", note)
    return sent


# Finding
@pytest.mark.parametrize("word", REJECTS)
def test_an_auditor_proves_what_its_own_vote_says_and_believes_no_other(
    tmp_path: Path, word: VoteWord
) -> None:
    """Where step numbers at boundary 0 are wrong it could compare nothing, and that boundary is the proof."""
    own, other = make_vote(word), make_vote(word, rank=1)
    with open_onlooker(tmp_path, own.auditor) as node:
        assert list_found(node, own) == list_found(node, own, other) == [FalseClaim(own)]
        assert list_found(node, other) == []
        assert list_found(node, make_vote(VoteWord.ABSTAIN), other) == [], "it has compared nothing"
        until = get_statement_until(node.game, CLAIM)
        assert list_found(node, own, block=until) and not list_found(node, own, block=until + 1)
        get_told(node).starts = [(0, make_boundary("steps of another place"))]
        assert list_found(node, make_vote(VoteWord.UNSERVED)) == [FalseStart(CLAIM)]
        assert list_found(node, own) == [FalseClaim(own)], "once is enough"


@pytest.mark.parametrize("word", REJECTS)
def test_who_accepted_a_claim_or_made_it_refutes_a_rejection_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: VoteWord
) -> None:
    """A rejection of the end state is not refuted here: that takes a dispute."""
    own, false = make_vote(), make_vote(word, rank=1)
    state = make_vote(VoteWord.REJECT_STATE, rank=2)
    with open_onlooker(tmp_path, own.auditor) as node:
        assert list_found(node, own, false, state) == [FalseWorkVote(false)]
    with open_onlooker(tmp_path, get_solver()) as node:
        assert list_found(node, false) == [], "its journal was lost"
        monkeypatch.setattr(judging_work, "list_own_boundaries", lambda view, index: {0: None})
        assert list_found(node, false, state) == [FalseWorkVote(false)]


@pytest.mark.parametrize("word", REJECTS)
def test_an_opening_that_comes_later_makes_no_second_duty_of_a_proof(tmp_path: Path, word: VoteWord) -> None:
    """Its signer chooses when it comes: two proofs of one vote would undo each other's seal."""
    own, false = make_vote(), make_vote(word, rank=1)
    opened = make_vote(word, rank=1, end=make_word("end"))
    assert false != opened and false.signature == opened.signature
    duties = set[object]()
    with open_onlooker(tmp_path, own.auditor) as node:
        for known in (false, opened):
            get_told(node).votes = [own, known]
            found = next_actions(node.get_view(), node.state.head_block + 1)
            duties |= {duty for duty in found if isinstance(duty, ProveWork)}
    assert len(duties) == 1


# Proving
async def test_a_wrong_carried_root_is_proven_without_the_pseudo_gradient(
    tmp_path: Path, proven: list[Any]
) -> None:
    """Its solver may withhold that. Here no peer shows anything."""
    last, found = make_boundary("last"), make_vote(VoteWord.REJECT_DELTA)
    work = WorkProof(make_word("delta"), compute_carried_root(make_boundary("other").header), ())
    with open_onlooker(tmp_path, found.auditor) as node:
        get_told(node).openings[0] = ClaimOpenings({}, work, last)
        await node.list_challenges().work_proofs.prove_claim(found)
    assert proven == [("proveCarried", ({"round": 0, "slot": 0}, work, last))]


@pytest.mark.parametrize("scale", [SCALE_BYTE_MAX, SCALE_BYTE_MAX + 1])
async def test_a_scale_that_no_encoding_has_is_proven_by_its_leaf_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proven: list[Any], scale: int
) -> None:
    """With the largest scale that there is, the proof takes the final weights, which are unknown here."""

    async def have(*arguments: Any) -> bytes:
        return b""

    monkeypatch.setattr(ClaimData, "fetch_delta", have)
    weights = begin_model().weights
    delta = bytearray(encode_delta(weights, weights))
    delta[DELTA_LEAF_BYTES] = scale
    found = make_vote(VoteWord.REJECT_DELTA, named_leaf=1)
    root = build_delta_tree(bytes(delta)).root
    work = WorkProof(root, bytes(32), ())
    with open_onlooker(tmp_path, found.auditor) as node:
        node.store.put_delta(root, bytes(delta))
        get_told(node).openings[0] = ClaimOpenings({}, work)
        if scale == SCALE_BYTE_MAX:
            with pytest.raises(EnvironmentFault, match="the last boundary of round 0, slot 0"):
                await node.list_challenges().work_proofs.prove_claim(found)
            assert not proven
        else:
            await node.list_challenges().work_proofs.prove_claim(found)
            ((function, words),) = proven
            assert (function, words[1:3]) == ("proveScale", (1, work)) and words[3].data[0] == scale


@pytest.mark.parametrize("carries", [0, 1])
async def test_a_start_is_shown_with_the_work_that_its_moments_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carries: int
) -> None:
    """That of the same seat in the round before. Where moments begin anew the contract wants none. What was
    never shown cannot be proven wrong."""
    asked: list[SlotClaim] = []

    async def find(data: ClaimData, game_round: GameRound, claim: SlotClaim) -> WorkProof:
        asked.append(claim)
        return WorkProof(make_word("delta", game_round.index), make_word("carried"), ())

    async def load(model: GlobalModel, root: bytes) -> OuterHeader:
        return OuterHeader(root, root)

    monkeypatch.setattr(ClaimData, "find_work", find)
    monkeypatch.setattr(GlobalModel, "load_outer", load)
    first, game = make_boundary("first"), play_round(1)
    with open_onlooker(tmp_path, ONLOOKER, game) as node:
        spec = node.task.spec
        terms = replace(spec.terms, carry_moments=carries)
        change_spec(node, replace(spec, terms=terms))
        form = await node.list_challenges().work_proofs.make_start(1, 1, ClaimOpenings({0: first}))
        with pytest.raises(EnvironmentFault, match="boundary 0 of round 1, slot 1"):
            await node.list_challenges().work_proofs.make_start(1, 1, ClaimOpenings({4: first}))
    base = game.rounds[1].base_root
    assert (form["first"], form["base"]) == (first, OuterHeader(base, base))
    assert form["work"].delta_root == (make_word("delta", 0) if carries else NO_WORK.delta_root)
    assert [claim.seat for claim in asked] == [game.rounds[1].claims[1].seat] * carries


async def test_a_solver_opens_its_own_claim_itself(tmp_path: Path) -> None:
    """Its auditors, who have the same openings, may be those that lie."""
    async with open_solver(tmp_path) as (stage, node):
        found, last = get_openings(node.get_view(), 0, stage.get_slot(1)), 4
        assert found.boundaries == {one: open_boundary(node.get_view(), 0, one) for one in (0, last)}
        assert (found.work, found.last) == (
            open_work(node.get_view(), 0),
            open_boundary(node.get_view(), 0, last),
        )


ROUND, WORD = 7, 32
WORDS = [bytes([n]) * 32 for n in range(1, 10)]
SHOWN = (WORDS[3], WORDS[4], WORDS[5], WORDS[6])
ROOTS = (WORDS[0], WORDS[1], WORDS[2])
HANDED = HandedVote(3, 0, 0, 0, True, 5, *ROOTS, SHOWN, WORDS[7], WORDS[8])
LATE = HANDED._replace(slot=4)
COUNTED = CountedVote(VoteWord.ACCEPT, 150)
NEWS = votes_on_chain.Unread(
    ROUND, frozenset({(StatementRef(ROUND, slot, 0, 0), COUNTED) for slot in (3, 4)})
)


def make_call(name: str, *arguments: Any) -> bytes:
    return encode_call(find_function(load_own_abi("Votes"), name), [TASK, *arguments])


CALL = make_call("judge", ROUND, [HANDED])
POST = make_call("judgeAndPost", ROUND + 1, [LATE], [HANDED], 1, b"r" * 32, 1, b"s" * 65)


def make_event(name: str, transaction: bytes, task: bytes = TASK, **arguments: Any) -> Any:
    return SimpleNamespace(name=name, transaction_hash=transaction, arguments={"task": task, **arguments})


def make_relayed(
    transaction: bytes, index: int = ROUND, *votes: HandedVote, task: bytes = TASK
) -> SimpleNamespace:
    """The log as the decoder gives it: a tuple for each vote."""
    entry = next(one for one in load_own_abi("Votes") if one.name == "VotesRelayed")
    shown = [tuple(one) for one in votes or (HANDED,)]
    topics = [entry.digest, task, index.to_bytes(WORD, "big")]
    arguments = decode_event(entry, topics, encode_values(entry.inputs[2:], [shown]))
    return SimpleNamespace(name=entry.name, transaction_hash=transaction, arguments=arguments)


class Chain:
    """A chain whose node traces nothing: it knows logs, and the data of transactions."""

    def __init__(self, sent: dict[bytes, bytes], *events: Any) -> None:
        self.sent, self.events = sent, list(events)
        self.connection = SimpleNamespace(sent_data=self.sent_data)

    async def read_events(self, from_block: int, to_block: int) -> list[Any]:
        assert (from_block, to_block) == (COUNTED.block, 200), "nothing counted before its block"
        return self.events

    async def sent_data(self, name: bytes) -> bytes:
        return self.sent[name]


def make_room(view: View, *, chain: Any = None, audits: Any = None) -> tuple[VotesOnChain, DisputeRecords]:
    """The room, and the records that it writes to."""
    cases = view.cases
    return VotesOnChain(lambda: view, chain, cases, audits), cases


async def read(monkeypatch: pytest.MonkeyPatch, chain: Chain, shown: int = 1) -> list[tuple[int, HandedVote]]:
    """The votes that a node takes from the chain. shown: of two; what is not shown is not read yet."""
    taken: list[tuple[int, HandedVote]] = []

    async def take(votes: VotesOnChain, index: int, handed: HandedVote) -> None:
        taken.append((index, handed))

    game = SimpleNamespace(rounds={ROUND: SimpleNamespace(closed=100, opened=50)})
    monkeypatch.setattr(votes_on_chain, "get_now", lambda view: game)
    monkeypatch.setattr(VotesOnChain, "_take", take)
    room, cases = make_room(make_view(head_block=200), chain=chain)
    if shown == len(NEWS.votes):
        await room.read_votes(NEWS)
    else:
        with pytest.raises(EnvironmentFault, match="does not show votes"):
            await room.read_votes(NEWS)
    assert len(cases.read) == len(taken)
    return taken


async def test_a_vote_that_went_by_a_contract_is_read_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the transaction, which names another contract, nothing is asked."""
    chain = Chain({}, make_event("VotesCounted", b"h", votes=b""), make_relayed(b"h"))
    assert await read(monkeypatch, chain) == [(ROUND, HANDED)]


async def test_all_calls_of_one_transaction_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    relayed = [make_relayed(b"h", ROUND - 1, LATE), make_relayed(b"h", ROUND, HANDED, LATE)]
    assert await read(monkeypatch, Chain({}, *relayed), shown=2) == [(ROUND, HANDED), (ROUND, LATE)]


async def test_a_direct_call_is_read_from_its_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [make_event("VotesCounted", b"h"), make_event("VotesOpened", b"h")]
    others = [make_relayed(b"x", task=b"u" * 32), make_event("RootStood", b"y")]
    assert await read(monkeypatch, Chain({b"h": CALL}, *events, *others)) == [(ROUND, HANDED)]


@pytest.mark.parametrize("is_log_there", [True, False])
async def test_votes_that_an_answer_does_not_show_are_not_read_yet(
    monkeypatch: pytest.MonkeyPatch, is_log_there: bool
) -> None:
    """A false answer about a transaction, or a range of logs without it, once hid them for ever."""
    events = [make_event("VotesCounted", b"h")] if is_log_there else []
    assert await read(monkeypatch, Chain({b"h": b""}, *events), shown=0) == []


async def test_of_a_call_only_what_is_looked_for_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can write votes that nobody signed into a call: each would cost the recovery of a signature."""
    junk = [HANDED._replace(slot=5, named_leaf=n) for n in range(40)]
    call = make_call("judge", ROUND, [*junk, HANDED])
    assert await read(monkeypatch, Chain({b"h": call}, make_event("VotesCounted", b"h"))) == [(ROUND, HANDED)]


def test_what_the_contract_can_read_is_read() -> None:
    """It takes offsets as they come and skips padding, so that a liar could choose those of no encoder."""
    assert POST[-31:] == bytes(31)
    dirty, cut = POST[:-31] + b"\x01" * 31, POST[:-31]
    head, votes = CALL[: 4 + 2 * WORD], CALL[4 + 3 * WORD :]
    moved = head + (4 * WORD).to_bytes(WORD, "big") + b"\xff" * WORD + votes
    assert [votes_on_chain._decode_call(one) for one in (dirty, cut)] == [
        votes_on_chain._decode_call(POST)
    ] * 2
    assert votes_on_chain._decode_call(moved) == votes_on_chain._decode_call(CALL) == [(ROUND, HANDED)]


def test_what_no_call_has_is_not_read() -> None:
    whole = (1 << 256) - 1
    for place in (2, 3):
        far = bytearray(POST)
        far[4 + place * WORD : 4 + (place + 1) * WORD] = whole.to_bytes(WORD, "big")
        assert len(votes_on_chain._decode_call(bytes(far))) == 1
    long = CALL[: 4 + 3 * WORD] + whole.to_bytes(WORD, "big") + CALL[4 + 4 * WORD :]
    assert votes_on_chain._decode_call(long) == [(ROUND, HANDED)]
    assert votes_on_chain._decode_call(b"") == votes_on_chain._decode_call(b"\x00" * 400) == []


def list_unread(
    monkeypatch: pytest.MonkeyPatch, *offered: Any, read: Any = (), block: int = 1
) -> list[votes_on_chain.Unread]:
    """What a whistleblower reads of a round with opened ACCEPTs. offered: votes that it was handed."""
    state = make_world().play(is_drawn).state
    votes = {(slot, 0): {0: CountedVote(VoteWord.ACCEPT, block, True)} for slot in range(40)}
    state = replace(state, rounds={0: replace(state.rounds[0], votes=votes)})
    account = next(seat.account for seat in state.seats.values() if seat.role == SeatRole.WHISTLEBLOWER)
    cases = DisputeRecords(cast(Any, NoJournal()), TASK, dice=bytes(32), read=set(read))
    known = {"get_now": state, "list_provable_rounds": [state.rounds[0]], "list_own_boundaries": []}
    for name, value in known.items():
        monkeypatch.setattr(votes_on_chain, name, lambda *_, value=value: value)
    return list(
        votes_on_chain.list_unread(make_view(account=account, told=Told(votes=list(offered)), cases=cases), 1)
    )


def test_a_whistleblower_reads_a_vote_that_its_dice_fell_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It replayed nothing of that claim, and its auditor handed the vote to solvers alone."""
    monkeypatch.setattr("touchstone.node.kit.known_statements.SPOT_QUERIES", 1 << 40)
    assert not list_unread(monkeypatch)
    monkeypatch.setattr("touchstone.node.kit.known_statements.SPOT_QUERIES", 1)
    (unread,) = list_unread(monkeypatch)
    assert unread.votes and all(counted.is_opened for _, counted in unread.votes)
    assert not list_unread(monkeypatch, read=unread.votes)
    # After a reorg another call may have handed in another vote.
    assert list_unread(monkeypatch, read=unread.votes, block=2)


def test_what_counts_is_read_although_the_auditor_offered_another_vote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It signs two: one counts, and everybody else is offered the other, with its opening, in the same
    block."""
    monkeypatch.setattr("touchstone.node.kit.known_statements.SPOT_QUERIES", 1)
    refs = (StatementRef(0, slot, 0, 0) for slot in range(40))
    offered = [SimpleNamespace(ref=ref, vote=ref, opening=object(), auditor="liar") for ref in refs]
    assert list_unread(monkeypatch, *offered) == list_unread(monkeypatch)


@pytest.mark.parametrize("phase", [RoundPhase.RUNNING, RoundPhase.UNDONE])
async def test_a_vote_that_could_not_count_takes_no_vote_s_place(
    monkeypatch: pytest.MonkeyPatch, phase: RoundPhase
) -> None:
    """Two that are not whole, in front of the one that counts: they convict nobody, and would be all that is
    known of this auditor. It answers for its vote also where the round is undone before it is read."""
    state = make_world().play(is_drawn).state
    slot = next(iter(state.rounds[0].claims))
    drawn = get_drawn(state, 0, slot, 0, 0)
    assert drawn is not None
    state = replace(state, rounds={**state.rounds, 0: replace(state.rounds[0], phase=phase)})
    monkeypatch.setattr(votes_on_chain, "get_now", lambda view: state)
    book = AuditBook(cast(Any, NoJournal()), TASK)
    audits = SimpleNamespace(book=book, recover=lambda *_: drawn.seat.account)
    room, _ = make_room(make_view(account="another"), audits=audits)
    handed = HANDED._replace(slot=slot, word=int(VoteWord.ACCEPT), is_opened=False)
    for named_leaf in (1, 2, 0):
        await room._take(0, handed._replace(named_leaf=named_leaf))
    assert [one.vote.named_leaf for one in book.taken_votes.values()] == [0] and not book.second
