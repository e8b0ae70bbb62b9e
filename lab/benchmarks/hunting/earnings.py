"""Computes what an attack earns beyond honest work, in tokens, with a task's sampling and amounts.

Everything is counted in the cheat's favour: it spoils the segments for which the balance is best, and is its
own finder and submitter. A claim that honest auditors reject is void. Whether the seat is lost too is taken
from the measured attack.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from touchstone.protocol.economics.assumptions import Figures, read_sampling
from touchstone.protocol.economics.false_claims import Cheat, list_cheats
from touchstone.protocol.economics.slashes import compute_burned
from touchstone.protocol.economics.withholding import compute_taken_fees, list_withholdings
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.params import CHEAT_VERIFIER_SHARE_PERCENT, LATE_RATE_ONE, TOKEN_WEI
from touchstone.scripts.tasks.task_example import TASK_FILE
from touchstone.scripts.tasks.task_file import read_task_file, sketch_terms

OWNED = Fraction(CHEAT_VERIFIER_SHARE_PERCENT, 100)
"""The share of verifiers, and of whistleblowers, that a coalition may own."""


@dataclass(frozen=True)
class Deal:
    """A task's terms, and the figures that its amounts were made from."""

    terms: GameTerms
    figures: Figures

    @property
    def loss(self) -> Fraction:
        """What a convicted solver loses besides the pay of its claim, in wei."""
        return Fraction(compute_burned(self.terms.amounts.solver_stake, self.terms.amounts.finder_cap))

    @property
    def audit_loss(self) -> Fraction:
        """What a convicted auditor loses besides the pay of its vote, in wei."""
        return Fraction(compute_burned(self.terms.amounts.auditor_stake, self.terms.amounts.finder_cap))

    @property
    def audit_price(self) -> Fraction:
        """The cost of replaying one segment, in wei."""
        return Fraction(self.figures.cost, self.terms.segment_count)

    def list_cheats(self, detected: Fraction, owned: Fraction) -> Iterator[Cheat]:
        """Returns the best ways to spoil segments of whole claims. `detected` is the chance that an honest
        auditor notices a false segment that it replays; `owned` is the cheat's share of auditors."""
        sampling = replace(read_sampling(self.terms, self.figures), detection=detected, owned=owned)
        return (one for one in list_cheats(sampling) if one.segments == self.terms.segment_count)


def read_deal(task_file: Path = TASK_FILE) -> Deal:
    """Returns the deal of a task file, by default the demo's; its dataset is not needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "task.toml")
        path.write_text(task_file.read_text())
        Path(folder, "corpus.bin").write_bytes(bytes(200_000))
        read = read_task_file(path)
    return Deal(sketch_terms(read.plan), read.figures)


def to_tokens(wei: Fraction | int) -> Fraction:
    """Converts wei to tokens."""
    return Fraction(wei) / TOKEN_WEI


# Solvers
def compute_net(
    deal: Deal, saved: float, detected: float, owned: Fraction = Fraction(0), convicted: float = 1.0
) -> Fraction:
    """Returns, for the best choice of segments to spoil, the compute that was saved less what is lost when
    caught, in tokens. Below zero, honest work earns more. `convicted` is the share of caught claims that also
    lose their seat."""
    pay, cost = deal.terms.amounts.solver_pay, deal.figures.cost
    best = max(
        (1 - one.computed) * Fraction(saved) * cost
        - one.voided * pay
        - one.caught * Fraction(convicted) * deal.loss
        for one in deal.list_cheats(Fraction(detected), owned)
    )
    return to_tokens(best)


def compute_bearable_gain(
    deal: Deal, detected: float, owned: Fraction = Fraction(0), convicted: float = 1.0
) -> Fraction:
    """Returns what one spoiled segment must be worth to an outsider before it pays, in tokens."""
    pay = deal.terms.amounts.solver_pay
    one = min(deal.list_cheats(Fraction(detected), owned), key=lambda cheat: cheat.spoiled)
    risk = one.voided * pay + one.caught * Fraction(convicted) * deal.loss
    return to_tokens(risk / (1 - one.voided))


# Everybody else
@dataclass(frozen=True)
class Play:
    """An attack that is not a false computation. `net` is what it earns beyond honest work, in tokens."""

    number: str
    name: str
    net: Fraction


def list_plays(deal: Deal) -> tuple[Play, ...]:
    """Returns these attacks with what they earn beyond honest work."""
    amounts = deal.terms.amounts
    lie = deal.audit_price - amounts.audit_pay - deal.audit_loss
    copied = deal.audit_price - compute_fall(deal) * (amounts.audit_pay + deal.audit_loss)
    refused = compute_serving_net(deal)
    plays = (
        ("13", "riding inside the limits of a segment, worth nothing", Fraction(0)),
        ("18", "one more draw after a bad one", Fraction(-amounts.solver_pay)),
        ("19", "only one's own verifiers served", refused),
        ("25", "verifier accepts an honest claim without a replay", deal.audit_price),
        ("25", "verifier accepts a false claim without a replay", copied),
        ("26", "verifier is handed a false root", copied),
        ("26", "verifier is handed an honest root", deal.audit_price),
        ("28", "false accusation", Fraction(-amounts.dispute_bond)),
        ("28", "false accusation of oneself", Fraction(-amounts.dispute_bond, 2)),
        ("28", "a right vote asked about", Fraction(-amounts.query_bond)),
        ("28", "a right root contested", Fraction(-amounts.contest_bond)),
        ("31", "self-challenge, submitter included", -deal.loss),
        ("32", "honest work rejected", lie),
        ("33", "silence after the draw", deal.audit_price - amounts.audit_pay),
        ("33b", "a broken trace against those who accepted", -deal.loss - amounts.solver_pay),
    )
    owned = Play("27", "idle solver and half of all auditors", compute_net(deal, 1.0, 1.0, OWNED))
    drift = Play("13", "drift in each step, worth nothing", compute_net(deal, 0.0, 1.0, OWNED, 0.0))
    return (*(Play(number, name, to_tokens(net)) for number, name, net in plays), owned, drift)


def compute_fall(deal: Deal) -> Fraction:
    """Returns the chance that a claim without any work is rejected although one verifier votes as its solver
    wants: another auditor is drawn for another segment, or audits late. Then a whistleblower judges the steps
    of that verifier's own vote."""
    late = Fraction(deal.terms.late_chance, LATE_RATE_ONE)
    others = Fraction(1, deal.terms.least_verifiers) ** (deal.terms.draws - 1)
    return 1 - others * (1 - late)


def compute_serving_net(deal: Deal) -> Fraction:
    """Returns what the best way of refusing to serve other auditors earns, in wei, if a merged claim is worth
    the V that the task states."""
    gain = deal.figures.assumed_withholding_gain
    return max(
        one.compute_gain(gain) - compute_taken_fees(deal.terms, deal.figures, one)
        for one in list_withholdings(deal.terms, deal.figures)
    )
