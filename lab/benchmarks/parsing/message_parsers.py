"""All kinds of messages in JSON: those of desks, the wire's own, and files that others hand out."""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import msgspec
from msgspec import inspect

from lab.benchmarks.parsing.mutating import Parser
from protocol.actions.audit import audit_messages as audit
from protocol.actions.dispute import step_serving as dispute
from protocol.actions.merge import global_model as merge
from protocol.adapters import operator_profiles
from protocol.adapters.chain import deployment, randomness
from protocol.adapters.messages import Form, Message, encode_message
from protocol.adapters.wire import conventions, session
from protocol.spec.calibration_rules import compute_profile_digest
from protocol.spec.codec import decode_state, encode_state
from protocol.spec.containers import StateHeader
from tests.fixed_values import ACCOUNT
from tests.protocol.spec.profiles import make_profile

AUDIT: tuple[type[Message], ...] = (
    audit.AskStart, audit.StartShown, audit.SealHanded, audit.EndShown, audit.VotesHanded,
    audit.VotesTaken, audit.WorkSaid,
)  # fmt: skip
MERGE: tuple[type[Message], ...] = (
    merge.AskOuter, merge.OuterAnswer, merge.AskWork, merge.AskMerge, merge.MergeAnswer,
)  # fmt: skip
FORMS: tuple[Form[Any], ...] = (
    *(audit.make_form(kind) for kind in AUDIT),
    *(merge.make_form(kind) for kind in MERGE),
    dispute.ASKED_FORM,
    conventions.STATUS_FORM,
    deployment.FORM,
)
"""Whose samples are made from their types alone."""
DRAND = b'{"round":7,"randomness":"%s","signature":"%s"}' % (b"ab" * 32, b"cd" * 48)
SIGNATURE = bytes(range(64))


def make_sample(kind: inspect.Type) -> Any:
    """A valid value of a type, as JSON holds it."""
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
            return ACCOUNT if kind.pattern else "text"
    return 7


def read_values(message: object) -> None:
    """What a node makes of a message that has the right form."""
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
        case dispute.StepsShown():
            for state in message.states:
                decode_state(state, ACCOUNT)
        case operator_profiles.SignedProfile():
            compute_profile_digest(message.profile)


def read_message(form: Form[Any]) -> Callable[[bytes], None]:
    """Reads a message of a form, and its values."""
    return lambda data: read_values(form.decode(data, ACCOUNT, "here"))


def list_parsers() -> Iterator[Parser]:
    """One for each kind."""
    for form in FORMS:
        sample = msgspec.json.encode(make_sample(inspect.type_info(form.kind)))
        yield Parser(f"message {form.kind.__name__}", (sample,), read_message(form))
    state = encode_state(StateHeader(b"1" * 32, b"2" * 32, b"3" * 32, 4, 5))
    shown = encode_message(dispute.StepsShown((state, state)))
    yield Parser("message StepsShown", (shown,), read_message(dispute.SHOWN_FORM))
    refusal = encode_message(conventions.RefusalAnswer("what", "expected", "actual", "remedy"))
    yield Parser("message Refusal", (refusal, b"502 Bad Gateway"), lambda data: session._parse_reason(data))
    yield Parser("message of drand", (DRAND,), read_message(randomness.ANSWER))
    signed = encode_message(operator_profiles.SignedProfile(make_profile(), SIGNATURE))
    yield Parser("file SignedProfile", (signed,), read_message(operator_profiles.FORM), 0.3)
