"""Parsers of what strangers put on the chain: votes, logs, contract errors, tasks, and signatures."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from lab.benchmarks.parsing.mutating import Parser
from tests.protocol.adapters.chain.entries import list_entries, make_sample
from tests.protocol.adapters.parties import make_key
from tests.protocol.spec.game.simulation import is_drawn, make_world
from tests.protocol.spec.sample import sample_task
from touchstone.node.kit.chain_state import ChainState, Network
from touchstone.node.records.handed_votes import HandedVote
from touchstone.protocol.adapters.chain.abi import Entry, find_function, load_own_abi
from touchstone.protocol.adapters.chain.abi_values import encode_call, encode_values
from touchstone.protocol.adapters.chain.answers import Head, Log
from touchstone.protocol.adapters.chain.contract_events import (
    AbiRegistry,
    Event,
    decode_event,
    decode_log,
    make_registry,
)
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.chain.refusals import explain_revert
from touchstone.protocol.adapters.keys.signatures import recover_signer, sign_statement
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.node_statements import Request
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.protocol.spec.training_codec import decode_training, encode_training
from touchstone.protocol.spec.typed_data import SigningDomain
from touchstone.whistleblower import votes_on_chain

TASK = b"t" * 32
WORD = 32
DOMAIN = SigningDomain(31337, "0x" + "5b" * 20)


# Votes in calls
def make_state() -> GameState:
    """Returns a game with claims and drawn audits, whose members are accounts of a chain."""
    state = make_world().play(is_drawn).state
    seats = {number: replace(seat, account=find_address(number)) for number, seat in state.seats.items()}
    return replace(state, seats=seats, rounds={i: _name_solvers(one) for i, one in state.rounds.items()})


def _name_solvers(game_round: GameRound) -> GameRound:
    claims = game_round.claims.items()
    return replace(game_round, claims={n: replace(c, account=find_address(c.seat)) for n, c in claims})


def read_call(state: GameState, data: bytes) -> None:
    """Reads all votes of a call, and what each says about this game."""
    for index, handed in votes_on_chain._decode_call(data):
        votes_on_chain._rebuild(state, index, handed)


def list_calls(state: GameState) -> tuple[bytes, ...]:
    """Returns calls that hand votes in, with and without openings."""
    slots = sorted(state.rounds[0].claims)[:2]
    words = [bytes([n]) * WORD for n in range(1, 10)]
    shown = (words[3], words[4], words[5], words[6])
    roots = (words[0], words[1], words[2])
    where = (0, 0, int(VoteWord.ACCEPT), False, 0)
    votes = [HandedVote(slot, *where, *roots, shown, words[7], words[8]) for slot in slots]
    votes += [one._replace(is_opened=True) for one in votes]
    judge, post = (find_function(load_own_abi("Votes"), name) for name in votes_on_chain.CALLS)
    both: list[Any] = [TASK, 1, votes[:1], votes, 1, b"r" * 32, 1, b"s" * 65]
    return encode_call(judge, [TASK, 0, votes]), encode_call(post, both)


# Logs
def make_log(number: int, entry: Entry) -> bytes:
    """Encodes a log as an input: its contract, the number of topics, the topics, the data."""
    indexed = [p for p in entry.inputs if p.is_indexed]
    plain = [p for p in entry.inputs if not p.is_indexed]
    topics = [b"h" * WORD if p.is_hashed else encode_values([p], [make_sample(p)]) for p in indexed]
    data = encode_values(plain, [make_sample(p) for p in plain])
    return bytes([number, 1 + len(topics)]) + b"".join((entry.digest, *topics)) + data


def read_log(registry: AbiRegistry, data: bytes) -> None:
    """Reads the event of a log, and an endpoint that it announces."""
    number, count, rest = data[:1], int.from_bytes(data[1:2], "big") % 6, data[2:]
    topics = [rest[at : at + WORD] for at in range(0, min(WORD * count, len(rest)), WORD)]
    address = find_address(int.from_bytes(number, "big"))
    log = Log(address, tuple(topics), rest[WORD * count :], 7, TASK, 3, TASK)
    event = decode_log(registry, log)
    if event is not None and event.name == "Announced":
        network = Network()
        network.announce(**event.arguments)
        for peer in network.peers.values():
            peer.format_url("/status")


def take_posted(entry: Entry, data: bytes) -> None:
    """Folds a task that somebody posted, with any terms and text; each node folds it beside its own task."""
    submitter = encode_values([entry.inputs[1]], [find_address(1)])
    arguments = decode_event(entry, [entry.digest, TASK, submitter], data)
    event = Event("Tasks", entry.name, arguments, 7, 0, TASK, TASK)
    state = ChainState(find_address(1), BOUNDS_LOCAL, DOMAIN)
    state.take(LogBatch(Head(7, TASK, TASK, 0, 0), (event,)))


def find_address(number: int) -> str:
    """Returns the address of the n-th contract."""
    return f"0x{number:040x}"


# Texts, refusals, signatures
def read_text(spec: TaskSpec, data: bytes) -> None:
    """Reads a task's text, and checks whether it breaks a rule."""
    training = decode_training(data)
    refuse_broken(find_training_malformations(replace(spec, training=training)))


def make_withholdings() -> tuple[bytes, ...]:
    """Returns the data of all custom errors, and of a bare reason."""
    entries = list_entries("error")
    reason = (
        bytes.fromhex("08c379a0")
        + WORD.to_bytes(WORD, "big")
        + (4).to_bytes(WORD, "big")
        + b"late".ljust(WORD, b"\0")
    )
    return reason, *(
        one.selector + encode_values(one.inputs, list(map(make_sample, one.inputs))) for one in entries
    )


def sign_request() -> tuple[bytes, Callable[[bytes], object]]:
    """Returns a signature, and a function that recovers its signer."""
    request = Request("GET", "/", "0x" + "1c" * 20, 7, b"n" * WORD)
    signature = sign_statement(make_key(1), request, DOMAIN)
    return signature, lambda data: recover_signer(request, data, DOMAIN, "stranger")


def list_parsers() -> Iterator[Parser]:
    """Yields a parser for each kind of data."""
    state, spec = make_state(), sample_task()
    yield Parser("votes in calls", list_calls(state), lambda data: read_call(state, data), 6.0)
    registry = make_registry({find_address(n): name for n, name in enumerate(GAME_CONTRACTS.values())})
    events = [(n, entry) for n, name in enumerate(GAME_CONTRACTS.values()) for entry in load_own_abi(name)]
    logs = tuple(make_log(number, entry) for number, entry in events if entry.kind == "event")
    yield Parser("logs", logs, lambda data: read_log(registry, data), 4.0)
    posted = next(entry for _, entry in events if entry.name == "TaskPosted")
    terms = make_log(0, posted)[2 + WORD * 3 :]
    yield Parser("posted tasks", (terms,), lambda data: take_posted(posted, data), 3.0)
    yield Parser("refusals", make_withholdings(), lambda data: explain_revert(data, "here"), 2.0)
    yield Parser("texts of tasks", (encode_training(spec.training),), lambda data: read_text(spec, data), 3.0)
    signature, recover = sign_request()
    yield Parser("signatures", (signature,), recover, 0.2)
