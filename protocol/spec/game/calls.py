"""Defines the calls that accounts can send, one frozen class each. Twin: the contracts' external functions.

*Facts* are keyword fields that the contract computes, because only hashing, signatures or headers can tell
them. A bond or a stake is taken from the sender's credit.
"""

from dataclasses import dataclass, field

from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind, SeatRole
from touchstone.protocol.spec.game.state import MissedPlace, StatementRef
from touchstone.protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class GameCall:
    """The base of all calls."""


@dataclass(frozen=True)
class Deposit(GameCall):
    """deposit: moves wei to the sender's credit."""

    wei: int


@dataclass(frozen=True)
class JoinSeat(GameCall):
    """join: takes a seat with a stake."""

    role: SeatRole
    wei: int


@dataclass(frozen=True)
class TopUp(GameCall):
    """topUp: adds to the sender's own stake, for example after a fee."""

    seat: int
    wei: int


@dataclass(frozen=True)
class LeaveSeat(GameCall):
    """leave: makes the seat leave all pools that are frozen later."""

    seat: int


@dataclass(frozen=True)
class MarkSilent(GameCall):
    """markSilent: makes an inactive seat leave, without a loss. `missed` are the rounds or draws that it has
    missed, ascending."""

    seat: int
    missed: tuple[MissedPlace, ...]


@dataclass(frozen=True)
class PayOut(GameCall):
    """payOut: pays a stake to its account's credit, once the seat has left or the task is over."""

    seat: int


@dataclass(frozen=True)
class WithdrawCredit(GameCall):
    """withdraw: pays out all credit of the sender."""


@dataclass(frozen=True)
class HaltTask(GameCall):
    """halt: no later round opens."""


@dataclass(frozen=True)
class CloseTask(GameCall):
    """closeTask: gives the rest of the escrow to the submitter."""


@dataclass(frozen=True)
class FreeEpoch(GameCall):
    """freeEpoch: makes room for new rounds in place of the oldest ones, which all seats have settled."""


@dataclass(frozen=True)
class StartRounds(GameCall):
    """start: freezes two pools and asks for a beacon."""


@dataclass(frozen=True)
class DrawStart(GameCall):
    """sealBeacon: gives a start its beacon. Fact: the randomness of the beacon block."""

    randomness: bytes = field(default=b"", kw_only=True)


@dataclass(frozen=True)
class DrawRound(GameCall):
    """sealBeacon: gives a beacon to a round that opened without one. Fact: the randomness of the beacon
    block."""

    round: int
    randomness: bytes = field(default=b"", kw_only=True)


@dataclass(frozen=True)
class DrawAudits(GameCall):
    """sealDraw: draws the audits of a closed round. Fact: the randomness of the deciding block."""

    round: int
    randomness: bytes = field(default=b"", kw_only=True)


@dataclass(frozen=True)
class DrawClosing(GameCall):
    """drawClosing: draws the late audits of the last rounds. Fact: the randomness of the deciding block."""

    randomness: bytes = field(default=b"", kw_only=True)


@dataclass(frozen=True)
class CommitRound(GameCall):
    """commit: commits to a claim by its root, which also covers the moments that the claim carries over."""

    round: int
    base_root: bytes
    beacon: bytes
    claim_root: bytes
    segments: int


@dataclass(frozen=True)
class SignedVote:
    """A vote as it is handed in. `claim_root`, `seed` and `segment` name the audit that the vote claims to be
    about. Facts: `signer` is the account that its signature recovers to. `is_complete` says that it has all
    that its verdict needs (`is_vote_complete`), and that in an exact task an opening that comes with it fits
    (`do_roots_fit_word`)."""

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
    drawn seat signed with the counted verdict: ACCEPT, or any REJECT. If the opening fits another vote than
    the counted one, both votes are on chain, and two votes on one draw cost the seat."""

    slot: int
    draw: int
    rank: int
    is_fitting: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class JudgeVotes(GameCall):
    """judge: hands in votes and openings of one round."""

    round: int
    votes: tuple[SignedVote, ...] = ()
    openings: tuple[HandedOpening, ...] = ()


@dataclass(frozen=True)
class PostRoot(GameCall):
    """post: posts the merged slots and the root. Fact: the seats whose merge signatures of exactly this are
    valid."""

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
    """contest: opens a contest. `bond_limit` is the most that the sender pays, in this call and in the ones
    below."""

    round: int
    bond_limit: int


@dataclass(frozen=True)
class AnswerContest(GameCall):
    """answerContest: shows 16 nodes. Fact: they hash to their parent."""

    contest: int
    is_hashing: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class NameChild(GameCall):
    """nameChild: names one of the 16 nodes, which the contester's own tree lacks."""

    contest: int
    child: int


@dataclass(frozen=True)
class BringLeaf(GameCall):
    """bringLeaf: brings the inputs of a leaf. Fact: they are the leaf's inputs, and computing the leaf from
    them gives the posted leaf."""

    contest: int
    is_right: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class EndRootContest(GameCall):
    """endContest: ends a contest whose time is over, or whose root is not posted any more."""

    contest: int


@dataclass(frozen=True)
class QueryVote(GameCall):
    """queryVote: the signer must show a state leaf of both ends. Facts: a seat signed a vote of this draw
    with this verdict; `signer` is that seat, None for the drawn one; the leaf exists, and a REJECT names it;
    the sender has no equal query open."""

    statement: StatementRef
    word: VoteWord
    leaf: int
    bond_limit: int
    is_signed: bool = field(default=True, kw_only=True)
    signer: int | None = field(default=None, kw_only=True)
    is_leaf: bool = field(default=True, kw_only=True)
    is_new: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class AnswerQuery(GameCall):
    """answer: shows the leaf. Facts: both leaves are under the vote's roots; they differ by more than the
    limits."""

    query: int
    is_fitting: bool = field(default=True, kw_only=True)
    exceeds_limits: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class EndQuery(GameCall):
    """endQuery: ends a query whose time is over, or whose seat was closed."""

    query: int


@dataclass(frozen=True)
class DisputeStatement(GameCall):
    """dispute: disputes a claim or a vote. Facts, for a vote: a seat signed it; `signer` is that seat, None
    for the drawn one; `word` is its verdict. UNSERVED and ABSTAIN say nothing about a state, so they cannot
    be disputed."""

    statement: StatementRef
    bond_limit: int
    is_signed: bool = field(default=True, kw_only=True)
    signer: int | None = field(default=None, kw_only=True)
    word: VoteWord = field(default=VoteWord.ACCEPT, kw_only=True)


@dataclass(frozen=True)
class EndDispute(GameCall):
    """Ends a dispute whose moves are over. Fact: its outcome, CONVICTED or CLEARED. After the last deadline
    any account may end the dispute as CLEARED. On a closed seat any account may end it as MOOT, at any
    time."""

    dispute: int
    outcome: GameOutcome = field(default=GameOutcome.CLEARED, kw_only=True)


@dataclass(frozen=True)
class CommitProof(GameCall):
    """commitProof: commits to a proof, so that nobody gains by copying it from the pool of waiting
    transactions."""

    digest: bytes


@dataclass(frozen=True)
class ConvictSeat(GameCall):
    """convict: convicts by a proof in one transaction. Facts: the proof's digest, which names the sender; the
    proof holds; `signer` is the seat that signed the vote, None for the drawn one."""

    statement: StatementRef
    proof: ProofKind
    digest: bytes
    is_valid: bool = field(default=True, kw_only=True)
    signer: int | None = field(default=None, kw_only=True)
