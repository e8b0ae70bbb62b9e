"""`touchstone task example`: writes a task file to begin with, and a small corpus for it."""

import sysconfig
from hashlib import sha256
from pathlib import Path

from touchstone.protocol.adapters.files.durable_files import replace_file
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.posting_documents import TaskExampleDocument

TASK_FILE = Path(__file__).with_name("task.toml")
CORPUS_BYTES = 1_000_000


def write_example(folder: Path) -> TaskExampleDocument:
    """Writes the two files. Raises InvalidInput if one of them exists already."""
    files = {"task.toml": TASK_FILE.read_bytes(), "corpus.bin": read_python_sources(CORPUS_BYTES)}
    present = [name for name in files if (folder / name).exists()]
    if present:
        raise _replaced_example(present, folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, data in files.items():
            replace_file(folder / name, data)
    except OSError:
        # If one were written alone, the next try would refuse.
        for name in files:
            (folder / name).unlink(missing_ok=True)
        raise
    console = Console()
    console.notify(
        f"wrote task.toml and corpus.bin (sources of Python, {CORPUS_BYTES / 1e6:.0f} MB) to {folder}"
    )
    console.notify(f"Next: touchstone task create --config {folder / 'task.toml'}")
    return TaskExampleDocument(str(folder), list(files))


def _replaced_example(present: list[str], folder: Path) -> InvalidInput:
    return InvalidInput(
        what="the example would replace a file",
        expected="a folder without task.toml and corpus.bin",
        actual=", ".join(present),
        where=str(folder),
        remedy="Choose another folder with --out.",
    )


def read_python_sources(limit_bytes: int) -> bytes:
    """Returns sources of Python's standard library, at most `limit_bytes`, with files in the order of their
    names' hash.

    This shuffles them, so that the held-out end is text of the same kind as the rest."""
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in root.rglob("*.py") if not {"site-packages", "test", "tests"} & set(path.parts)]
    files.sort(key=lambda path: sha256(str(path.relative_to(root)).encode()).digest())
    return b"".join(path.read_bytes() for path in files)[:limit_bytes]
