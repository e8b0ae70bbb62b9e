"""All plays are played in memory, and recorded alike each time. Forge replays what is recorded here."""

import re
from pathlib import Path

import pytest

from tests.kit import traces
from tests.kit.plays import GROUPS
from tests.kit.plays.rounds import make_running
from tests.kit.world import World
from touchstone.protocol.spec.game.rule_refusals import REMEDIES

RUNNER = Path(__file__).parents[1] / "contracts" / "plays" / "RecordedPlays.t.sol"
NAMES = [name for name, _ in traces.list_plays()]


@pytest.mark.parametrize("name", NAMES)
def test_a_play_is_played_and_recorded(name: str) -> None:
    """Every call passes or is refused as the play says; once the task is there each has a digest, or a
    refusal."""
    trace = traces.make_trace(traces.play_once(name))
    assert all((step["refused"] == "") == (int(step["digest"], 16) != 0) for step in trace["calls"][1:])


@pytest.mark.parametrize("name", NAMES[:: len(NAMES) // 5])
def test_a_play_is_recorded_alike_each_time(name: str) -> None:
    play = dict(traces.list_plays())[name]
    assert traces.render(traces.make_trace(play())) == traces.render(traces.make_trace(play()))


def test_every_group_has_its_place_in_the_runner() -> None:
    replayed = re.findall(r'_replayGroup\("(\w+)"\)', RUNNER.read_text())
    assert sorted(replayed) == sorted(GROUPS)


def test_every_refusal_of_the_machine_is_played() -> None:
    """A rule that no play breaks is a rule that nobody has seen refused on both sides."""
    refused = {one.refused for name in NAMES for one in traces.play_once(name).log}
    assert not set(REMEDIES) - refused


def test_a_call_that_is_refused_unexpectedly_ends_the_play() -> None:
    world = World("a call is refused unexpectedly")
    with pytest.raises(AssertionError, match="NoDrawDue; the play says that it passes"):
        world.seals_start()


def test_a_call_that_passes_unexpectedly_ends_the_play() -> None:
    world = make_running("a call passes unexpectedly")
    expected = "passes; the play says that it is refused by NotHolder"
    with pytest.raises(AssertionError, match=expected), world.refuses("NotHolder"):
        world.anybody("ann").leaves()
    with pytest.raises(AssertionError, match="a refusal without a call"), world.refuses("NotHolder"):
        pass
