"""Signatures of statements: of one statement, one contract and one chain, in one form."""

from dataclasses import fields, replace
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.constants import SECPK1_N
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.adapters.keys import AccountKey
from protocol.adapters.signing import SIGNATURE_BYTES, hash_statement, recover_signer, sign_statement
from protocol.spec.errors import InvalidInput, ProtocolFault
from protocol.spec.statements import NodeStatement, Statement
from protocol.spec.typed_data import SigningDomain, to_typed_data
from tests.protocol.spec.test_statements import change, make_opening, make_vote, word
from tests.protocol.spec.test_typed_data import ALL, BETWEEN_NODES, DOMAIN, EACH, REQUEST

KEY = AccountKey(Account.from_key(word("a key for tests")))
SIGNER = KEY.address.lower()


def name_of(statement: Statement | NodeStatement) -> str:
    return type(statement).__name__


def change_part(statement: Any, name: str) -> Any:
    """The same statement but for one field; of an opening's vote the seed."""
    return (
        replace(statement, vote=change(statement.vote, "seed")) if name == "vote" else change(statement, name)
    )


SEALED = (
    "bytes32 domain,uint32 round,bytes32 baseRoot,bytes32 seed,uint32 slot,bytes32 claimRoot,uint32 draw,"
    "uint32 rank,uint32 segment,bytes32 startLeaf,bytes32 seal"
)
VOTE = f"Vote({SEALED},bytes32 endLeaf,uint8 word,uint32 namedLeaf)"
TYPES = {
    "Sealed": f"Sealed({SEALED})",
    "Vote": VOTE,
    "VoteOpening": "VoteOpening(Vote vote,bytes32 claimEndRoot,bytes32 boundarySalt,bytes32 ownEndRoot,"
    f"bytes32 sealSalt){VOTE}",
    "MergeSignature": "MergeSignature(bytes32 domain,uint32 round,bytes32 baseRoot,uint64 merged,"
    "bytes32 mergedHash,bytes32 root)",
}
"""encodeType of EIP-712, written out: what wallets show and `Statements.sol` hashes."""


def hash_by_hand(statement: Any) -> bytes:
    """hashStruct of EIP-712, from its definition."""
    values = [getattr(statement, field.name) for field in fields(statement)]
    return keccak(keccak(TYPES[name_of(statement)].encode()) + b"".join(map(word_by_hand, values)))


def word_by_hand(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.to_bytes(32, "big") if isinstance(value, int) else hash_by_hand(value)


@pytest.mark.parametrize("statement", EACH, ids=name_of)
def test_a_digest_is_that_of_eip_712_by_hand(statement: Statement) -> None:
    kind = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    chain, contract = DOMAIN.chain_id.to_bytes(32, "big"), bytes(12) + bytes.fromhex(DOMAIN.contract[2:])
    domain = keccak(keccak(kind) + keccak(b"Touchstone") + keccak(b"3") + chain + contract)
    assert hash_statement(statement, DOMAIN) == keccak(b"\x19\x01" + domain + hash_by_hand(statement))


@pytest.mark.parametrize("statement", EACH, ids=name_of)
def test_who_signed_is_found(statement: Statement) -> None:
    signature = sign_statement(KEY, statement, DOMAIN)
    assert len(signature) == SIGNATURE_BYTES
    assert recover_signer(statement, signature, DOMAIN) == SIGNER


@pytest.mark.parametrize("statement", EACH, ids=name_of)
def test_a_signature_is_of_this_statement_alone(statement: Statement) -> None:
    """Another task (domain), round, base root, seed, claim: each field has its part in the digest."""
    signature, digests = sign_statement(KEY, statement, DOMAIN), {hash_statement(statement, DOMAIN)}
    for field in fields(statement):
        other: Statement = change_part(statement, field.name)
        digests.add(hash_statement(other, DOMAIN))
        assert recover_signer(other, signature, DOMAIN) != SIGNER
    assert len(digests) == len(fields(statement)) + 1


def test_a_seal_is_no_vote() -> None:
    """Statements of different types never share a digest, whatever their fields hold."""
    assert len({hash_statement(statement, DOMAIN) for statement in ALL}) == len(ALL)


@pytest.mark.parametrize("statement", BETWEEN_NODES, ids=name_of)
def test_a_signature_between_nodes_is_of_each_field(statement: Any) -> None:
    signature = sign_statement(KEY, statement, DOMAIN)
    assert recover_signer(statement, signature, DOMAIN) == SIGNER
    for field in fields(statement):
        value = getattr(statement, field.name)
        other = {int: 5, bytes: bytes(32), str: "0x" + "77" * 20}[type(value)]
        moved = replace(statement, **{field.name: other})
        assert recover_signer(moved, signature, DOMAIN) != SIGNER


def test_a_request_is_hashed_as_wallets_do() -> None:
    kind = b"Request(string method,string path,address server,uint64 issuedAt,bytes32 nonce)"
    words = keccak(b"GET"), keccak(b"/blob/x"), bytes(12) + b"\x5b" * 20, (1_700_000_000).to_bytes(32, "big")
    own = keccak(keccak(kind) + b"".join(words) + REQUEST.nonce)
    signable = encode_typed_data(full_message=to_typed_data(REQUEST, DOMAIN))
    assert signable.body == own


@pytest.mark.parametrize(
    "elsewhere", [replace(DOMAIN, chain_id=1), replace(DOMAIN, contract="0x" + "77" * 20)]
)
@pytest.mark.parametrize("statement", EACH, ids=name_of)
def test_a_signature_is_worth_nothing_elsewhere(statement: Statement, elsewhere: SigningDomain) -> None:
    signature = sign_statement(KEY, statement, DOMAIN)
    assert hash_statement(statement, DOMAIN) != hash_statement(statement, elsewhere)
    assert recover_signer(statement, signature, elsewhere) != SIGNER


def test_addresses_mean_the_same_in_any_case() -> None:
    shouted = replace(DOMAIN, contract="0x" + "5A" * 20)
    assert hash_statement(make_vote(), DOMAIN) == hash_statement(make_vote(), shouted)


# --- One form -----------------------------------------------------------------------------------------------
def split(signature: bytes) -> tuple[int, int]:
    return int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")


def join(r: int, vs: int) -> bytes:
    return r.to_bytes(32, "big") + vs.to_bytes(32, "big")


def test_both_parities_come_and_are_found() -> None:
    votes = [make_vote(slot=slot) for slot in range(12)]
    signatures = [sign_statement(KEY, vote, DOMAIN) for vote in votes]
    assert {signature[32] >> 7 for signature in signatures} == {0, 1}
    found = {recover_signer(*pair, DOMAIN) for pair in zip(votes, signatures, strict=True)}
    assert found == {SIGNER}


def test_there_is_no_room_for_the_twin_of_a_signature() -> None:
    """(r, n - s) with the other parity would be of the same signer: one statement, two signatures. Here n - s
    runs into the bit of the parity, and what is left of it is another number."""
    r, vs = split(sign_statement(KEY, make_vote(), DOMAIN))
    twin = SECPK1_N - vs % (1 << 255)
    assert twin >> 255 == 1
    for other in (twin, twin ^ 1 << 255):
        assert recover_signer(make_vote(), join(r, other), DOMAIN) != SIGNER


def test_a_high_s_within_its_bits_is_refused() -> None:
    r, _ = split(sign_statement(KEY, make_vote(), DOMAIN))
    half = SECPK1_N // 2
    with pytest.raises(ProtocolFault, match="the lower s of two"):
        recover_signer(make_vote(), join(r, half + 1), DOMAIN)
    assert recover_signer(make_vote(), join(r, half), DOMAIN) != SIGNER


def test_the_other_parity_is_another_signer() -> None:
    r, vs = split(sign_statement(KEY, make_vote(), DOMAIN))
    assert recover_signer(make_vote(), join(r, vs ^ 1 << 255), DOMAIN) != SIGNER


@pytest.mark.parametrize("length", [0, 1, 63, 65, 96, 1000])
def test_a_signature_has_one_length(length: int) -> None:
    whole = sign_statement(KEY, make_vote(), DOMAIN)
    with pytest.raises(ProtocolFault, match="64 bytes"):
        recover_signer(make_vote(), (whole * 20)[:length], DOMAIN, "a stranger")


@pytest.mark.parametrize(
    ("r", "vs"),
    [(0, 1), (SECPK1_N, 1), (SECPK1_N + 1, 1), ((1 << 256) - 1, 1), (1, 0), (1, 1 << 255), (0, 0)],
)
def test_numbers_outside_of_the_group_are_refused(r: int, vs: int) -> None:
    with pytest.raises(ProtocolFault, match="malformed"):
        recover_signer(make_vote(), join(r, vs), DOMAIN, "a stranger")


@settings(max_examples=50)
@given(st.binary(min_size=64, max_size=64))
def test_garbage_names_somebody_else_or_nobody(garbage: bytes) -> None:
    """About half of all r are no point of the curve."""
    try:
        assert recover_signer(make_vote(), garbage, DOMAIN) != SIGNER
    except ProtocolFault as fault:
        assert "malformed" in fault.message()


@pytest.mark.parametrize(("name", "value"), [("seed", b"short"), ("round", 1 << 32), ("slot", -1)])
def test_a_malformed_statement_is_the_strangers_fault(name: str, value: Any) -> None:
    vote = replace(make_vote(), **{name: value})
    with pytest.raises(ProtocolFault, match="does not fit its type") as caught:
        recover_signer(vote, sign_statement(KEY, make_vote(), DOMAIN), DOMAIN, "a stranger")
    assert caught.value.culprit == "a stranger"
    with pytest.raises(InvalidInput):
        sign_statement(KEY, vote, DOMAIN)


def test_an_opening_of_a_vote_is_signed_with_it() -> None:
    vote = make_vote()
    signature = sign_statement(KEY, make_opening(vote), DOMAIN)
    for field in fields(vote):
        moved = make_opening(change(vote, field.name))
        assert recover_signer(moved, signature, DOMAIN) != SIGNER
