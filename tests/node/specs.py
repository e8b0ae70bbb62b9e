"""The tiny task that the tests of all rooms train, and its data."""

from functools import cache

from tests.e2e.world import TINY_PLAN, make_dataset
from tests.task_plans import respecify_plan
from touchstone.node.submit import build_task
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.task_spec import TaskSpec

SUBMITTER = "0x" + "5b" * 20


@cache
def get_spec(numeric_format: str = "float32") -> TaskSpec:
    """The tiny task."""
    plan = respecify_plan(TINY_PLAN, numeric_format=numeric_format)
    return make_spec(*build_task(plan, make_dataset(), SUBMITTER, bytes(32)))
