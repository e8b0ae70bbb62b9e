"""What the prototype's parties compute off the chain: draws as the contract makes them, votes, signatures."""

from collections.abc import Container
from dataclasses import dataclass
from hashlib import sha256

from coincurve import PrivateKey
from eth_utils.crypto import keccak

DRAWS, LATE = 2, 2
SOLVER, VERIFIER, WHISTLEBLOWER = range(3)
ACCEPT, REJECT = 1, 2
SEGMENTS = 16
LOW_64 = (1 << 64) - 1


def tagged(tag: str, *words: bytes | int) -> bytes:
    """SHA-256 of `abi.encode(bytes32("touchstone." + tag), words...)`."""
    parts = [word.to_bytes(32, "big") if isinstance(word, int) else word.ljust(32, b"\0") for word in words]
    return sha256(f"touchstone.{tag}".encode().ljust(32, b"\0") + b"".join(parts)).digest()


def hash_pair(word: bytes, number: int) -> bytes:
    """SHA-256 of two words."""
    return sha256(word + number.to_bytes(32, "big")).digest()


def deal(seed: bytes, span: int, members: Container[int], need: int) -> list[int]:
    """Fisher-Yates over 0 .. span - 1, cut short once `need` members are found."""
    seats, order, random = list(range(span)), list[int](), 0
    for i in range(span):
        random = int.from_bytes(hash_pair(seed, i >> 2), "big") if i % 4 == 0 else random >> 64
        j = i + (random & LOW_64) % (span - i)
        seats[i], seats[j] = seats[j], seats[i]
        order += [seats[i]] if seats[i] in members else []
        if len(order) == need:
            break
    return order


def deal_auditors(seed: bytes, kind: int, pool: int, draws: int) -> list[list[int]]:
    """The seats of the three ranks of each draw."""
    step = min(draws, pool // 3)
    order = deal(hash_pair(seed, kind), pool, range(pool), 3 * draws if draws < pool // 3 else pool)
    return [[order[(t + rank * step) % len(order)] for rank in range(3)] for t in range(draws)]


def draw_segments(seed: bytes, late_seed: bytes, slot: int) -> tuple[int, int, int]:
    """The two segments of a claim, then that of its late audit."""
    random = int.from_bytes(hash_pair(seed, 1 << 128 | slot), "big")
    first = (random & LOW_64) % SEGMENTS
    second = (first + 2 + (random >> 64 & LOW_64) % (SEGMENTS - 3)) % SEGMENTS
    random = int.from_bytes(hash_pair(late_seed, 2 << 128 | slot), "big")
    left = [one for one in range(SEGMENTS) if one not in (first, second)]
    return first, second, left[(random & LOW_64) % len(left)]


@dataclass(frozen=True)
class Party:
    """A key and its address."""

    key: PrivateKey
    address: str

    def sign(self, digest: bytes) -> bytes:
        """64 bytes as EIP-2098 has them."""
        signed = self.key.sign_recoverable(digest, hasher=None)
        return signed[:32] + bytes([signed[32] | signed[64] << 7]) + signed[33:64]


def make_party(name: str) -> Party:
    """The same key for the same name."""
    key = PrivateKey(sha256(name.encode()).digest())
    return Party(key, "0x" + keccak(key.public_key.format(compressed=False)[1:])[12:].hex())


@dataclass(frozen=True)
class Ballot:
    """A vote in the making. drawn_by: the seed that drew it; place: slot, draw, rank."""

    domain: bytes
    round: int
    claim_root: bytes
    drawn_by: bytes
    place: tuple[int, int, int]
    segment: int

    def cast(self, auditor: Party, word: int, is_opened: bool) -> bytes:
        """The vote as `judge` takes it, with its Opening or without."""
        slot, draw, rank = self.place
        start, end, own, salts = (hash_pair(self.claim_root, 8 * draw + i) for i in range(4))
        where = (self.domain, self.round, slot)
        end_leaf = tagged("boundary", *where, self.segment + 1, salts[:16], end)
        address = int(auditor.address, 16)
        seal = tagged("sealed", *where, draw, rank, address, start, own, salts[16:])
        drawn = (self.claim_root, self.drawn_by, draw, rank, self.segment)
        digest = tagged("vote", *where, *drawn, start, end_leaf, seal, word)
        head = bytes([slot, draw, rank, 2 * is_opened]) + word.to_bytes(4, "big")
        return head + auditor.sign(digest) + (start + (end + salts + own if is_opened else end_leaf + seal))
