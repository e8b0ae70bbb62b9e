"""The residual ledger: who keeps inside the limits, and always on the same side.

A claim may lie off a replay by as much as the accept limit, once. That it does so in one direction, round
after round, is no noise. For every audit the residual (claimed - replayed, in accept limits) is reduced to
a few numbers (`Projection`); here they are centred on what other solvers of the same hardware class show in
the same round, added up by solver, and tested after every round.

    projections of a round --> features by solver --> place within the class --> three bets each --> flag

Every feature is bet on in three ways; each bet is wealth that begins at 1 and that chance alone does not
raise.

*Drift.* d_1, d_2, ... are centred features of one solver. An honest one's are as likely d as -d, given
all before: its residual is noise around its class's centre, and the median of the others lies around the same
centre. Then exp(x S - x^2 V / 2) with S = sum of d, V = sum of d^2 is a supermartingale for every x (de la
Pena, Annals of Probability 27(1), 1999, lemma 6.1: cosh(a) <= exp(a^2 / 2)); so is its mean over x from a
normal distribution with mean 0 and variance 1 / rho (Robbins, Annals of Mathematical Statistics 41(5), 1970),

    E = sqrt(rho / (rho + V)) exp(S^2 / (2 (rho + V))).

So S may grow like the root of V and hardly faster: noise does, a steady steer does not. The noise need be
neither normal nor of known size.

*First and last.* Among n solvers of a class, exchangeable in a round, each is first with a chance of 1 / n,
so that (1 - x) + x n [is first] has mean 1 for each share x that is bet (Shafer and Vovk, Game-Theoretic
Foundations for Probability and Finance, 2019, chapter 3). Being always first is soon too much to be chance:
this sees riders of the limits long before a sum of signs can.

The mean of all bets on all features begins at 1 and exceeds 1 / a at any time with a chance of at most a
(Ville, 1939), so that no number of rounds is fixed beforehand.

Classes are words. A solver that gives itself a class of its own is measured by nobody's size, and several
that steer alike under one false name centre each other. So all bets run a second time with every other solver
of the round as the class, whatever it says of itself: who is beyond the same bound there, and not flagged,
stands *apart*. That is other hardware, or a lie about it, which only a replay tells; the bound on honest
solvers is that of a round of one class.

A flag is a reason to look, and never slashes: statistics convict nobody.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import exp, isfinite, log, log10, sqrt
from statistics import fmean, median

from protocol.spec.errors import InvalidInput

QUANTITIES = ("weights", "first_moment", "second_moment")
SKETCH_BUCKETS = 64
"""Random directions of a round: two sketches tell the cosine of two residuals to an eighth."""
ALARM_RATE = 1e-3
"""An honest solver's chance to be flagged, in a whole task, however long."""
MIXTURE = 2.0
"""rho, in squares of the first centred feature: a drift as large as the noise is found soonest with it (see
docs/decisions/0015-ledger.md)."""
SHARES = (0.2, 0.5, 0.9)
"""Shares of the wealth that are bet on being first, or last, a third of the stake on each."""
LEAST_RMS = 1e-12
"""In accept limits; what lies below counts as this."""


@dataclass(frozen=True)
class Projection:
    """One quantity's residual in one audit, as a few numbers; n elements.

    rms: root mean square, in accept limits. mean, update, gradient, past: cosine with a direction, times
    sqrt(n), so that it is about 1 for noise: all ones; what the replay changed; the signs of the replay's
    first moment; the residuals of this solver that the auditor saw before (None: none). sketch: the unit
    residual on SKETCH_BUCKETS directions drawn after the commitment."""

    quantity: str
    rms: float
    mean: float
    update: float
    gradient: float
    past: float | None
    sketch: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = (self.rms, self.mean, self.update, self.gradient, self.past or 0.0, *self.sketch)
        is_right = self.quantity in QUANTITIES and len(self.sketch) == SKETCH_BUCKETS
        if not is_right or not all(map(isfinite, numbers)) or self.rms < 0:
            raise InvalidInput(
                what="a projection is malformed",
                expected=f"one of {QUANTITIES}, {SKETCH_BUCKETS} buckets, finite numbers, rms >= 0",
                actual=f"{self.quantity!r}, {len(self.sketch)} buckets, rms {self.rms}",
                remedy="Take it from residuals.project.",
            )


@dataclass(frozen=True)
class Observation:
    """What a round's audits showed of one solver. hardware: the classes of claimant and auditor, as they say
    themselves; audits: the projections of each audited segment, all on the same directions."""

    solver: str
    hardware: str
    audits: tuple[tuple[Projection, ...], ...]


# --- Features -----------------------------------------------------------------------------------------------
def compute_features(audits: Sequence[Sequence[Projection]]) -> dict[str, float]:
    """The features of one solver in one round by name, `quantity.kind`: the mean over its audits; `energy`
    is log10 of rms; `pair` the cosine of the residuals of two segments, from their sketches, in units of its
    noise.

    Directions are fresh in each round, and so are the signs on which a steady steer shows in a sketch:
    summing sketches over rounds shows nothing, products within a round do."""
    found: dict[str, list[float]] = {}
    for projections in audits:
        for p in projections:
            for kind, value in _iterate_kinds(p):
                found.setdefault(f"{p.quantity}.{kind}", []).append(value)
    for one, other in combinations(audits, 2):
        for a, b in ((a, b) for a in one for b in other if a.quantity == b.quantity):
            found.setdefault(f"{a.quantity}.pair", []).append(correlate(a.sketch, b.sketch))
    return {name: fmean(values) for name, values in found.items()}


def _iterate_kinds(p: Projection) -> Iterator[tuple[str, float]]:
    yield from (("mean", p.mean), ("update", p.update), ("gradient", p.gradient))
    if p.past is not None:
        yield "past", p.past
    yield "energy", log10(max(p.rms, LEAST_RMS))


def correlate(one: Sequence[float], other: Sequence[float]) -> float:
    """Product of two unit residuals' sketches, times sqrt(SKETCH_BUCKETS): about 1 where they have nothing to
    do with each other."""
    return sqrt(SKETCH_BUCKETS) * sum(a * b for a, b in zip(one, other, strict=True))


def _has_centre(name: str) -> bool:
    """Whether 0 is the centre of honest noise where no other solver shows a better one."""
    return not name.endswith(".energy")


# --- The test -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class DriftTest:
    """One feature of one solver. unit: the magnitude of the first value, which sets the scale and is not
    counted; total and squares: S and V of those after it, in units and squares of it."""

    unit: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def __post_init__(self) -> None:
        if not (self.unit >= 0 and self.squares >= 0 and isfinite(self.total)):
            raise InvalidInput(
                what="a test of the ledger is malformed",
                expected="sizes, and a finite sum",
                actual=f"unit {self.unit}, squares {self.squares}, total {self.total}",
                remedy="Let it begin anew.",
            )

    def take(self, value: float) -> "DriftTest":
        """With one more centred value."""
        if self.unit == 0.0:
            return replace(self, unit=abs(value))
        scaled = value / self.unit
        return replace(self, total=self.total + scaled, squares=self.squares + scaled * scaled)

    @property
    def log_evidence(self) -> float:
        """ln E: 0 at the start."""
        spread = MIXTURE + self.squares
        return self.total**2 / (2 * spread) - log(spread / MIXTURE) / 2


@dataclass(frozen=True)
class PlaceTest:
    """How often one solver was first, or last, among its peers. wealth: ln of it by share of SHARES."""

    wealth: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def take(self, is_there: bool, solvers: int) -> "PlaceTest":
        """With one more round of `solvers`, this one included. Where several are equal none is first."""
        wins = solvers if is_there else 0
        gains = (log(1 - share + share * wins) for share in SHARES)
        small, middle, large = (w + gain for w, gain in zip(self.wealth, gains, strict=True))
        return PlaceTest((small, middle, large))

    @property
    def log_evidence(self) -> float:
        """ln of the mean wealth: 0 at the start."""
        return mean_logs(self.wealth)


@dataclass(frozen=True)
class FeatureTest:
    """The three bets on one feature of one solver."""

    drift: DriftTest = DriftTest()
    first: PlaceTest = PlaceTest()
    last: PlaceTest = PlaceTest()

    def take(self, value: float, others: Sequence[float]) -> "FeatureTest":
        """With one more round: this solver's value, and those of its class."""
        drift = self.drift.take(value - (median(others) if others else 0.0))
        if not others:
            return replace(self, drift=drift)
        count = len(others) + 1
        first = self.first.take(value > max(others), count)
        return FeatureTest(drift, first, self.last.take(value < min(others), count))

    @property
    def log_evidence(self) -> float:
        """ln of the mean of the three."""
        return mean_logs([test.log_evidence for test in (self.drift, self.first, self.last)])


def mean_logs(logs: Sequence[float]) -> float:
    """ln of the mean of numbers whose logarithms are given."""
    largest = max(logs)
    return largest + log(fmean(exp(value - largest) for value in logs))


def mean_evidence(tests: Mapping[str, FeatureTest]) -> float:
    """ln of the mean evidence of some features; 0 where there are none."""
    return mean_logs([test.log_evidence for test in tests.values()]) if tests else 0.0


@dataclass(frozen=True)
class Entry:
    """What the ledger knows of one solver. rounds: observed; lone: those without another solver of its class;
    flagged: the first round in which its evidence stood above 1 / ALARM_RATE, -1: none. wide: the same tests
    against all other solvers, whatever their class; apart: the first round in which those stood so high."""

    tests: Mapping[str, FeatureTest] = field(default_factory=dict)
    rounds: int = 0
    lone: int = 0
    flagged: int = -1
    wide: Mapping[str, FeatureTest] = field(default_factory=dict)
    apart: int = -1

    @property
    def log_evidence(self) -> float:
        """ln of the mean evidence of all features, within its class."""
        return mean_evidence(self.tests)

    @property
    def is_flagged(self) -> bool:
        """Whether this solver is to be looked at more."""
        return self.flagged >= 0

    @property
    def strongest(self) -> str:
        """The feature with the most evidence; empty where nothing was observed."""
        return max(self.tests, key=lambda name: self.tests[name].log_evidence, default="")


@dataclass(frozen=True)
class Ledger:
    """All solvers of one task; `round` is the last one taken in, -1: none."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    round: int = -1

    def list_flagged(self) -> tuple[str, ...]:
        """Flagged solvers, most evidence first."""
        flagged = [solver for solver, entry in self.entries.items() if entry.is_flagged]
        return tuple(sorted(flagged, key=lambda solver: (-self.entries[solver].log_evidence, solver)))

    def list_apart(self) -> tuple[str, ...]:
        """Solvers that only their class explains, if it does: most evidence first."""
        apart = [name for name, entry in self.entries.items() if entry.apart >= 0 and not entry.is_flagged]
        return tuple(sorted(apart, key=lambda name: (-mean_evidence(self.entries[name].wide), name)))


def take_round(ledger: Ledger, round_number: int, observations: Sequence[Observation]) -> Ledger:
    """The ledger with a round more. Raises InvalidInput for a round that is not later than the last one, or a
    solver that is named twice.

    Who was flagged in an earlier round centres nobody: a steerer draws the median of a few towards itself,
    and would in time have its honest peers flagged for the other side."""
    _require_next(ledger, round_number, observations)
    features = {o.solver: compute_features(o.audits) for o in observations}
    entries, flagged, apart = dict(ledger.entries), set(ledger.list_flagged()), set(ledger.list_apart())
    for o in observations:
        others = [p for p in observations if p.solver not in {o.solver, *flagged}]
        peers = [features[p.solver] for p in others if p.hardware == o.hardware]
        everybody = [features[p.solver] for p in others if p.solver not in apart]
        before, own = entries.get(o.solver, Entry()), features[o.solver]
        tests, wide = _take(before.tests, own, peers), _take(before.wide, own, everybody)
        entries[o.solver] = Entry(
            tests,
            before.rounds + 1,
            before.lone + (not peers),
            _note_alarm(before.flagged, tests, round_number),
            wide,
            _note_alarm(before.apart, wide, round_number),
        )
    return Ledger(entries, round_number)


def _take(
    tests: Mapping[str, FeatureTest], features: Mapping[str, float], peers: Sequence[Mapping[str, float]]
) -> dict[str, FeatureTest]:
    taken = dict(tests)
    for name, value in features.items():
        others = [peer[name] for peer in peers if name in peer]
        if others or _has_centre(name):
            taken[name] = taken.get(name, FeatureTest()).take(value, others)
    return taken


def _note_alarm(first: int, tests: Mapping[str, FeatureTest], round_number: int) -> int:
    """The first round of an alarm: an earlier one stays."""
    is_new = first < 0 and mean_evidence(tests) >= -log(ALARM_RATE)
    return round_number if is_new else first


def _require_next(ledger: Ledger, round_number: int, observations: Sequence[Observation]) -> None:
    solvers = [o.solver for o in observations]
    if round_number <= ledger.round or len(set(solvers)) != len(solvers):
        raise InvalidInput(
            what="a round cannot be taken into the ledger",
            expected=f"a round after {ledger.round}, each solver once",
            actual=f"round {round_number}, solvers {solvers}",
            remedy="Gather all audits of a round, then take it once.",
        )
