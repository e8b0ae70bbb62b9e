"""Time that does not pass while this run waits for a processor."""

import subprocess
import sys

from touchstone.demo.own_time import _list_threads


def test_a_child_that_has_ended_has_no_threads() -> None:
    """It can end between two looks: the demo ended with it."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    assert child.wait() == 0
    assert _list_threads(str(child.pid)) == []
