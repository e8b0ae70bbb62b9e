"""The tiny task that the tests of all rooms train, and its data."""

from functools import cache

from tests.e2e.world import TINY_PLAN, make_dataset
from touchstone.node.submit import build_task
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.task_spec import TaskSpec

SUBMITTER = "0x" + "5b" * 20


@cache
def get_spec() -> TaskSpec:
    """The tiny task."""
    return make_spec(*build_task(TINY_PLAN, make_dataset(), SUBMITTER, bytes(32)))
