import copy
import getpass
import io
import json
import multiprocessing.reduction
import stat
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.constants import SECPK1_N
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.spec.test_statements import change, make_opening, make_vote, word
from tests.protocol.spec.test_typed_data import ALL, BETWEEN_NODES, DOMAIN, EACH, REQUEST
from touchstone.protocol.adapters.files.private_files import write_private_file
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.keystore import (
    create_devnet_keystore,
    create_keystore,
    import_keystore,
    load_keystore,
)
from touchstone.protocol.adapters.keys.passwords import read_new_password, read_password
from touchstone.protocol.adapters.keys.signatures import (
    SIGNATURE_BYTES,
    hash_statement,
    recover_signer,
    sign_statement,
)
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.node_statements import Calibration, NodeStatement
from touchstone.protocol.spec.statements import Statement
from touchstone.protocol.spec.typed_data import ANYWHERE, SigningDomain, to_typed_data

SECRET = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
TRANSACTION = {"to": "0x" + "11" * 20, "value": 1, "gas": 21000, "maxFeePerGas": 2, "maxPriorityFeePerGas": 1,
               "nonce": 3, "chainId": 31337, "type": 2}  # fmt: skip


def write_password(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "password"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_created_key_is_loaded_again(tmp_path: Path) -> None:
    created = create_devnet_keystore(tmp_path / "key.json", "a password")
    assert load_keystore(tmp_path / "key.json", "a password").address == created.address
    assert stat.S_IMODE((tmp_path / "key.json").stat().st_mode) == 0o600


def test_each_created_key_is_another(tmp_path: Path) -> None:
    one, two = (create_devnet_keystore(tmp_path / name, "p").address for name in ("one", "two"))
    assert one != two


def test_a_wallets_keystore_is_read(tmp_path: Path) -> None:
    path = tmp_path / "wallet.json"
    path.write_text(json.dumps(Account.encrypt(SECRET, "p", kdf="pbkdf2", iterations=2)))
    path.chmod(0o600)
    assert load_keystore(path, "p").address == Account.from_key(SECRET).address


def test_real_keystores_are_slow_to_guess_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETH_ACCOUNT_KDF", "pbkdf2")
    seen = {}
    monkeypatch.setattr(Account, "encrypt", lambda key, password, **how: seen.update(how) or {})
    create_keystore(tmp_path / "key.json", "p")
    assert seen == {"kdf": "scrypt", "iterations": 1 << 18}


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "another password"), ("[]", "while reading"), ("{}", "while reading"), ("{", "while reading")],
)
def test_a_keystore_that_does_not_open_is_told(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "key.json"
    if text is None:
        create_devnet_keystore(path, "right")
    else:
        path.write_text(text)
        path.chmod(0o600)
    with pytest.raises(InvalidInput, match=reason) as caught:
        load_keystore(path, "wrong-password")
    assert "wrong-password" not in str(caught.value)


def test_a_keystore_open_to_others_is_refused(tmp_path: Path) -> None:
    create_devnet_keystore(tmp_path / "key.json", "p")
    (tmp_path / "key.json").chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        load_keystore(tmp_path / "key.json", "p")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    create_devnet_keystore(tmp_path / "key.json", "p")
    with pytest.raises(InvalidInput, match="a file is there"):
        create_devnet_keystore(tmp_path / "key.json", "p")


@pytest.mark.parametrize("text", ["0x" + "11" * 32 + "\n", "11" * 32, "keystore"])
def test_a_key_is_imported_from_a_keystore_or_a_file(tmp_path: Path, text: str) -> None:
    source, own = tmp_path / "source", Account.from_key("0x" + "11" * 32)
    found = json.dumps(Account.encrypt(own.key, "secret", kdf="scrypt", iterations=1 << 10))
    write_private_file(source, (found if text == "keystore" else text).encode())
    key = import_keystore(source, tmp_path / "key", "secret", is_devnet=True)
    assert key.address == own.address == load_keystore(tmp_path / "key", "secret").address
    with pytest.raises(InvalidInput):
        import_keystore(source, tmp_path / "key", "secret", is_devnet=True)


@pytest.mark.parametrize("text", ["", "0x12", "g" * 64, "00" * 32, "ff" * 32, "1" * 65, "1_" * 32])
def test_what_is_no_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    write_private_file(tmp_path / "source", text.encode())
    with pytest.raises(InvalidInput, match="holds no key") as error:
        import_keystore(tmp_path / "source", tmp_path / "key", "secret")
    assert not (tmp_path / "key").exists() and (not text or text not in str(error.value))


def test_an_empty_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="needs a password"):
        create_devnet_keystore(tmp_path / "key.json", "")


def test_the_password_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    assert read_password(write_password(tmp_path, "correct horse\nnot this\n")) == "correct horse"


def test_a_password_file_open_to_others_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="0640"):
        read_password(write_password(tmp_path, "p", mode=0o640))


def test_an_empty_password_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        read_password(write_password(tmp_path, "\n"))


def test_without_a_file_a_person_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda prompt: f"typed at {prompt}")
    assert read_password(None, "Password: ") == "typed at Password: "


def test_transactions_and_typed_data_are_signed(tmp_path: Path) -> None:
    key = create_devnet_keystore(tmp_path / "key.json", "p")
    signed = key.sign_transaction(TRANSACTION)
    assert Account.recover_transaction(signed.raw_transaction) == key.address
    data = to_typed_data(Calibration(bytes(32)), ANYWHERE)
    signable = encode_typed_data(full_message=data)
    assert Account.recover_message(signable, signature=key.sign_typed_data(data)) == key.address


def test_the_key_is_never_shown(tmp_path: Path) -> None:
    key = AccountKey(Account.from_key(SECRET))
    shown = f"{key} {key!r} {[key]} {key.sign_transaction(TRANSACTION)!r}"
    assert SECRET.hex() not in shown and repr(SECRET) not in shown
    assert not hasattr(key, "__dict__")
    with pytest.raises(InvalidInput, match="does not leave its process"):
        multiprocessing.reduction.ForkingPickler(io.BytesIO()).dump(key)
    with pytest.raises(InvalidInput):
        copy.deepcopy(key)


def test_a_new_password_is_typed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["one", "one", "one", "other"])
    monkeypatch.setattr(getpass, "getpass", lambda prompt: next(typed))
    assert read_new_password(None, "New: ") == "one"
    with pytest.raises(InvalidInput, match="two different passwords"):
        read_new_password(None, "New: ")


def test_without_a_terminal_a_file_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr(getpass, "getpass", fail)
    with pytest.raises(InvalidInput, match="--password-file"):
        read_password(None)


def test_without_a_terminal_python_does_not_warn_of_an_echo(tmp_path: Path) -> None:
    code = "from touchstone.protocol.adapters.keys.passwords import read_password; read_password(None)"
    command = [sys.executable, "-c", code]
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "start_new_session": True}
    result = subprocess.run(command, **options)  # type: ignore[call-overload]
    assert "--password-file" in result.stderr and "echo" not in result.stderr


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
        other = 5 if isinstance(value, int) else bytes(32) if isinstance(value, bytes) else "0x" + "77" * 20
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


# One form
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
