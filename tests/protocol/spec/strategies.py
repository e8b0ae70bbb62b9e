"""Random rounds: any calls left out, any results, any words."""

from hypothesis import strategies as st

from protocol.spec import calls
from tests.protocol.spec.play import Plot

LABELS = sorted(
    {
        f"{name}.{suffix}"
        for name in ("commitReplay", "reveal", "compareLeaves")
        for suffix in (0, 1, 2, "late")
    }
    | {f"{name}.{phase}" for name in ("sealLeaves", "openLeaves") for phase in range(3)}
    | {"sealBeacon", "commit", "sealDraw", "openStart", "openStart.late", "openEnd", "openEnd.late", "judge"}
    | {"postOuter", "sealLate", "settleMerge", "advance"}
)
AUDITS = [(slot, draw, rank) for slot in range(2) for draw, rank in ((0, 0), (0, 1), (0, 2), (1, 0))]
WORDS = st.sampled_from([calls.SayUnserved, calls.Abstain])
PLOTS = st.builds(
    Plot,
    name=st.just("random"),
    solvers=st.integers(0, 2),
    verifiers=st.integers(2, 5),
    whistleblowers=st.integers(0, 2),
    silent=st.frozensets(st.sampled_from(LABELS), max_size=4),
    words=st.dictionaries(
        st.sampled_from([f"commitReplay.{rank}" for rank in (0, 1, 2, "late")]), WORDS, max_size=2
    ),
    results=st.dictionaries(st.sampled_from(AUDITS), st.sampled_from(["equal", "near", "far"])),
)
