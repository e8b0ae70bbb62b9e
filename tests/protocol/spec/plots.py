"""Every way in which a round of the tiny world can go: all honest, every silent party at every deadline, all
mixes of accepting and rejecting auditors, late audits, rounds that never start."""

from functools import cache

from protocol.spec import calls
from tests.protocol.spec.play import Play, Plot

PRIMARY, FIRST, SECOND, LATE = (0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0)
CALL_END = 72
"""Half of the reserves' replay window, blocks 68 to 76 of the tiny world."""
FAR_PRIMARY = {PRIMARY: "far"}
NO_REPLAY = frozenset({"commitReplay.0", "commitReplay.1", "commitReplay.2"})
ALL_FAR = {PRIMARY: "far", FIRST: "far", SECOND: "far"}

HONEST = (
    Plot("all honest"),
    Plot("every call repeated", is_repeated=True),
    Plot("trespasses at every turn", is_probed=True),
    Plot("trespasses in an escalation", is_probed=True, results={**FAR_PRIMARY, FIRST: "near", LATE: "far"}),
    Plot("no whistleblower", whistleblowers=0),
    Plot("two solvers", solvers=2),
    Plot("two solvers, one does not commit", solvers=2, silent=frozenset({"commit@solver:1"})),
    Plot("five verifiers", verifiers=5),
)
EMPTY = (
    Plot("two verifiers", verifiers=2),
    Plot("no solver", solvers=0),
    Plot("beacon not sealed", silent=frozenset({"sealBeacon"})),
)
ESCALATIONS = (
    Plot("primary near", results={PRIMARY: "near"}),
    Plot("primary far, reserves equal", results=FAR_PRIMARY),
    Plot("primary far, reserves near", results={**FAR_PRIMARY, FIRST: "near", SECOND: "near"}),
    Plot("primary far, one reserve near, one equal", results={**FAR_PRIMARY, FIRST: "near"}),
    Plot("primary and one reserve far", results={**FAR_PRIMARY, SECOND: "far"}),
    Plot("all three far", results=ALL_FAR),
)
SILENT_PRIMARY = (
    Plot("nothing committed", silent=frozenset({"commit"})),
    Plot("draw not sealed", silent=frozenset({"sealDraw"})),
    Plot("start not opened", silent=frozenset({"openStart"})),
    Plot("primary silent", silent=frozenset({"commitReplay.0"})),
    Plot("end not opened", silent=frozenset({"openEnd"})),
    Plot("end not opened, primary silent", silent=frozenset({"openEnd", "commitReplay.0"})),
    Plot("primary does not reveal", silent=frozenset({"reveal.0"})),
    Plot("end not opened, primary does not reveal", silent=frozenset({"openEnd", "reveal.0"})),
    Plot("leaf draw not sealed", silent=frozenset({"sealLeaves.0"}), results=FAR_PRIMARY),
    Plot("leaves not opened", silent=frozenset({"openLeaves.0"}), results=FAR_PRIMARY),
    Plot("primary does not compare", silent=frozenset({"compareLeaves.0"}), results=FAR_PRIMARY),
    Plot("nobody judges", silent=frozenset({"judge"})),
    Plot("nobody judges, nothing committed", silent=frozenset({"judge", "commit"})),
    Plot("nobody posts", silent=frozenset({"postOuter"})),
    Plot("nobody settles the merge", silent=frozenset({"settleMerge"})),
    Plot("nobody advances", silent=frozenset({"advance"})),
)
SILENT_RESERVES = (
    Plot("one reserve silent", silent=frozenset({"commitReplay.1"}), results=FAR_PRIMARY),
    Plot("both reserves silent", silent=frozenset({"commitReplay.1", "commitReplay.2"}), results=FAR_PRIMARY),
    Plot("one reserve does not reveal", silent=frozenset({"reveal.2"}), results=FAR_PRIMARY),
    Plot("both reserves do not reveal", silent=frozenset({"reveal.1", "reveal.2"}), results=FAR_PRIMARY),
    Plot("reserves' leaf draw not sealed", silent=frozenset({"sealLeaves.1"}), results=ALL_FAR),
    Plot("reserves' leaves not opened", silent=frozenset({"openLeaves.1"}), results=ALL_FAR),
    Plot(
        "one reserve's leaves not opened",
        silent=frozenset({"openLeaves.1"}),
        results={**FAR_PRIMARY, FIRST: "near"},
    ),
    Plot("reserve does not compare", silent=frozenset({"compareLeaves.1"}), results=ALL_FAR),
    Plot(
        "reserves called in time, both silent",
        silent=frozenset({"commitReplay.1", "commitReplay.2"}),
        held={"judge": CALL_END - 1},
        results=FAR_PRIMARY,
    ),
    Plot(
        "reserves called late, both silent",
        silent=frozenset({"commitReplay.1", "commitReplay.2"}),
        held={"judge": CALL_END},
        results=FAR_PRIMARY,
    ),
    Plot(
        "reserves called late, one does not reveal",
        silent=frozenset({"reveal.1", "commitReplay.2"}),
        held={"judge": CALL_END},
        results=FAR_PRIMARY,
    ),
    Plot("reserves called late, both accept", held={"judge": CALL_END}, results=FAR_PRIMARY),
    Plot("every auditor silent", silent=NO_REPLAY),
    Plot("every auditor silent, reserves called late", silent=NO_REPLAY, held={"judge": CALL_END}),
    Plot("primary and one reserve silent", silent=frozenset({"commitReplay.0", "commitReplay.2"})),
    Plot(
        "two silent, one abstains",
        silent=frozenset({"commitReplay.0", "commitReplay.2"}),
        words={"commitReplay.1": calls.Abstain},
    ),
)
WORDS = (
    Plot("primary unserved", words={"commitReplay.0": calls.SayUnserved}),
    Plot(
        "primary and one reserve unserved",
        words={"commitReplay.0": calls.SayUnserved, "commitReplay.1": calls.SayUnserved},
    ),
    Plot(
        "all unserved",
        words=dict.fromkeys(("commitReplay.0", "commitReplay.1", "commitReplay.2"), calls.SayUnserved),
    ),
    Plot("primary abstains", words={"commitReplay.0": calls.Abstain}),
    Plot(
        "primary and one reserve abstain",
        words={"commitReplay.0": calls.Abstain, "commitReplay.2": calls.Abstain},
    ),
    Plot(
        "one unserved, one abstains",
        words={"commitReplay.0": calls.SayUnserved, "commitReplay.1": calls.Abstain},
    ),
    Plot("late auditor unserved", words={"commitReplay.late": calls.SayUnserved}),
    Plot("late auditor abstains", words={"commitReplay.late": calls.Abstain}),
)
LATE_AUDITS = (
    Plot("late near", results={LATE: "near"}),
    Plot("late far", results={LATE: "far"}),
    Plot("late draw not sealed", silent=frozenset({"sealLate"})),
    Plot("late start not opened", silent=frozenset({"openStart.late"})),
    Plot("late auditor silent", silent=frozenset({"commitReplay.late"})),
    Plot("late end not opened", silent=frozenset({"openEnd.late"})),
    Plot("late auditor does not reveal", silent=frozenset({"reveal.late"})),
    Plot("late leaf draw not sealed", silent=frozenset({"sealLeaves.2"}), results={LATE: "far"}),
    Plot("late leaves not opened", silent=frozenset({"openLeaves.2"}), results={LATE: "far"}),
    Plot("late auditor does not compare", silent=frozenset({"compareLeaves.late"}), results={LATE: "far"}),
)
PLOTS = HONEST + EMPTY + ESCALATIONS + SILENT_PRIMARY + SILENT_RESERVES + WORDS + LATE_AUDITS
BY_NAME = {plot.name: plot for plot in PLOTS}


@cache
def play_plot(name: str) -> Play:
    """A round played to its end; shared, so nobody may play on with it."""
    return Play(BY_NAME[name]).run()
