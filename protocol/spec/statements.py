"""What members and nodes sign and how, which statements contradict, and the tree a claim commits to.

A claim commits to a tree: a salted leaf for each boundary of its segments, then its work leaf. Twins:
`Hashing.workLeaf`, `Hashing.carriedRoot`, `Hashing.claimRoot`.

    leaves  0 .. s   the states at the boundaries of its s segments (`codec.compute_boundary_leaf`)
            s + 1    what comes of them: the pseudo-gradient, and what the next claim carries on

The claim's root names s beside the tree's root. Otherwise a solver could commit one tree on two forks, with
different numbers of segments. A true statement about one claim would then be false of the other.

Members sign these statements in a round. Twin: `Statements.sol`.

    Sealed          an auditor's own result, hidden, before it sees the claim's end
    Vote            what it found; it repeats what was sealed
    VoteOpening     what stands behind the vote's hashes, once the draw is decided
    MergeSignature  a solver's outer root over the accepted claims

Each one names the task's domain, the round and the root that the round started from. A statement of an audit
names the claim and the seed as well. After a reorganisation any of these may differ. The statement is then
about a round that is not on the chain: it does not count, and it proves no fault of its signer.

A vote carries salted leaves of the claim and no state root, so that it gives other auditors nothing to copy.

Nodes sign more kinds, which no contract ever checks: requests, calibration profiles, reports of a round.

How each kind is signed stands below. Hashes, nonces and ids are 32 bytes.

How statements are signed: EIP-712, with one type for each class of `statements.py`. The hash of EIP-712 is
Keccak-256, which Python's standard library lacks. `to_typed_data` makes the object that a wallet takes
(`eth_signTypedData_v4`); `adapters/keys/signatures.py` hashes, signs and recovers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

from touchstone.protocol.spec.codec import WORD_BYTES, compute_boundary_leaf, hash_words
from touchstone.protocol.spec.containers import DistanceReport, LossReport, StateHeader
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.merkle import compute_depth, compute_root, fold_path
from touchstone.protocol.spec.params import PROTOCOL_VERSION, ZERO_WORD

TAG_CLAIM = "touchstone.claim"
TAG_WORK = "touchstone.work"
TAG_CARRIED = "touchstone.carried"


def count_claim_leaves(segments: int) -> int:
    """Leaves of the tree of a claim of so many segments."""
    return segments + 2


def compute_claim_root(leaves: Sequence[bytes]) -> bytes:
    """What a claim with these leaves commits to."""
    return name_claim(compute_root(leaves), len(leaves) - 2)


def name_claim(tree_root: bytes, segments: int) -> bytes:
    """The root of a claim of so many segments."""
    return hash_words(TAG_CLAIM, tree_root, segments)


def verify_in_claim(claim_root: bytes, leaf: bytes, index: int, segments: int, path: Sequence[bytes]) -> None:
    """Raises ProtocolFault, with the figures, unless `leaf` is leaf `index` of the claim of so many
    segments."""
    count = count_claim_leaves(segments)
    found = name_claim(fold_path(leaf, max(index, 0), path), segments)
    is_place = leaf != ZERO_WORD and 0 <= index < count and len(path) == compute_depth(count)
    if is_place and found == claim_root:
        return
    raise ProtocolFault(
        what="the Merkle proof of a claim's leaf does not hold",
        expected=f"root {claim_root.hex()} with {compute_depth(count)} siblings and an index below {count}",
        actual=f"root {found.hex()} with {len(path)} siblings, index {index}",
        where=f"leaf {index} ({leaf.hex()})",
        remedy="Refuse the data and keep the message: it is evidence.",
    )


def compute_carried_root(last: StateHeader) -> bytes:
    """What a claim hands on to the next one where moments carry over: both moments and the local step of its
    last state."""
    return hash_words(TAG_CARRIED, last.first_moment_root, last.second_moment_root, last.local_step)


def compute_work_leaf(
    domain: bytes, round_number: int, solver: str, segments: int, delta_root: bytes, carried_root: bytes
) -> bytes:
    """The last leaf of a claim's tree. delta_root: of the pseudo-gradient; solver: the account."""
    return hash_words(TAG_WORK, domain, round_number, solver, segments, delta_root, carried_root)


TAG_SEALED = "touchstone.sealed"
TAG_MERGED = "touchstone.merged"


class VoteWord(IntEnum):
    """What a vote says. 0 is none of them, so that an empty place in a contract says nothing."""

    ACCEPT = 1
    REJECT_STATE = 2  # the end state lies beyond the limits at the named leaf
    REJECT_DELTA = 3  # the pseudo-gradient is not the encoded difference at the named leaf
    REJECT_START = 4  # the claim does not start from the root of the round before
    UNSERVED = 5  # bytes are missing or do not fit their root
    ABSTAIN = 6


COMPARED = frozenset({VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA, VoteWord.REJECT_START})
"""Words of an auditor that had everything: its vote names both leaves and what it sealed."""
NAMING = frozenset({VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA})
"""Words that name a leaf."""


@dataclass(frozen=True)
class Sealed:
    """An auditor's result of one replay, sealed before the solver opens the claim's end.

    domain: of the task (`compute_domain`); base_root: the outer root that the round started from; seed: the
    one that drew the audit; draw: its number in the claim, for a late audit the task's draws per claim; rank:
    0 for the primary, 1 and 2 for the reserves; start_leaf: the claim's salted boundary leaf `segment`; seal:
    `compute_seal`. The last two are zero where the auditor was not served so far."""

    domain: bytes
    round: int
    base_root: bytes
    seed: bytes
    slot: int
    claim_root: bytes
    draw: int
    rank: int
    segment: int
    start_leaf: bytes
    seal: bytes


@dataclass(frozen=True)
class Vote(Sealed):
    """What an auditor found. The fields before are those that it sealed.

    end_leaf: the claim's salted boundary leaf `segment` + 1, zero where it was not served; named_leaf: index
    of the leaf of the state or of the pseudo-gradient that a REJECT names, else 0."""

    end_leaf: bytes
    word: VoteWord
    named_leaf: int


@dataclass(frozen=True)
class VoteOpening:
    """What stands behind a vote's two hashes. It is shown once the draw is decided, and never before.

    claim_end_root, boundary_salt: of the claim's leaf after the segment; own_end_root, seal_salt: of the
    auditor's replay."""

    vote: Vote
    claim_end_root: bytes
    boundary_salt: bytes
    own_end_root: bytes
    seal_salt: bytes


@dataclass(frozen=True)
class MergeSignature:
    """A solver's word that merging these claims into the base root gives `root` (`compute_outer_root`).
    merged: their slots, a bitmap. Roots alone would not do: two slots may have the same one, and only the
    account that made it can open its work leaf."""

    domain: bytes
    round: int
    base_root: bytes
    merged: int
    merged_hash: bytes
    root: bytes


Statement = Sealed | Vote | VoteOpening | MergeSignature


# --- Hashes -------------------------------------------------------------------------------------------------
def compute_seal(
    domain: bytes,
    round_number: int,
    slot: int,
    draw: int,
    rank: int,
    auditor: str,
    start_leaf: bytes,
    own_end_root: bytes,
    salt: bytes,
) -> bytes:
    """What hides an auditor's own end root until it may be shown. It names the auditor's account, so that
    no other auditor can hand it in as its own."""
    place = (domain, round_number, slot, draw, rank)
    return hash_words(TAG_SEALED, *place, auditor, start_leaf, own_end_root, salt)


def compute_merged_hash(claim_roots: Sequence[bytes]) -> bytes:
    """One word for the merged claims: their roots, in the order of their shards."""
    return hash_words(TAG_MERGED, *claim_roots)


# --- Judging statements -------------------------------------------------------------------------------------
def is_vote_whole(vote: Vote) -> bool:
    """Whether a vote says all that its word needs. One that does not counts for nothing.

    An auditor that compared has seen both leaves and has sealed. Without this rule an ACCEPT could leave a
    leaf out, and nothing could ever show it to be false."""
    seen = (vote.start_leaf, vote.end_leaf, vote.seal)
    is_complete = vote.word not in COMPARED or ZERO_WORD not in seen
    is_word = vote.word in tuple(VoteWord)
    return is_word and is_complete and (vote.word in NAMING or vote.named_leaf == 0)


def does_opening_fit(vote: Vote, opening: VoteOpening, solver: str, auditor: str) -> bool:
    """Whether an opening shows what stands behind the vote of `auditor` on the claim of `solver` (accounts):
    the claim's end leaf and the sealed result."""
    place = (vote.domain, vote.round, vote.slot, vote.draw, vote.rank)
    seal = compute_seal(*place, auditor, vote.start_leaf, opening.own_end_root, opening.seal_salt)
    end = (opening.boundary_salt, opening.claim_end_root)
    leaf = compute_boundary_leaf(vote.domain, vote.round, solver, vote.segment + 1, *end)
    return opening.vote == vote and seal == vote.seal and leaf == vote.end_leaf


def do_roots_fit_word(opening: VoteOpening) -> bool:
    """Whether an opening bears its vote out in an `exact` task: an ACCEPT found the claim's own end root, a
    REJECT_STATE found another. Other words say nothing of the end roots."""
    expected = {VoteWord.ACCEPT: True, VoteWord.REJECT_STATE: False}
    are_equal = opening.claim_end_root == opening.own_end_root
    return expected.get(opening.vote.word, are_equal) == are_equal


def do_votes_differ(a: Vote, b: Vote) -> bool:
    """Whether two votes of one auditor contradict: they are of one draw and rank of one claim, and not equal.

    Votes that name another round, root, claim or seed are no contradiction: they were right on two forks."""
    return _get_draw(a) == _get_draw(b) and a != b


def do_seals_differ(a: Sealed, b: Sealed) -> bool:
    """Whether an auditor sealed one thing and said or sealed another for the same draw and rank. Votes count
    as what they repeat. A zero in place of the seal hides nothing, so it contradicts nothing: the auditor was
    not served so far, or cannot say any more what it sealed.

    Without this rule an auditor could seal anything, wait for the end, and then vote with a new seal of the
    solver's own root: paid, and nothing replayed."""
    is_kept = (a.segment, a.start_leaf, a.seal) == (b.segment, b.start_leaf, b.seal)
    is_said = ZERO_WORD not in (a.seal, b.seal)
    return _get_draw(a) == _get_draw(b) and is_said and not is_kept


def does_vote_misname(vote: Vote, boundary: int, leaf: bytes) -> bool:
    """Whether a vote names another leaf than `leaf`, which the claim's tree holds at `boundary`. A zero in a
    vote that did not compare names none."""
    named = {vote.segment: vote.start_leaf, vote.segment + 1: vote.end_leaf}.get(boundary, leaf)
    return named != leaf and named != ZERO_WORD


def _get_draw(sealed: Sealed) -> tuple[Any, ...]:
    where = (sealed.domain, sealed.round, sealed.base_root, sealed.seed)
    return (*where, sealed.slot, sealed.claim_root, sealed.draw, sealed.rank)


@dataclass(frozen=True)
class Request:
    """One HTTP request: for this path, to the server of this account, at this second, once."""

    method: str
    path: str
    server: str
    issued_at: int
    nonce: bytes


@dataclass(frozen=True)
class Calibration:
    """A calibration profile: the SHA-256 of its canonical bytes."""

    profile: bytes


NodeStatement = Request | Calibration | LossReport | DistanceReport

# --- How statements are signed (EIP-712) --------------------------------------------------------------------
TypedFields = tuple[tuple[str, str], ...]

_SEALED: TypedFields = (
    ("domain", "bytes32"), ("round", "uint32"), ("baseRoot", "bytes32"), ("seed", "bytes32"),
    ("slot", "uint32"), ("claimRoot", "bytes32"), ("draw", "uint32"), ("rank", "uint32"),
    ("segment", "uint32"), ("startLeaf", "bytes32"), ("seal", "bytes32"),
)  # fmt: skip
STATEMENT_TYPES: Mapping[str, TypedFields] = {
    "Sealed": _SEALED,
    "Vote": (*_SEALED, ("endLeaf", "bytes32"), ("word", "uint8"), ("namedLeaf", "uint32")),
    "VoteOpening": (
        ("vote", "Vote"), ("claimEndRoot", "bytes32"), ("boundarySalt", "bytes32"),
        ("ownEndRoot", "bytes32"), ("sealSalt", "bytes32"),
    ),
    "MergeSignature": (
        ("domain", "bytes32"), ("round", "uint32"), ("baseRoot", "bytes32"), ("merged", "uint64"),
        ("mergedHash", "bytes32"), ("root", "bytes32"),
    ),
}  # fmt: skip
"""The EIP-712 types: the fields of the class of that name, in its order. These a contract checks,"""
NODE_TYPES: Mapping[str, TypedFields] = {
    "Request": (
        ("method", "string"), ("path", "string"), ("server", "address"), ("issuedAt", "uint64"),
        ("nonce", "bytes32"),
    ),
    "Calibration": (("profile", "bytes32"),),
    "LossReport": (
        ("domain", "bytes32"), ("round", "uint32"), ("slot", "uint32"), ("claimRoot", "bytes32"),
        ("steps", "uint32"), ("firstMicronats", "uint64"), ("lastMicronats", "uint64"),
        ("meanMicronats", "uint64"),
    ),
    "DistanceReport": (
        *_SEALED[:9], ("word", "uint8"), ("comparison", "uint8"), ("weightsMicrolimits", "uint64"),
        ("firstMomentMicrolimits", "uint64"), ("secondMomentMicrolimits", "uint64"),
    ),
}  # fmt: skip
"""and these nodes alone."""
_TYPES = {**STATEMENT_TYPES, **NODE_TYPES}
DOMAIN_TYPE: TypedFields = (
    ("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address"),
)  # fmt: skip
UNSIGNED_BITS = {"uint8": 8, "uint32": 32, "uint64": 64}
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


@dataclass(frozen=True)
class SigningDomain:
    """Where a signature is valid: one chain, and one contract (its address) that checks it."""

    chain_id: int
    contract: str


ANYWHERE = SigningDomain(0, "0x" + "00" * 20)
"""Of what is said of no chain: it is valid wherever it is shown."""


def to_typed_data(statement: Statement | NodeStatement, domain: SigningDomain) -> dict[str, Any]:
    """The statement as an EIP-712 object of plain JSON values. Raises InvalidInput where a value does not fit
    its type: a short word would be signed as if zeros followed."""
    name = type(statement).__name__
    types = {"EIP712Domain": DOMAIN_TYPE, **{used: _TYPES[used] for used in _list_types(name)}}
    return {
        "types": {used: [{"name": n, "type": t} for n, t in typed] for used, typed in types.items()},
        "primaryType": name,
        "domain": {
            "name": "Touchstone",
            "version": str(PROTOCOL_VERSION),
            "chainId": domain.chain_id,
            "verifyingContract": domain.contract,
        },
        "message": _to_message(statement),
    }


def _list_types(name: str) -> list[str]:
    inner = [kind for _, kind in _TYPES[name] if kind in _TYPES]
    return [name, *(used for kind in inner for used in _list_types(kind))]


def _to_message(statement: Statement | NodeStatement) -> dict[str, Any]:
    typed, own = _TYPES[type(statement).__name__], fields(statement)
    values = [getattr(statement, field.name) for field in own]
    return {name: _to_json(name, kind, value) for (name, kind), value in zip(typed, values, strict=True)}


def _to_json(name: str, kind: str, value: Any) -> Any:
    if kind in _TYPES:
        return _to_message(value)
    if not _fits(kind, value):
        raise InvalidInput(
            what="a statement's field does not fit its type",
            expected=kind,
            actual=repr(value),
            where=name,
            remedy="Take it from the chain or from the claim's openings.",
        )
    if kind in UNSIGNED_BITS:
        return int(value)
    return "0x" + value.hex() if kind == "bytes32" else value


def _fits(kind: str, value: Any) -> bool:
    if kind == "bytes32":
        return isinstance(value, bytes) and len(value) == WORD_BYTES
    if kind in UNSIGNED_BITS:
        return isinstance(value, int) and 0 <= value < 1 << UNSIGNED_BITS[kind]
    return isinstance(value, str) and (kind == "string" or _ADDRESS.fullmatch(value) is not None)
