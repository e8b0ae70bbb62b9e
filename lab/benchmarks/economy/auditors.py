"""Verifiers and whistleblowers that cheat: in what they replay, vote, sign and open."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lab.benchmarks.economy.parameters import SEGMENTS, make_word
from lab.benchmarks.economy.play import Play
from lab.benchmarks.economy.solvers import Spoils
from lab.benchmarks.economy.strategy import Agent, Audit, Claim, Sends, Shown, Strategy
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import list_draws
from touchstone.protocol.spec.game.calls import SignedVote
from touchstone.protocol.spec.game.claim_status import get_votes
from touchstone.protocol.spec.game.enums import ProofKind, RoundPhase, SeatRole
from touchstone.protocol.spec.game.state import GameRound, StatementRef
from touchstone.protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class Says(Strategy):
    """Votes `word` on everything without a replay; None sends no vote. With `is_late_only` it does so in late
    audits only."""

    word: VoteWord | None = VoteWord.ACCEPT
    is_late_only: bool = False

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Returns `word`, or the truth if only late audits are cheated."""
        if self.is_late_only and not audit.is_late:
            return play.look(audit)
        return self.word

    def has_replayed(self, play: Play, audit: Audit) -> bool:
        """Returns False: it never replays."""
        return False


@dataclass(frozen=True)
class SealsGarbage(Says):
    """Seals noise instead of a replay, and accepts the claim. The opening fits the seal."""

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Returns ACCEPT if the solver showed everything."""
        shown = play.ask_for(audit)
        return VoteWord.ACCEPT if shown == Shown.ALL else play.vote_unserved(audit)


@dataclass(frozen=True)
class IsHanded(SealsGarbage):
    """Accepts an honest claim without a replay, because the solver hands it the end before it seals. So it
    can show every leaf that it is asked for."""

    def has_replayed(self, play: Play, audit: Audit) -> bool:
        """Returns True: it can show the states as if it had replayed."""
        return True

    def is_end_shared(self, play: Play, audit: Audit) -> bool:
        """Returns True: the solver handed it the claimed end."""
        return True


@dataclass(frozen=True)
class HidesGarbage(SealsGarbage):
    """Seals noise instead of a replay, and hands in its votes through a contract of its own."""

    def is_detouring(self, play: Play, audit: Audit) -> bool:
        """Returns True: all votes go through the contract."""
        return True


@dataclass(frozen=True)
class HidesRejections(Says):
    """Votes REJECT through a contract of its own, and never opens the vote."""

    def is_detouring(self, play: Play, audit: Audit) -> bool:
        """Returns True: all votes go through the contract."""
        return True

    def is_opening(self, play: Play, audit: Audit) -> bool:
        """Returns False: it has no end that fits the seal."""
        return False


@dataclass(frozen=True)
class KeepsShut(Strategy):
    """Replays and votes, but sealed something else, so no opening fits the seal."""

    def is_opening(self, play: Play, audit: Audit) -> bool:
        """Returns False: it never opens a vote."""
        return False


@dataclass(frozen=True)
class CopiesOthers(Strategy):
    """Never replays. It waits for another auditor's opening and repeats it. A reserve copies from its own
    draw, a whistleblower in a late audit."""

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Returns ABSTAIN until another vote of the draw is opened, which is too late to copy."""
        is_open = any(one.is_opened for one in get_votes(play.now.rounds[audit.ref.round], audit.ref.slot,
                                                         audit.ref.draw or 0).values())  # fmt: skip
        return VoteWord.ACCEPT if is_open else VoteWord.ABSTAIN

    def plan(self, play: Play) -> Sends:
        """Sends the copied vote once there is one to copy; by then the draw is over."""
        for ref, audit in list_own_audits(play):
            votes = get_votes(play.now.rounds[ref.round], ref.slot, ref.draw or 0)
            if any(vote.is_opened for vote in votes.values()) and ref.rank not in votes:
                yield audit.auditor, hand_in(play, audit, VoteWord.ACCEPT)


@dataclass(frozen=True)
class Farms(Strategy):
    """Owns all three auditors of a draw: the primary abstains, so that both reserves are paid for one
    replay."""

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Chooses verdicts so that one replay is paid twice."""
        trio = [play.get_audit(replace(audit.ref, rank=rank)) for rank in range(RANKS)]
        if not all(one is not None and one.auditor.startswith("own") for one in trio):
            return play.look(audit)
        if audit.ref.rank == 0:
            return VoteWord.ABSTAIN
        word = play.words.get(replace(audit.ref, rank=3 - audit.ref.rank))
        return word if word is not None else play.look(audit)


@dataclass(frozen=True)
class Contradicts(Strategy):
    """Signs a second vote that contradicts the first. Any account that has both can prove it."""

    def plan(self, play: Play) -> Sends:
        """Lets the first honest auditor that has both votes prove it."""
        refs = [ref for ref, audit in list_own_audits(play) if play.words.get(ref) == VoteWord.ACCEPT]
        finders = play.list_honest(SeatRole.WHISTLEBLOWER)
        for ref in refs[:1]:
            audit = play.get_audit(ref)
            assert audit is not None
            digest = play.table.make_digest(finders[0], ref, ProofKind.TWO_STATEMENTS)
            yield audit.auditor, hand_in(play, audit, VoteWord.REJECT_STATE)
            yield finders[0], calls.CommitProof(digest)
            sealed = play.table.state.seals.get((play.table.get_address(finders[0]), digest))
            if sealed is not None and sealed < play.block:
                yield finders[0], calls.ConvictSeat(ref, ProofKind.TWO_STATEMENTS, digest)


@dataclass(frozen=True)
class HandsIn(Strategy):
    """Hands in votes that do not count. `how` is `forged`: votes of others, signed by itself; `replayed`: its
    own for an old seed; `early`: as a reserve before the primary; `elsewhere`: on another segment."""

    how: str = "forged"

    def plan(self, play: Play) -> Sends:
        """Sends one such vote for each draw."""
        name = "own verifier 0"
        for ref, audit in list_audits(play):
            is_own = audit.auditor == name
            if (self.how == "forged") == is_own or (self.how == "early") != (ref.rank > 0):
                continue
            call = hand_in(play, audit, VoteWord.ACCEPT)
            vote = call.votes[0]
            changes = {
                "forged": {"signer": play.table.get_address(name)},
                "replayed": {"seed": make_word("old")},
                "elsewhere": {"segment": vote.segment + 1},
            }
            vote = replace(vote, **changes.get(self.how, {}))  # type: ignore[arg-type]
            yield name, replace(call, votes=(vote,))


@dataclass(frozen=True)
class Bribed(Says):
    """A solver spoils a segment, and its own auditor accepts it without a replay."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Plans one false segment."""
        return Claim(frozenset({0}))

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Returns ACCEPT on its own solver's claims, the truth on others."""
        is_own = play.get_claim(audit.ref).owner.startswith("own")
        return VoteWord.ACCEPT if is_own else play.look(audit)

    def is_end_shared(self, play: Play, audit: Audit) -> bool:
        """Returns True for its own solver's claims: it is handed the end."""
        return play.get_claim(audit.ref).owner.startswith("own")


def list_audits(play: Play) -> Iterator[tuple[StatementRef, Audit]]:
    """Yields all audits of rounds that are audited now."""
    for game_round in play.now.rounds.values():
        is_closed = game_round.closed is not None and play.block <= game_round.closed + 60
        if not is_closed or game_round.phase == RoundPhase.UNDONE:
            continue
        for slot, draw in list_draws(play.now, game_round):
            for rank in range(RANKS):
                audit = play.get_audit(StatementRef(game_round.index, slot, draw, rank))
                if audit is not None:
                    yield audit.ref, audit


def list_own_audits(play: Play) -> Iterator[tuple[StatementRef, Audit]]:
    """Yields the audits of the agent's auditors."""
    return ((ref, audit) for ref, audit in list_audits(play) if audit.auditor.startswith("own"))


def hand_in(play: Play, audit: Audit, word: VoteWord) -> calls.JudgeVotes:
    """Returns a vote of an auditor with this verdict, valid in everything else."""
    game_round, ref = play.now.rounds[audit.ref.round], audit.ref
    seed = game_round.late_seed if audit.is_late else game_round.seed
    place, root = (ref.slot, ref.draw or 0, ref.rank), game_round.claims[ref.slot].claim_root
    account = play.table.get_address(audit.auditor)
    vote = SignedVote(*place, root, seed or b"", audit.segment, word, account)
    return calls.JudgeVotes(ref.round, (vote,))


def _make(
    name: str, play: str, strategy: Strategy, seats: tuple[int, int, int] = (0, 1, 0), **more: object
) -> Agent:
    return Agent(name, play, strategy, seats, **more)  # type: ignore[arg-type]


HALF = Spoils(frozenset(range(0, SEGMENTS, 2)))
PAIR, LATE_PAIR = (0, 2, 0), (0, 0, 2)
AGENTS = (
    _make(
        "accepts unseen",
        "says ACCEPT to all without a look, beside a solver who spoils half of its work",
        Says(VoteWord.ACCEPT),
        foes=HALF,
        foe_seats=(1, 0, 0),
    ),
    _make(
        "garbage sealer",
        "seals noise, accepts what it is shown: honest work",
        SealsGarbage(),
        is_spotted=True,
    ),
    _make(
        "handed a right root",
        "seals the end that the solver hands it",
        IsHanded(),
        known="A right root can be handed to an auditor",
    ),
    _make(
        "garbage sealer behind a contract",
        "hands in its votes by a contract of its own",
        HidesGarbage(),
        is_spotted=True,
    ),
    _make(
        "hidden pair",
        "says REJECT of honest work by way of a contract of its own",
        HidesRejections(VoteWord.REJECT_STATE),
        PAIR,
    ),
    _make("garbage opener", "seals something else than it opens", KeepsShut()),
    _make("griefing pair", "two verifiers say REJECT of honest work", Says(VoteWord.REJECT_STATE), PAIR),
    _make(
        "pair that blames the pseudo-gradient",
        "says REJECT of right leaves",
        Says(VoteWord.REJECT_DELTA),
        PAIR,
    ),
    _make("pair that blames the start", "says REJECT of right starts", Says(VoteWord.REJECT_START), PAIR),
    _make("pair that cries unserved", "says UNSERVED of what it was served", Says(VoteWord.UNSERVED), PAIR),
    _make("abstaining pair", "says ABSTAIN to hurt", Says(VoteWord.ABSTAIN), PAIR),
    _make("silent verifier", "says nothing once it is drawn", Says(None)),
    _make(
        "late pair that abstains", "says ABSTAIN of accepted claims", Says(VoteWord.ABSTAIN, True), LATE_PAIR
    ),
    _make(
        "late pair that rejects",
        "says REJECT of accepted claims",
        Says(VoteWord.REJECT_STATE, True),
        LATE_PAIR,
    ),
    _make("copying reserve", "waits for the opening of another", CopiesOthers()),
    _make("copying whistleblower", "waits for ends that were published", CopiesOthers(), (0, 0, 1)),
    _make(
        "farmers of reserves",
        "four of six; the primary abstains, two reserves are paid for one replay",
        Farms(),
        (0, 4, 0),
        known="Reserves in one hand",
    ),
    _make("two tongues", "signs two words of one draw", Contradicts()),
    _make("forger of votes", "hands in votes of others, signed by itself", HandsIn("forged")),
    _make("replayer of votes", "hands in votes of an old seed", HandsIn("replayed")),
    _make("reserve before its time", "hands in its vote before the primary's", HandsIn("early")),
    _make("voter on another segment", "hands in votes of a segment that was not drawn", HandsIn("elsewhere")),
    _make("bribed verifier", "accepts its solver's false segment", Bribed(), (1, 1, 0)),
)
