"""Reads the table [model] of a task file that names a recorded step, of any module.

    [model]
    step = "build/step"             # the folder of a recorded step, and no other key

Without `step` it has the sizes of the plain decoder (`decoder_table.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from touchstone.protocol.spec.params import GIVEN_START
from touchstone.scripts.command_line.typed_input import read_path
from touchstone.scripts.tasks.toml_tables import MISSING_KEY, malformed
from touchstone.step.step_folder import StepFiles, load_step

STEP_OWNS = ("optimizer", "chunk_terms")
"""Keys of a task file whose values a recorded step fixes."""


@dataclass(frozen=True)
class NamedStep:
    """A recorded step and its folder. It stands for the task's starting weights if these are the module's."""

    folder: Path
    files: StepFiles

    def read(self) -> Tensor:
        """Returns the weights of the recorded module."""
        return self.files.weights


def take_step(document: dict[str, Any], path: Path) -> NamedStep | None:
    """Replaces the name of a recorded step in a document by the step. Values that the file leaves out come
    from the step; without a seed the task begins with the module's weights. Raises InvalidInput if another
    key says the same, and if the folder has no whole step."""
    if "step" in document:
        raise malformed(path, "step", "the key step in the table [model]", "a key of its own")
    if document.get("initial_seed") == GIVEN_START:
        raise malformed(path, "initial_seed", f"0 to {GIVEN_START - 1}", repr(GIVEN_START))
    table = document.get("model")
    if not isinstance(table, Mapping):
        expected = "a table with step, or the sizes of a decoder"
        raise malformed(path, "model", expected, MISSING_KEY if table is None else repr(table))
    if "step" not in table:
        return None
    named = document.pop("model")["step"]
    if len(table) > 1:
        others = ", ".join(name for name in table if name != "step")
        raise malformed(path, "model.step", "no other key in the table beside step", others)
    for key in STEP_OWNS:
        if key in document:
            raise malformed(path, key, "no such key beside model.step: the step has it", repr(document[key]))
    folder = path.parent / read_path(named) if isinstance(named, str) and "\0" not in named else None
    if folder is None or not folder.is_dir():
        raise malformed(path, "model.step", "the path of a folder, relative to this file", repr(named))
    files = load_step(folder)
    shape = files.shape
    document["step"] = files
    document.setdefault("sequences_per_step", shape.sequences)
    document.setdefault("sequence_tokens", shape.tokens)
    document.setdefault("numeric_format", shape.numeric_format)
    document.setdefault("initial_seed", GIVEN_START)
    return NamedStep(folder, files)
