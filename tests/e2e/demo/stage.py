"""Where the demo keeps its files; one run at a time."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput


@dataclass(frozen=True)
class Folders:
    """Below `parties` each party has its own home and sees no other."""

    root: Path

    @property
    def parties(self) -> Path:
        """A home for each party."""
        return self.root / "parties"

    @property
    def logs(self) -> Path:
        """What each party says."""
        return self.root / "logs"

    @property
    def submitter(self) -> Path:
        """The home of the submitter, who watches for the demo."""
        return self.root / "submitter"

    @property
    def model(self) -> Path:
        """The trained model."""
        return self.root / "model"

    @property
    def deployment(self) -> Path:
        """The addresses of the contracts: all that a stranger is given."""
        return self.root / "deployment.json"

    @property
    def index(self) -> Path:
        """The events that the explorer keeps."""
        return self.root / "explorer.sqlite"

    @property
    def report(self) -> Path:
        """The result, for programs."""
        return self.root / "report.json"

    @property
    def page(self) -> Path:
        """The result, for people."""
        return self.root / "report.html"

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other runs out, and make all folders afresh: what an earlier run left is gone. Raises
        InvalidInput while one is running."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with open(self.root.with_suffix(".lock"), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InvalidInput(
                    what="another demo is running in this checkout",
                    expected=f"nobody else to use {self.root}",
                    actual="it is locked",
                    remedy="Wait for its end, or end it.",
                ) from error
            self._clear()
            yield

    def _clear(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        for folder in (self.parties, self.logs, self.submitter):
            folder.mkdir(parents=True, mode=0o700)

    def make_home(self, name: str) -> Path:
        """A party's own folder."""
        home = self.parties / name
        home.mkdir(mode=0o700)
        return home
