"""Members of a task on the chain: keys, claims, votes and merge signatures, as a node would make them."""

from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from eth_account import Account

from touchstone.node.records.handed_votes import HandedVote
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.signatures import sign_statement
from touchstone.protocol.spec.commitments import compute_boundary_leaf
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.statements import MergeSignature, Vote, VoteWord, compute_seal
from touchstone.protocol.spec.typed_data import SigningDomain


@dataclass(frozen=True)
class Member:
    """A key and its account in lower case."""

    key: AccountKey

    @property
    def address(self) -> str:
        """The account, lower case."""
        return self.key.address.lower()


@dataclass(frozen=True)
class ContractParty:
    """A contract that calls another one, in lower case."""

    address: str


Party = Member | ContractParty
"""Who sends."""


@cache
def make_member(name: str) -> Member:
    """The same key for the same name."""
    return Member(AccountKey(Account.from_key(sha256(name.encode()).digest())))


def make_word(*parts: object) -> bytes:
    """A word that nothing else has."""
    return sha256(repr(parts).encode()).digest()


@dataclass(frozen=True)
class Draw:
    """What a vote is about, as the chain has it."""

    domain: bytes
    round: int
    base_root: bytes
    seed: bytes
    slot: int
    claim_root: bytes
    draw: int
    rank: int
    segment: int
    solver: str


def make_vote(
    draw: Draw, auditor: Member, word: VoteWord, leaf: int = 0, is_same: bool = True
) -> tuple[Vote, tuple[bytes, bytes, bytes, bytes]]:
    """A vote and what opens it: the claim's end root, its salt, the own end root, the seal's salt."""
    end, salt, seal_salt = (make_word("end", draw.claim_root, draw.segment, i) for i in range(3))
    own = end if is_same else make_word("own", draw.claim_root, draw.segment, auditor.address)
    start_leaf = make_word("start", draw.claim_root, draw.segment)
    place = (draw.domain, draw.round, draw.slot, draw.draw, draw.rank)
    seal = compute_seal(*place, auditor.address, start_leaf, own, seal_salt)
    end_leaf = compute_boundary_leaf(draw.domain, draw.round, draw.solver, draw.segment + 1, salt, end)
    seen = word not in (VoteWord.UNSERVED, VoteWord.ABSTAIN)
    vote = Vote(
        draw.domain, draw.round, draw.base_root, draw.seed, draw.slot, draw.claim_root, draw.draw, draw.rank,
        draw.segment, start_leaf if seen else bytes(32), seal if seen else bytes(32),
        end_leaf if seen else bytes(32), word, leaf,
    )  # fmt: skip
    return vote, (end, salt, own, seal_salt)


def hand_vote(
    vote: Vote, opening: tuple[bytes, bytes, bytes, bytes] | None, auditor: Member, signing: SigningDomain
) -> HandedVote:
    """A vote as `judge` takes it, with its opening or without."""
    signature = sign_statement(auditor.key, vote, signing)
    none = bytes(32)
    return HandedVote(
        slot=vote.slot, draw=vote.draw, rank=vote.rank, word=int(vote.word), is_opened=opening is not None,
        named_leaf=vote.named_leaf, start_leaf=vote.start_leaf,
        end_leaf=none if opening else vote.end_leaf, seal=none if opening else vote.seal,
        opening=opening or (none, none, none, none), r=signature[:32], vs=signature[32:],
    )  # fmt: skip


def sign_merge(member: Member, merge: MergeSignature, signing: SigningDomain) -> bytes:
    """64 bytes."""
    return sign_statement(member.key, merge, signing)


def compute_task_domain(chain_id: int, tasks: str, task: bytes) -> bytes:
    """As `Tasks.domainOf`."""
    return hash_words("touchstone.domain", chain_id, tasks, task)
