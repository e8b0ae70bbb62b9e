"""A question is read from the log of the query alone, whoever asked it by whatever way."""

from typing import Any

from touchstone.node.kit.known_statements import get_question
from touchstone.protocol.adapters.chain.abi import find_function, load_own_abi
from touchstone.protocol.adapters.chain.abi_values import encode_call, encode_values
from touchstone.protocol.adapters.chain.contract_events import decode_event
from touchstone.protocol.spec.game.dispute_reducer import fold_inner
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerQuery
from touchstone.protocol.spec.statements import Vote

TASK, NAME, ASKER, SEAT, LEAF = b"\1" * 32, b"\2" * 32, "0x" + "bb" * 20, 1 << 17, 9
WORDS = [bytes([3 + i]) * 32 for i in range(7)]
VOTE: tuple[Any, ...] = (
    WORDS[0],
    4,
    WORDS[1],
    WORDS[2],
    1,
    WORDS[3],
    0,
    2,
    7,
    WORDS[4],
    WORDS[5],
    WORDS[6],
    1,
    0,
)


def read_ask() -> InnerQuery:
    """Folded from the topics and the data of a log."""
    entry = next(one for one in load_own_abi("Queries") if one.name == "QueryOpened")
    topics = [entry.digest, TASK, SEAT.to_bytes(32)]
    plain = [parameter for parameter in entry.inputs if not parameter.is_indexed]
    data = encode_values(plain, [NAME, VOTE, LEAF, ASKER, 40, 90])
    book = fold_inner(InnerBook(10), "QueryOpened", decode_event(entry, topics, data), 5)
    return book.queries[NAME]


def test_a_question_is_what_the_contract_hashes() -> None:
    """It goes into `endQuery` and `answer` as it comes: the same vote, leaf, seat and asker."""
    opened = read_ask()
    assert opened.vote == Vote(*VOTE) and opened.clock == 90
    entry = find_function(load_own_abi("Queries"), "endQuery")
    question: Any = (VOTE, LEAF, SEAT, ASKER)
    assert encode_call(entry, [TASK, get_question(opened)]) == encode_call(entry, [TASK, question])
