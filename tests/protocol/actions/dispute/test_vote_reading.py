"""Votes that a liar hands in by way of a contract of its own: its signature is in no transaction to Votes."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.actions.audit.audit_votes import HandedVote
from protocol.actions.dispute import vote_reading
from protocol.adapters.chain.abi import encode_call, encode_values, find_function, load_own_abi
from protocol.adapters.chain.event_logs import decode_event
from protocol.spec.game.auditing import get_drawn
from protocol.spec.game.state import CountedVote, RoundPhase, SeatRole, StatementRef
from protocol.spec.statements import VoteWord
from tests.protocol.spec.game.world import is_drawn, make_world

TASK, ROUND, WORD = b"t" * 32, 7, 32
HANDED = HandedVote(3 << 64, *(bytes([n]) * 32 for n in range(1, 8)))
LATE = HANDED._replace(place=4 << 64)
COUNTED = CountedVote(VoteWord.ACCEPT, 150)
NEWS = vote_reading.Unread(ROUND, frozenset({(StatementRef(ROUND, slot, 0, 0), COUNTED) for slot in (3, 4)}))


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


async def read(monkeypatch: pytest.MonkeyPatch, chain: Chain) -> list[tuple[int, HandedVote]]:
    """The votes that a node takes from the chain."""
    taken: list[tuple[int, HandedVote]] = []

    async def take(party: Any, index: int, handed: HandedVote) -> None:
        taken.append((index, handed))

    game = SimpleNamespace(rounds={ROUND: SimpleNamespace(closed=100, opened=50)})
    monkeypatch.setattr(vote_reading, "get_now", lambda party: game)
    monkeypatch.setattr(vote_reading, "_take", take)
    task = SimpleNamespace(task=TASK, cases=SimpleNamespace(read=set()))
    party = SimpleNamespace(chain=chain, task=task, state=SimpleNamespace(head_block=200))
    await vote_reading.read_votes(cast(Any, party), NEWS)
    assert task.cases.read == NEWS.votes
    return taken


async def test_a_vote_that_went_by_a_contract_is_read_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the transaction, which names another contract, nothing is asked."""
    chain = Chain({}, make_event("VotesCounted", b"h", votes=b""), make_relayed(b"h"))
    assert await read(monkeypatch, chain) == [(ROUND, HANDED)]


async def test_all_calls_of_one_transaction_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    relayed = [make_relayed(b"h", ROUND - 1, LATE), make_relayed(b"h", ROUND, HANDED, LATE)]
    assert await read(monkeypatch, Chain({}, *relayed)) == [(ROUND, HANDED), (ROUND, LATE)]


async def test_a_direct_call_is_read_from_its_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [make_event("VotesCounted", b"h"), make_event("VotesOpened", b"h")]
    others = [make_relayed(b"x", task=b"u" * 32), make_event("RootStood", b"y")]
    assert await read(monkeypatch, Chain({b"h": CALL}, *events, *others)) == [(ROUND, HANDED)]


async def test_of_a_call_only_what_is_looked_for_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can write votes that nobody signed into a call: each would cost the recovery of a signature."""
    junk = [HANDED._replace(place=5 << 64 | n) for n in range(40)]
    call = make_call("judge", ROUND, [*junk, HANDED])
    assert await read(monkeypatch, Chain({b"h": call}, make_event("VotesCounted", b"h"))) == [(ROUND, HANDED)]


def test_what_the_contract_can_read_is_read() -> None:
    """It takes offsets as they come and skips padding, so that a liar could choose those of no encoder."""
    assert POST[-31:] == bytes(31)
    dirty, cut = POST[:-31] + b"\x01" * 31, POST[:-31]
    head, votes = CALL[: 4 + 2 * WORD], CALL[4 + 3 * WORD :]
    moved = head + (4 * WORD).to_bytes(WORD, "big") + b"\xff" * WORD + votes
    assert [vote_reading._decode_call(one) for one in (dirty, cut)] == [vote_reading._decode_call(POST)] * 2
    assert vote_reading._decode_call(moved) == vote_reading._decode_call(CALL) == [(ROUND, HANDED)]


def test_what_no_call_has_is_not_read() -> None:
    whole = (1 << 256) - 1
    for place in (2, 3):
        far = bytearray(POST)
        far[4 + place * WORD : 4 + (place + 1) * WORD] = whole.to_bytes(WORD, "big")
        assert len(vote_reading._decode_call(bytes(far))) == 1
    long = CALL[: 4 + 3 * WORD] + whole.to_bytes(WORD, "big") + CALL[4 + 4 * WORD :]
    assert vote_reading._decode_call(long) == [(ROUND, HANDED)]
    assert vote_reading._decode_call(b"") == vote_reading._decode_call(b"\x00" * 400) == []


def list_unread(
    monkeypatch: pytest.MonkeyPatch, *offered: Any, read: Any = (), block: int = 1
) -> list[vote_reading.Unread]:
    """What a whistleblower reads of a round with opened ACCEPTs. offered: votes that it was handed."""
    state = make_world().play(is_drawn).state
    votes = {(slot, 0): {0: CountedVote(VoteWord.ACCEPT, block, True)} for slot in range(40)}
    state = replace(state, rounds={0: replace(state.rounds[0], votes=votes)})
    account = next(seat.account for seat in state.seats.values() if seat.role == SeatRole.WHISTLEBLOWER)
    audits = SimpleNamespace(list_votes=lambda index: offered, list_replays=lambda index: [])
    task = SimpleNamespace(audits=audits, cases=SimpleNamespace(dice=bytes(32), read=set(read)))
    party = cast(Any, SimpleNamespace(task=task, account=account))
    known = {"get_now": state, "list_provable_rounds": [state.rounds[0]], "list_own_boundaries": []}
    for name, value in known.items():
        monkeypatch.setattr(vote_reading, name, lambda *_, value=value: value)
    return list(vote_reading.list_unread(party, 1))


def test_a_whistleblower_reads_a_vote_that_its_dice_fell_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It replayed nothing of that claim, and its auditor handed the vote to solvers alone."""
    monkeypatch.setattr("protocol.actions.dispute.known_statements.SPOT_ASKS", 1 << 40)
    assert not list_unread(monkeypatch)
    monkeypatch.setattr("protocol.actions.dispute.known_statements.SPOT_ASKS", 1)
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
    monkeypatch.setattr("protocol.actions.dispute.known_statements.SPOT_ASKS", 1)
    refs = (StatementRef(0, slot, 0, 0) for slot in range(40))
    offered = [SimpleNamespace(ref=ref, opening=object(), auditor="liar") for ref in refs]
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
    monkeypatch.setattr(vote_reading, "get_now", lambda party: state)
    book = SimpleNamespace(taken_votes={}, written=[])
    book.write = lambda record: book.written.append(record.vote.named_leaf)
    room = SimpleNamespace(book=book, recover=lambda *_: drawn.seat.account)
    task = SimpleNamespace(task=TASK, audits=SimpleNamespace(room=room))
    party = cast(Any, SimpleNamespace(task=task, account="another"))
    place = slot << 64 | int(VoteWord.ACCEPT) << 40
    for named_leaf in (1, 2, 0):
        await vote_reading._take(party, 0, HANDED._replace(place=place | named_leaf))
    assert book.written == [0]
