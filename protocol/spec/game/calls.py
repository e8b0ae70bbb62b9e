"""The calls that accounts can send: one frozen class for each. Twin: the external functions of the contracts.

*Facts* are keyword fields that the contract computes: what only hashing, signatures or headers can tell. A
bond or a stake is taken from the sender's credit.
"""

from dataclasses import dataclass, field

from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind, SeatRole
from touchstone.protocol.spec.game.state import MissedPlace, StatementRef
from touchstone.protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class GameCall:
    """Base of all calls."""


@dataclass(frozen=True)
class Deposit(GameCall):
    """deposit: wei to the sender's credit."""

    wei: int


@dataclass(frozen=True)
class JoinSeat(GameCall):
    """join: take a seat with a stake."""

    role: SeatRole
    wei: int


@dataclass(frozen=True)
class TopUp(GameCall):
    """topUp: adds to the sender's own stake, after a fee for example."""

    seat: int
    wei: int


@dataclass(frozen=True)
class LeaveSeat(GameCall):
    """leave: sit in no pool frozen later."""

    seat: int


@dataclass(frozen=True)
class MarkSilent(GameCall):
    """markSilent: makes a seat leave that does not act, without a loss. missed: what it has missed,
    ascending."""

    seat: int
    missed: tuple[MissedPlace, ...]


@dataclass(frozen=True)
class PayOut(GameCall):
    """payOut: pays a stake to its account's credit, once the seat has left or the task is over."""

    seat: int


@dataclass(frozen=True)
class WithdrawCredit(GameCall):
    """withdraw: all credit of the sender."""


@dataclass(frozen=True)
class HaltTask(GameCall):
    """halt: no later round opens."""


@dataclass(frozen=True)
class CloseGame(GameCall):
    """closeTask: gives the rest of the escrow to the submitter."""


@dataclass(frozen=True)
class FreeEpoch(GameCall):
    """freeEpoch: makes room for new rounds in the place of the oldest ones, which all seats have settled."""


@dataclass(frozen=True)
class StartRounds(GameCall):
    """start: freezes two pools and asks for their beacon."""


@dataclass(frozen=True)
class SealStart(GameCall):
    """sealBeacon of a start. Fact: the randomness of its block."""

    randomness: bytes = field(default=b"", kw_only=True)


@dataclass(frozen=True)
class SealRound(GameCall):
    """sealBeacon of a round that opened without one. Fact: the randomness of its block."""

    round: int
    randomness: bytes = field(default=b"", kw_only=True)


@dataclass(frozen=True)
class SealAudits(GameCall):
    """sealDraw of a closed round. Fact: the randomness of its block."""

    round: int
    randomness: bytes = field(default=b"", kw_only=True)


@dataclass(frozen=True)
class SealClosing(GameCall):
    """sealClosing: the late audits of the last rounds. Fact: the randomness of its block."""

    randomness: bytes = field(default=b"", kw_only=True)


@dataclass(frozen=True)
class CommitRound(GameCall):
    """commit: commits to a claim. What the claim carries over lies under its root."""

    round: int
    base_root: bytes
    beacon: bytes
    claim_root: bytes
    segments: int


@dataclass(frozen=True)
class SignedVote:
    """A vote as it is handed in. claim_root, seed, segment: what it says it is about. Facts: signer, the
    account that its signature recovers to; is_complete, it says all that its word needs (`is_vote_complete`),
    and in an exact task an opening that it is handed in with bears it out (`do_roots_fit_word`)."""

    slot: int
    draw: int
    rank: int
    claim_root: bytes
    seed: bytes
    segment: int
    word: VoteWord
    signer: str
    is_complete: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class HandedOpening:
    """The opening of a vote that counts. Fact: it fits, with its seal and the task's format, a vote that the
    drawn seat signed and that says what was counted: ACCEPT, or any REJECT. If that is another vote than the
    counted one, both are on the chain, and two votes of one draw take the seat."""

    slot: int
    draw: int
    rank: int
    is_fitting: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class JudgeVotes(GameCall):
    """judge: votes and openings of one round."""

    round: int
    votes: tuple[SignedVote, ...] = ()
    openings: tuple[HandedOpening, ...] = ()


@dataclass(frozen=True)
class PostRoot(GameCall):
    """post: merged slots and the root. Fact: the seats whose merge signatures of exactly this are good."""

    round: int
    merged: tuple[int, ...]
    root: bytes
    signers: tuple[int, ...]


@dataclass(frozen=True)
class LetStand(GameCall):
    """stand: keeps the root that the round started from."""

    round: int


@dataclass(frozen=True)
class SettleSeat(GameCall):
    """settle: settles pay and fees of a seat for all rounds up to and including `until_round`. No later
    opened round of the same epoch may hold the seat."""

    seat: int
    until_round: int


@dataclass(frozen=True)
class OpenContest(GameCall):
    """contest: opens a contest. bond_limit: the most that the sender pays, here and below."""

    round: int
    bond_limit: int


@dataclass(frozen=True)
class AnswerContest(GameCall):
    """answerContest: shows 16 nodes. Fact: they hash to their parent."""

    contest: int
    is_hashing: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class NameChild(GameCall):
    """nameChild: names which of the 16 nodes the contester's own tree lacks."""

    contest: int
    child: int


@dataclass(frozen=True)
class BringLeaf(GameCall):
    """bringLeaf. Fact: the inputs are those of the leaf, and computing them gives the posted one."""

    contest: int
    is_right: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class EndRootContest(GameCall):
    """endContest: ends a contest whose clock has run out, or whose root is not posted any more."""

    contest: int


@dataclass(frozen=True)
class AskSigner(GameCall):
    """ask: show a state leaf of both ends. Facts: a seat signed a vote of this draw with this word; signer,
    which one, None for the drawn one; the leaf exists, and a REJECT names it; nothing equal of the sender is
    open."""

    statement: StatementRef
    word: VoteWord
    leaf: int
    bond_limit: int
    is_signed: bool = field(default=True, kw_only=True)
    signer: int | None = field(default=None, kw_only=True)
    is_leaf: bool = field(default=True, kw_only=True)
    is_new: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class AnswerAsk(GameCall):
    """answer. Facts: both leaves lie under the vote's roots; they differ by more than the limits."""

    ask: int
    is_fitting: bool = field(default=True, kw_only=True)
    exceeds_limits: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class EndAsk(GameCall):
    """endAsk: ends an ask whose clock has run out, or whose seat was closed."""

    ask: int


@dataclass(frozen=True)
class DisputeStatement(GameCall):
    """dispute a claim or a vote. Facts, for a vote: a seat signed it; signer, which one, None for the drawn
    one; word, what it says: UNSERVED and ABSTAIN claim no state, so nothing of them can be disputed."""

    statement: StatementRef
    bond_limit: int
    is_signed: bool = field(default=True, kw_only=True)
    signer: int | None = field(default=None, kw_only=True)
    word: VoteWord = field(default=VoteWord.ACCEPT, kw_only=True)


@dataclass(frozen=True)
class EndDispute(GameCall):
    """The inner game of a dispute is over. Fact: its outcome, CONVICTED or CLEARED. After the last clock any
    account may end the dispute as CLEARED. On a closed seat any account may end it as MOOT, at any time."""

    dispute: int
    outcome: GameOutcome = field(default=GameOutcome.CLEARED, kw_only=True)


@dataclass(frozen=True)
class SealProof(GameCall):
    """sealProof: seals a proof, so that nobody gains by copying it from the pool of waiting calls."""

    digest: bytes


@dataclass(frozen=True)
class ConvictSeat(GameCall):
    """convict by a proof in one transaction. Facts: its digest, which names the sender; it holds; signer, the
    seat that signed the vote, None for the drawn one."""

    statement: StatementRef
    proof: ProofKind
    digest: bytes
    is_valid: bool = field(default=True, kw_only=True)
    signer: int | None = field(default=None, kw_only=True)
