"""A command of `touchstone` as a process, on a machine whose use a test makes up.

`python -m tests.e2e.lent_node FOLDER WORDS...`: FOLDER has the files of a `Machine`, WORDS are what is typed.
"""

import os
import sys
from pathlib import Path

from protocol.adapters import machine
from scripts.touchstone import main
from tests.protocol.adapters.lent_machine import Machine

LOOK_S = 0.2
"""Between two looks, so that the test need not wait for long."""

if __name__ == "__main__":
    made = Machine(Path(sys.argv[1]))
    made.add_process(os.getpid())
    machine.PLACES, machine.LOOK_S = made.places, LOOK_S
    sys.exit(main(sys.argv[2:]))
