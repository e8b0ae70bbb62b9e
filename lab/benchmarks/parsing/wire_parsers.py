"""Parsers of what peers send: requests, signatures, ranges, endpoints, blobs, and JSON messages.

Whole requests go through the server's own handler. Messages are those of handlers, those of the wire itself,
and files that others hand out.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from enum import Enum
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from msgspec import inspect
from multidict import CIMultiDict
from yarl import URL

from lab.benchmarks.parsing.mutating import Parser
from tests.protocol.adapters.parties import DOMAIN, make_key, make_tensor
from tests.protocol.spec.profiles import make_profile
from tools.vectors.fixed_values import ACCOUNT as SAMPLE_ACCOUNT
from touchstone.node.defending import step_requests
from touchstone.node.models import global_model as merge
from touchstone.node.models.global_model import AskOuter, make_form
from touchstone.node.serving import audit_messages as audit
from touchstone.protocol.adapters import signed_profiles
from touchstone.protocol.adapters.chain import deployment, drand
from touchstone.protocol.adapters.keys.signatures import sign_statement
from touchstone.protocol.adapters.messages import Form, Message, encode_message
from touchstone.protocol.adapters.reports import round_reports
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blob_verifier import BlobVerifier
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.adapters.store.chunk_trees import fold_chunks, hash_chunk, split_roots
from touchstone.protocol.adapters.wire import json_answers, peer_faults, request_handler, request_paths
from touchstone.protocol.adapters.wire.json_answers import NodeStatus
from touchstone.protocol.adapters.wire.limits import WireLimits
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.request_signing import HEADER, Proof, RequestVerifier
from touchstone.protocol.adapters.wire.server import BlobServer, ReadPolicy
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.calibration_profile import compute_profile_digest
from touchstone.protocol.spec.commitments import decode_state, encode_state
from touchstone.protocol.spec.node_statements import Request
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.state_headers import StateHeader

AUDIT: tuple[type[Message], ...] = (
    audit.AskStart, audit.StartShown, audit.SealHanded, audit.EndShown, audit.VotesHanded,
    audit.VotesTaken, merge.WorkSaid,
)  # fmt: skip
MERGE: tuple[type[Message], ...] = (
    merge.AskOuter, merge.OuterAnswer, merge.AskWork, merge.AskMerge, merge.MergeAnswer,
)  # fmt: skip
FORMS: tuple[Form[Any], ...] = (
    *(audit.make_form(kind) for kind in AUDIT),
    *(merge.make_form(kind) for kind in MERGE),
    step_requests.ASKED_FORM,
    json_answers.STATUS_FORM,
    round_reports.REPORTS_FORM,
    deployment.FORM,
)
"""Forms whose samples are made from their types alone."""
DRAND = b'{"round":7,"randomness":"%s","signature":"%s"}' % (b"ab" * 32, b"cd" * 48)
SIGNATURE = bytes(range(64))


def make_sample(kind: inspect.Type) -> Any:
    """Returns a valid value of a type, as JSON holds it."""
    match kind:
        case inspect.StructType() | inspect.DataclassType():
            return {field.encode_name: make_sample(field.type) for field in kind.fields}
        case inspect.VarTupleType():
            return [make_sample(kind.item_type)] * max(2, kind.min_length or 0)
        case inspect.BytesType():
            return bytes(range(kind.min_length or 8))
        case inspect.UnionType():
            return make_sample(kind.types[0])
        case inspect.EnumType():
            return next(iter(kind.cls)).value if issubclass(kind.cls, Enum) else 0
        case inspect.BoolType():
            return True
        case inspect.StrType():
            return SAMPLE_ACCOUNT if kind.pattern else "text"
    return 7


def read_values(message: object) -> None:
    """Does what a node does with a message of the right form."""
    match message:
        case audit.BoundarySaid():
            message.read()
        case audit.StartShown():
            read_values(message.first)
        case audit.EndShown():
            read_values(message.end)
        case audit.SealHanded():
            audit.read_sealed(message.sealed)
        case audit.VotesHanded():
            for vote in message.votes:
                vote.read()
        case step_requests.StepsShown():
            for state in message.states:
                decode_state(state, SAMPLE_ACCOUNT)
        case signed_profiles.SignedProfile():
            compute_profile_digest(message.profile)


def read_message(form: Form[Any]) -> Callable[[bytes], None]:
    """Returns a function that reads a message of a form, and its values."""
    return lambda data: read_values(form.decode(data, SAMPLE_ACCOUNT, "here"))


def list_message_parsers() -> Iterator[Parser]:
    """Yields a parser for each kind of message."""
    for form in FORMS:
        sample = msgspec.json.encode(make_sample(inspect.type_info(form.kind)))
        yield Parser(f"message {form.kind.__name__}", (sample,), read_message(form))
    state = encode_state(StateHeader(b"1" * 32, b"2" * 32, b"3" * 32, 4, 5))
    shown = encode_message(step_requests.StepsShown((state, state)))
    yield Parser("message StepsShown", (shown,), read_message(step_requests.SHOWN_FORM))
    refusal = encode_message(json_answers.RefusalAnswer("what", "expected", "actual", "remedy", NOW_S))
    yield Parser("message Refusal", (refusal, b"502 Bad Gateway"), peer_faults._parse_refusal)
    yield Parser("message of drand", (DRAND,), read_message(drand.ANSWER))
    signed = encode_message(signed_profiles.SignedProfile(make_profile(), SIGNATURE))
    yield Parser("file SignedProfile", (signed,), read_message(signed_profiles.FORM), 0.3)


ACCOUNT = make_key(1).address.lower()
SERVER = make_key(2).address.lower()
NOW_S = 1_000
MANY = 1 << 30
LIMITS = WireLimits(
    requests_per_second=MANY, burst_requests=MANY, address_requests_per_second=MANY,
    address_burst_requests=MANY, strangers_per_second=MANY, strangers_burst=MANY,
    reports_per_second=MANY, burst_reports=MANY,
)  # fmt: skip
"""Limits so high that no input is refused because of earlier ones."""
TURNS = 60
"""Turns of the loop after which a request without an answer counts as incomplete."""
ELEMENTS = 1_000


class ServerCrash(Exception):
    """The server answered 500, because a handler raised an undeclared error."""


class Pipe(asyncio.Transport):
    """Takes what the server writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.is_closed = bytearray(), False

    def write(self, data: Any) -> None:
        """Keeps the data."""
        self.written += data

    def writelines(self, list_of_data: Any) -> None:
        """Keeps all of the data."""
        self.written += b"".join(list_of_data)

    def is_closing(self) -> bool:
        """Returns whether the server has hung up."""
        return self.is_closed

    def close(self) -> None:
        """Notes that the server has hung up."""
        self.is_closed = True

    def abort(self) -> None:
        """Notes that the server has hung up."""
        self.is_closed = True

    def get_write_buffer_size(self) -> int:
        """Returns 0: nothing waits."""
        return 0

    def pause_reading(self) -> None:
        """Does nothing: all data is there already."""

    def resume_reading(self) -> None:
        """Does nothing: all data is there already."""


class Listening:
    """A server without a socket, with its own loop that runs while it is fed. With `is_open` it asks for no
    signature, so that the code behind it is reached."""

    def __init__(self, folder: Path, is_open: bool) -> None:
        self._loop = asyncio.new_event_loop()
        self.store = BlobStore(folder / "blobs", is_durable=False)
        data, self.ref = make_tensor(ELEMENTS)
        self.store.put_tensor(self.ref.key.root, data)
        policy = ReadPolicy(
            lambda account: True, lambda *_: True, lambda: NodeStatus(SERVER, 7, 8),
            lambda name: RequestHandler(16 * 1024, answer_handler) if name == "outer" else None,
            get_reports=lambda *_: round_reports.ReportsSaid(),
        )  # fmt: skip
        identity = load_or_create_identity(folder)
        server = BlobServer(self.store, SERVER, DOMAIN, identity, policy, LIMITS)
        server._verifier = make_verifier()
        if is_open:
            server._verifier = cast(RequestVerifier, SimpleNamespace(verify=lambda *_: ACCOUNT))
        self._runner = server._make_runner()
        self._loop.run_until_complete(self._runner.setup())
        self._broken: list[BaseException] = []
        self._loop.set_exception_handler(self._note)

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self._broken.append(error)

    def feed(self, data: bytes) -> bytes:
        """Returns the answer to one connection that sends `data`. Raises ServerCrash if it is a 500."""
        return self._loop.run_until_complete(self._feed(data))

    async def _feed(self, data: bytes) -> bytes:
        assert self._runner.server is not None
        connection, pipe = self._runner.server(), Pipe()
        connection.connection_made(pipe)
        try:
            connection.data_received(data)
            for turn in range(TURNS):
                await asyncio.sleep(0)
                if pipe.is_closed or (turn > 20 and pipe.written):
                    break
        finally:
            connection.connection_lost(None)
            await asyncio.sleep(0)
        if b"HTTP/1.1 500" in pipe.written:
            raise ServerCrash(bytes(pipe.written[:300]))
        if self._broken:
            raise self._broken.pop()
        return bytes(pipe.written)


async def answer_handler(account: str, body: bytes) -> Message:
    """Reads the message of a request."""
    return make_form(AskOuter).decode(body, account)


# Signatures of requests
def make_verifier() -> RequestVerifier:
    """Returns a verifier with a stopped clock, so that no seed expires."""
    return RequestVerifier(SERVER, DOMAIN, lambda account: True, lambda: NOW_S)


def sign(method: str, path: str, salt: str = "") -> dict[str, str]:
    """Returns the headers of a signed request, the same each time; another `salt` gives another one."""
    nonce = sha256(f"{path}{salt}".encode()).digest()
    signature = sign_statement(make_key(1), Request(method, path, SERVER, NOW_S, nonce), DOMAIN)
    return {HEADER: encode_message(Proof(ACCOUNT, NOW_S, nonce, signature)).decode()}


def check_proof(verifier: RequestVerifier, data: bytes) -> None:
    """Reads a header as the server does: bytes that are not UTF-8 become lone surrogates."""
    verifier.verify("GET", "/status", CIMultiDict({HEADER: data.decode("utf-8", "surrogateescape")}))


# Requests
def format_request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Returns the bytes of a request."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: peer",
        *(f"{name}: {text}" for name, text in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def list_requests(ref: BlobRef) -> tuple[bytes, ...]:
    """Returns a signed request for each route."""
    body = encode_message(AskOuter(b"t" * 32, b"r" * 32))
    blob, chunks = (
        request_paths.format_path(route, ref.key) for route in (request_paths.BLOB, request_paths.CHUNKS)
    )
    handler = f"/{request_handler.PATH}/outer?{request_handler.BODY_DIGEST}={sha256(body).hexdigest()}"
    length = {"Content-Length": str(len(body))}
    return (
        format_request("GET", request_paths.HEALTH, {}),
        format_request("GET", request_paths.STATUS, {"Accept": "text/html"}),
        format_request("GET", request_paths.format_reports(b"t" * 32, 7), {}),
        format_request("GET", blob, {**sign("GET", blob), "Range": "bytes=5-99"}),
        format_request("GET", blob, {**sign("GET", blob, "again"), "Range": "bytes=-7"}),
        format_request("GET", chunks, sign("GET", chunks)),
        format_request("POST", handler, {**sign("POST", handler), **length}, body),
        format_request("POST", handler, {"Transfer-Encoding": "chunked"}, b"5\r\nhello\r\n0\r\n\r\n"),
    )


def read_endpoint(data: bytes) -> None:
    """Reads an announced endpoint, and makes a URL of it as the client does."""
    peer = Peer(ACCOUNT, data.decode(errors="replace"), bytes(32))
    URL(peer.format_url("/status"))


ENDPOINTS = (
    b"https://127.0.0.1:8443", b"https://[2001:db8::1]:443/", b"HTTPS://a-b.example.org",
    b"https://[::ffff:1.2.3.4]:1", b"https://xn--bcher-kva.example:65535",
)  # fmt: skip


# Blobs
def judge_blob(ref: BlobRef, data: bytes) -> None:
    """Reads a blob that comes in two pieces."""
    verifier = BlobVerifier(ref, source="stranger")
    for piece in (data[: len(data) // 3], data[len(data) // 3 :]):
        verifier.update(piece)
    verifier.finish()


def judge_chunks(ref: BlobRef, data: bytes) -> None:
    """Reads a peer's list of the hashes of a blob's chunks, then a first piece."""
    BlobVerifier(ref, source="stranger", chunk_roots=split_roots(data)).update(data)


def refer_roots() -> tuple[bytes, BlobRef]:
    """Returns a list of roots, and its reference."""
    data = b"".join(sha256(bytes([n])).digest() for n in range(9))
    size = BlobRef(BlobKey(BlobKind.ROOTS, ZERO_WORD), len(data))
    return data, BlobRef(BlobKey(BlobKind.ROOTS, hash_chunk(data, size)), len(data))


def refer_chunks() -> tuple[bytes, BlobRef]:
    """Returns hashes of three chunks, and the reference of their blob."""
    roots = [sha256(bytes([n])).digest() for n in range(3)]
    key = BlobKey(BlobKind.TENSOR, fold_chunks(roots, BlobKind.TENSOR))
    chunk = BlobRef(key, 4).chunk_bytes
    return b"".join(roots), BlobRef(key, 3 * chunk)


def make_blob_parser(
    name: str, made: tuple[bytes, BlobRef], judge: Callable[[BlobRef, bytes], None]
) -> Parser:
    """Returns a parser for one kind of blob."""
    data, ref = made
    return Parser(name, (data,), lambda given: judge(ref, given))


def list_parsers() -> Iterator[Parser]:
    """Yields a parser for each kind of data."""
    folder = Path(tempfile.mkdtemp())
    closed, opened = Listening(folder, False), Listening(folder, True)
    requests = list_requests(closed.ref)
    yield Parser("requests", requests, closed.feed, 3.0)
    yield Parser("requests behind the signature", requests, opened.feed, 3.0)
    verifier, proof = make_verifier(), sign("GET", "/status")[HEADER].encode()
    yield Parser("proofs of requests", (proof,), lambda data: check_proof(verifier, data), 0.5)
    yield Parser("endpoints", ENDPOINTS, read_endpoint, 2.0)
    yield make_blob_parser("blobs of tensors", make_tensor(ELEMENTS), judge_blob)
    yield make_blob_parser("blobs of roots", refer_roots(), judge_blob)
    yield make_blob_parser("lists of chunks", refer_chunks(), judge_chunks)
