"""What every test process needs before it imports anything else."""

import os

from hypothesis import settings

# Tests run in two processes on two cores; a test that studies threads sets their number itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shared machine is slow at times: a deadline would fail tests at random.
settings.register_profile("touchstone", deadline=None, print_blob=True)
settings.load_profile("touchstone")
