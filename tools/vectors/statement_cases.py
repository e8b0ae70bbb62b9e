"""Makes the cases of tests/vectors/statements.json: what is signed, by whom, and what contradicts it."""

from dataclasses import fields, replace
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_account import Account
from eth_keys.constants import SECPK1_N
from eth_utils.crypto import keccak

from tools.vectors.fixed_values import word
from tools.vectors.table import Table
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.signatures import hash_statement, recover_signer, sign_statement
from touchstone.protocol.spec import statement_checks, statements
from touchstone.protocol.spec.commitments import compute_boundary_leaf
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.statements import (
    MergeSignature,
    Sealed,
    Statement,
    Vote,
    VoteOpening,
    VoteWord,
)
from touchstone.protocol.spec.typed_data import STATEMENT_TYPES, SigningDomain

DEPLOYER = bytes(19) + b"\xd0"
CONTRACT = "0x" + keccak(rlp.encode([DEPLOYER, 0]))[12:].hex()
"""The address of DEPLOYER's first contract."""
DOMAIN = SigningDomain(31337, CONTRACT)
KEY = AccountKey(Account.from_key(word("a key that everybody knows")))
SOLVER, AUDITOR, OTHER = ("0x" + digit * 40 for digit in "abc")
ZERO, NOBODY = bytes(32), "0x" + "00" * 20
PARITY = 1 << 255


def statement_tables() -> dict[str, Table]:
    """Returns each statement with its digest and signature, changed field by field, and hostile
    signatures."""
    votes = _make_votes()
    return {
        "sealed": _sealed(votes[0][1]),
        "votes": _votes(votes),
        "pairs": _pairs([vote for _, vote, _ in votes]),
        "leaves": _leaves([vote for _, vote, _ in votes]),
        "merges": _merges(),
        "signatures": _signatures(),
    }


def _make_vote(**changed: Any) -> Vote:
    """Returns a vote whose opening is `_make_opening`, except for the changed fields."""
    domain, place = word("statements/domain"), (7, 3, 1, 0)
    start = compute_boundary_leaf(domain, 7, SOLVER, 4, word("salt/4"), word("state/4"))
    end = compute_boundary_leaf(domain, 7, SOLVER, 5, word("salt/5"), word("state/5"))
    seal = statements.compute_seal(domain, *place, AUDITOR, start, word("own"), word("salt/seal"))
    where = (
        domain,
        7,
        word("statements/base"),
        word("statements/seed"),
        3,
        word("statements/claim"),
        1,
        0,
        4,
    )
    return replace(Vote(*where, start, seal, end, VoteWord.ACCEPT, 0), **changed)


def _make_opening(vote: Vote) -> VoteOpening:
    return VoteOpening(vote, word("state/5"), word("salt/5"), word("own"), word("salt/seal"))


def _change(statement: Any, name: str) -> Any:
    value = getattr(statement, name)
    other: Any = word(f"other/{name}") if isinstance(value, bytes) else value + 1
    return replace(statement, **{name: VoteWord(other) if name == "word" else other})


def _make_votes() -> list[tuple[str, Vote, VoteOpening]]:
    """Returns name, vote and opening: the first is valid, the others differ from it in one thing."""
    vote = _make_vote()
    cases = [("as sealed", vote, _make_opening(vote))]
    for name in [field.name for field in fields(Vote)]:
        changed = _change(vote, name)
        cases.append((f"another {name}", changed, _make_opening(changed)))
    for name in ("claim_end_root", "boundary_salt", "own_end_root", "seal_salt"):
        cases.append((f"opened with another {name}", vote, _change(_make_opening(vote), name)))
    for said in VoteWord:
        spoken = _make_vote(word=said)
        equal = replace(_make_opening(spoken), own_end_root=word("state/5"))
        cases.append((said.name, spoken, _make_opening(spoken)))
        cases.append((f"{said.name}, roots equal", spoken, equal))
        blank = {name: _make_vote(word=said, **{name: ZERO}) for name in ("start_leaf", "seal", "end_leaf")}
        cases += [(f"{said.name}, no {name}", vote, _make_opening(vote)) for name, vote in blank.items()]
        naming = _make_vote(word=said, named_leaf=(1 << 32) - 1)
        cases.append((f"{said.name}, naming a leaf", naming, _make_opening(naming)))
    return cases


def _cells(statement: Statement) -> dict[str, Any]:
    typed = STATEMENT_TYPES[type(statement).__name__]
    values = [getattr(statement, field.name) for field in fields(statement)]
    return {
        name: value if kind == "bytes32" else int(value)
        for (name, kind), value in zip(typed, values, strict=True)
        if kind != "Vote"
    }


def _signed(statement: Statement) -> dict[str, Any]:
    signature = sign_statement(KEY, statement, DOMAIN)
    digest = hash_statement(statement, DOMAIN)
    return {"digest": digest, "r": signature[:32], "vs": signature[32:], "signer": KEY.address.lower()}


def _sealed(vote: Vote) -> Table:
    table = Table()
    sound = Sealed(*(getattr(vote, field.name) for field in fields(Sealed)))
    for name in [field.name for field in fields(Sealed)]:
        other = _change(sound, name)
        differs = statement_checks.do_seals_differ(sound, other)
        table.add(f"another {name}", **_cells(other), **_signed(other), differs=differs)
    blank = replace(sound, start_leaf=ZERO, seal=ZERO)
    differs = statement_checks.do_seals_differ(sound, blank)
    table.add("not served so far", **_cells(blank), **_signed(blank), differs=differs)
    table.add("as it is", **_cells(sound), **_signed(sound), differs=False)
    return table


def _votes(votes: list[tuple[str, Vote, VoteOpening]]) -> Table:
    table = Table()
    for name, vote, opening in votes:
        table.add(
            name,
            **_cells(vote),
            **_cells(opening),
            **_signed(vote),
            openingDigest=hash_statement(opening, DOMAIN),
            solver=SOLVER,
            auditor=AUDITOR,
            stranger=OTHER,
            whole=statement_checks.is_vote_complete(vote),
            fits=statement_checks.does_opening_fit(vote, opening, SOLVER, AUDITOR),
            fitsExactly=statement_checks.do_roots_fit_word(opening),
        )
    return table


def _pairs(votes: list[Vote]) -> Table:
    """Returns each vote against the first, and against one that differs in everything but its draw."""
    table = Table()
    far = _make_vote(segment=9, start_leaf=word("far"), seal=word("far"), end_leaf=word("far"), named_leaf=5)
    blank = _make_vote(word=VoteWord.UNSERVED, start_leaf=ZERO, seal=ZERO, end_leaf=ZERO)
    for i, vote in enumerate([*votes, far, blank]):
        table.add(
            f"vote {i}",
            **_cells(vote),
            differs=statement_checks.do_votes_differ(votes[0], vote),
            sealsDiffer=statement_checks.do_seals_differ(votes[0], vote),
        )
    return table


def _leaves(votes: list[Vote]) -> Table:
    table = Table()
    blank = _make_vote(word=VoteWord.UNSERVED, start_leaf=ZERO, end_leaf=ZERO)
    for name, vote in (("a vote", votes[0]), ("blank", blank)):
        for boundary in (0, 3, 4, 5, 6):
            for label, leaf in (("start", vote.start_leaf), ("end", vote.end_leaf), ("other", word("leaf"))):
                table.add(
                    f"{name}, boundary {boundary}, {label}",
                    segment=vote.segment,
                    startLeaf=vote.start_leaf,
                    endLeaf=vote.end_leaf,
                    boundary=boundary,
                    leaf=leaf,
                    misnames=statement_checks.does_vote_misname(vote, boundary, leaf),
                )
    return table


def _merges() -> Table:
    table = Table()
    for i, count in enumerate([1, 2, 64]):
        roots = [word(f"merged/{i}/{j}") for j in range(count)]
        merged = statements.compute_merged_hash(roots)
        slots = (1 << count) - 1 ^ i
        merge = MergeSignature(
            word("merge/domain"), i, word(f"merge/base/{i}"), slots, merged, word(f"merge/root/{i}")
        )
        table.add(f"{count} claims", **_cells(merge), **_signed(merge), claimRoots=roots)
    return table


def _signatures() -> Table:
    """Returns signatures of one vote, malformed ones included; the signer is zero if there is none."""
    table, vote = Table(), _make_vote()
    signature = sign_statement(KEY, vote, DOMAIN)
    r, vs = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    half, twin = SECPK1_N // 2, SECPK1_N - vs % PARITY
    cases = {
        "as signed": (r, vs),
        "the other parity": (r, vs ^ PARITY),
        "the twin's s": (r, twin),
        "the twin's s without its highest bit": (r, twin ^ PARITY),
        "s at its most": (r, half),
        "s above": (r, half + 1),
        "s at the most of its bits": (r, PARITY - 1),
        "s of zero": (r, 0),
        "r of zero": (0, vs),
        "r of the group's order": (SECPK1_N, vs),
        "r at the most of its bits": ((1 << 256) - 1, vs),
        "all zero": (0, 0),
        **{f"r that may be no point, {i}": (r + i, vs) for i in range(1, 9)},
    }
    for name, (a, b) in cases.items():
        digest, words = hash_statement(vote, DOMAIN), (a.to_bytes(32, "big"), b.to_bytes(32, "big"))
        table.add(name, digest=digest, r=words[0], vs=words[1], signer=_find_signer(vote, b"".join(words)))
    return table


def _find_signer(vote: Vote, signature: bytes) -> str:
    try:
        return recover_signer(vote, signature, DOMAIN)
    except ProtocolFault:
        return NOBODY
