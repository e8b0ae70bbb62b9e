"""Decision 0020 has the tables that the benchmark prints."""

from lab.benchmarks.grinding import render_known, render_played
from touchstone.scripts.toolchain import ROOT


def test_the_decision_has_the_figures_of_the_presets_as_they_are() -> None:
    page = (ROOT / "docs" / "decisions" / "0020-randomness.md").read_text()
    for table in (render_known(), render_played()):
        assert table in page, "./dev bench grinding prints the tables of docs/decisions/0020-randomness.md"
