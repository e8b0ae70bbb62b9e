"""Holds a run under way: what is played, what was seen and heard of it, and what it waits for."""

from dataclasses import dataclass, field
from typing import Any

from touchstone.demo.hearing import Bases, reword_said
from touchstone.demo.observer import Observer, Recomputed
from touchstone.demo.player import Order, Said, Trained
from touchstone.demo.report import Pace, TrainedLoss
from touchstone.demo.roster import SUBMITTER, Member
from touchstone.demo.scenes import TRAINED, Scenes
from touchstone.demo.screen import Screen
from touchstone.demo.stage import Folders
from touchstone.demo.waits import Progress, describe_wait
from touchstone.demo.watch import Watch
from touchstone.node.kit.config import NodeConfig
from touchstone.node.submit import RoundPlan
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.reports.model_progress import ModelLoss
from touchstone.protocol.compute.determinism import list_cpu_capabilities
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.network.devnet import Devnet


@dataclass(frozen=True)
class Setting:
    """What is played. `dataset` is the task's bytes. `fault` names the operation in which the cheat errs. If
    `with_explorer`, a web page shows the run, and stays in the end."""

    plan: RoundPlan
    members: tuple[Member, ...]
    dataset: bytes
    fault: str
    folders: Folders
    with_explorer: bool = False


@dataclass
class Show:
    """A run under way. `losses` are the held-out losses that the submitter's node has measured, `trained` are
    those that solvers report of their steps. `scenes` tells the story (None: nobody does). `progress` has how
    far each solver's present round is, by name."""

    setting: Setting
    devnet: Devnet
    screen: Screen
    keys: dict[str, Any]
    watch: Watch
    observer: Observer = field(init=False)
    pace: Pace = field(default_factory=Pace)
    losses: list[ModelLoss] = field(default_factory=list)
    trained: list[TrainedLoss] = field(default_factory=list)
    scenes: Scenes | None = None
    bases: Bases = field(default_factory=Bases)
    progress: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cheats = (self.accounts[one.name] for one in self.setting.members if not one.is_honest)
        self.observer = Observer(self.report_recomputed, cheats=frozenset(cheats))

    @property
    def accounts(self) -> dict[str, str]:
        """Returns the lower-case accounts by name."""
        return {name: key.address.lower() for name, key in self.keys.items()}

    def hear(self, name: str, message: Said | Trained) -> None:
        """Takes a message of a party."""
        if isinstance(message, Said):
            self._take_line(name, self._reword(message.line))
        else:
            index = message.first_step // self.setting.plan.inner_steps
            self.pace.trained[self.accounts[name], index] += message.seconds

    def _take_line(self, name: str, line: str) -> None:
        if found := TRAINED.search(line):
            index, done, steps = (int(found[n]) for n in (1, 2, 3))
            self.progress[name] = f" ({done} of {steps} steps)" if done < steps else ""
            self.trained.append(TrainedLoss(name, index, index * steps + done, float(found[4])))
        said = self.bases.remark(name, line, self._list_falsified(), self._count_claims())
        self.screen.notify(name, said)
        if self.scenes is not None:
            self.scenes.hear(name, said)

    def _list_falsified(self) -> set[int]:
        """Returns the rounds in which a cheat has claimed."""
        rounds = self.watch.rounds.values()
        return {
            one.index
            for one in rounds
            for claim in one.claims.values()
            if claim.account in self.observer.cheats
        }

    def _count_claims(self) -> dict[int, int]:
        return {one.index: len(one.claims) for one in self.watch.rounds.values()}

    def expect(self) -> None:
        """Says what the run waits for."""
        watch, known = (
            self.watch,
            Progress(self.watch.names, [one.name for one in self.setting.members], self.progress),
        )
        if not watch.state.games:
            return self.screen.expect(*describe_wait(known, None, None))
        self.screen.expect(*describe_wait(known, watch.game, watch.state.inner.get(watch.task)))

    def _reword(self, line: str) -> str:
        watch = self.watch
        if not watch.state.games:
            return line
        return reword_said(watch.names, watch.game, watch.state.inner[watch.task], line)

    def report_recomputed(self, found: Recomputed) -> None:
        """Tells that a root was computed again."""
        self.pace.end = self.screen.seconds
        same = "the same root" if found.own == found.posted else f"ANOTHER ROOT, {found.own.hex()[:16]}"
        self.screen.notify(SUBMITTER, f"merged round {found.round} again from the claims' bytes: {same}")

    def configure(self, name: str) -> NodeConfig:
        """Returns the configuration of the submitter's node."""
        key, folders = AccountKey(self.keys[name]), self.setting.folders
        notify = lambda line: self.screen.notify(name, line)  # noqa: E731
        return NodeConfig(folders.submitter, self.devnet.path, self.devnet.rpc_url, key, notify=notify)

    def make_orders(self) -> list[Order]:
        """Returns what each process is started with."""
        kernels, members = list_cpu_capabilities(), self.setting.members
        solvers = sum(member.role == SeatRole.SOLVER for member in members)
        return [
            Order(
                member=member,
                key=self.keys[member.name].key.hex(),
                home=self.setting.folders.make_home(member.name),
                log=self.setting.folders.logs / f"{member.name}.log",
                deployment=self.devnet.path,
                rpc_url=self.devnet.rpc_url,
                awaited=0 if member.role == SeatRole.SOLVER else solvers,
                fault=self.setting.fault,
                kernels=kernels[min(member.kernel_rank, len(kernels) - 1)],
            )
            for member in members
        ]
