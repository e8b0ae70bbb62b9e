"""Names the demo's files, and lets one run at a time use them."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput

OWN_NAMES = (
    "parties",
    "logs",
    "submitter",
    "model",
    "deployment.json",
    "explorer.sqlite",
    "report.",
    "demo.log",
)
"""How the names of all files of a run begin."""
MOST_SHOWN = 5


@dataclass(frozen=True)
class Folders:
    """Below `parties` each party has its own home and sees no other."""

    root: Path

    @property
    def parties(self) -> Path:
        """Returns the path of the folder with a home for each party."""
        return self.root / "parties"

    @property
    def logs(self) -> Path:
        """Returns the path of the folder for what each party says."""
        return self.root / "logs"

    @property
    def submitter(self) -> Path:
        """Returns the path of the home of the submitter, who watches for the demo."""
        return self.root / "submitter"

    @property
    def model(self) -> Path:
        """Returns the path of the trained model."""
        return self.root / "model"

    @property
    def deployment(self) -> Path:
        """Returns the path of the addresses of the contracts: all that a stranger is given."""
        return self.root / "deployment.json"

    @property
    def index(self) -> Path:
        """Returns the path of the events that the explorer keeps."""
        return self.root / "explorer.sqlite"

    @property
    def log(self) -> Path:
        """Returns the path of every line of the run."""
        return self.root / "demo.log"

    @property
    def report(self) -> Path:
        """Returns the path of the result, for programs."""
        return self.root / "report.json"

    @property
    def page(self) -> Path:
        """Returns the path of the result, for people."""
        return self.root / "report.html"

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keeps other runs out, and makes all folders afresh: what an earlier run left is gone. Raises
        InvalidInput while one is running, or if the folder holds files of somebody else."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with open(self.root.with_name(f"{self.root.name}.lock"), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InvalidInput(
                    what="another demo is running here",
                    expected=f"nobody else to use {self.root}",
                    actual="it is locked",
                    remedy="Wait for its end, or end it.",
                ) from error
            self._clear()
            yield

    def _clear(self) -> None:
        self._refuse_others()
        shutil.rmtree(self.root, ignore_errors=True)
        for folder in (self.parties, self.logs, self.submitter):
            folder.mkdir(parents=True, mode=0o700)

    def _refuse_others(self) -> None:
        """Raises InvalidInput if the folder holds anything that no demo has made: it would be deleted."""
        found = [path.name for path in self.root.iterdir()] if self.root.is_dir() else []
        others = sorted(name for name in found if not name.startswith(OWN_NAMES))
        if others or self.root.is_symlink():
            raise InvalidInput(
                what="the demo would delete files that are not its own",
                expected="no such folder yet, an empty one, or one of an earlier demo",
                actual=", ".join(others[:MOST_SHOWN]) or "a link",
                where=str(self.root),
                remedy="Choose another folder with --out.",
            )

    def make_home(self, name: str) -> Path:
        """Makes a party's own folder; returns the path."""
        home = self.parties / name
        home.mkdir(mode=0o700)
        return home
