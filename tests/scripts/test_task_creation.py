"""A task posted from the command line: what is refused before anything is sent, and what is served."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.e2e.world import TINY_PLAN, make_dataset
from tests.scripts.schemas import check
from tests.scripts.test_closing_commands import Terminal
from tests.scripts.test_wallet import TASK
from touchstone.node.models.model_choice import Choice
from touchstone.node.submit import build_task
from touchstone.node.upkeep import last_model
from touchstone.node.upkeep.last_model import KeepModel
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.scripts.account.task_names import show_task
from touchstone.scripts.data.packed_dataset import PackedDataset
from touchstone.scripts.roles.role_nodes import Submitter
from touchstone.scripts.tasks import task_creation
from touchstone.scripts.tasks.task_creation import create_task
from touchstone.scripts.tasks.trial_training import Trial

ESCROW_WEI = 7
ACCOUNT = "0x" + 40 * "1"


@dataclass
class Creation:
    """What `task create` does, step by step. wealth_wei: what its account has; lacking: models that no node
    served; is_given: the task begins with weights of a folder."""

    wealth_wei: int = ESCROW_WEI
    lacking: tuple[KeepModel, ...] = ()
    is_given: bool = False
    steps: list[tuple[Any, ...]] = field(default_factory=list)
    documents: list[Any] = field(default_factory=list)
    built: Any = None

    async def credit_of(self, account: str) -> int:
        return self.wealth_wei

    async def balance_of(self, account: str) -> int:
        return 0

    async def require_coin(self, config: Any) -> None:
        self.steps.append(("coin",))

    def read(self) -> str:
        return "given weights"

    def build(self, plan: Any, dataset: bytes, account: str, salt: bytes, start: Any) -> Any:
        self.steps.append(("build", dataset, salt, start))
        _, training = build_task(plan, dataset, account, salt)
        if start is not None:
            training = replace(training, initial_seed=GIVEN_START)
        self.built = SimpleNamespace(parameter_count=9, rounds=3), training
        return self.built

    async def post(
        self, chain: Any, store: Any, terms: Any, training: Any, dataset: bytes, start: Any
    ) -> bytes:
        self.steps.append(("post", (terms, training), dataset, start))
        return TASK

    async def work_on(self, task: bytes) -> None:
        self.steps.append(("play", task))


async def create(
    creation: Creation, terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`touchstone task create`, up to a chain and a node that do nothing."""
    path = folder / "dataset"
    path.write_bytes(make_dataset())

    @asynccontextmanager
    async def open_node(config: Any, role: Any) -> AsyncIterator[Any]:
        assert role is Submitter
        deployment = SimpleNamespace(chain_id=1)
        parts = {"vault": creation, "token": creation, "deployment": deployment}
        chain = SimpleNamespace(bounds=BOUNDS_LOCAL, **parts)
        state = SimpleNamespace(head_block=1)
        yield SimpleNamespace(
            account=ACCOUNT,
            chain=chain,
            store=None,
            state=state,
            get_view=lambda: None,
            work_on=creation.work_on,
        )

    for name, stand_in in (
        ("open_node", open_node),
        ("require_own_coin", creation.require_coin),
        ("justify", lambda file, limits, console: None),
        ("try_training", lambda file: Trial((6.0, 7.0), 1.0)),
        ("read_config", lambda home: SimpleNamespace(preset="2s")),
        ("build_task", creation.build),
        ("refuse_bad_task", lambda chain, terms, training: ESCROW_WEI),
        ("post_task", creation.post),
    ):
        monkeypatch.setattr(task_creation, name, stand_in)
    monkeypatch.setattr(last_model, "list_duties", lambda view, block: iter(creation.lacking))
    packed = PackedDataset(path, path.stat().st_size)
    weights = creation if creation.is_given else None
    file = SimpleNamespace(plan=TINY_PLAN, dataset=path, packed=packed, weights=weights)
    config = SimpleNamespace(home=folder)
    put = creation.documents.append
    await create_task(cast(Any, config), cast(Any, file), terminal, is_agreed=False, put=put)


@pytest.mark.parametrize("is_given", [False, True])
async def test_the_task_that_was_judged_is_posted_and_served_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_given: bool
) -> None:
    """And it is built once: hashing its dataset and its weights may take minutes."""
    creation, terminal = Creation(is_given=is_given), Terminal(is_agreed=True)
    await create(creation, terminal, tmp_path, monkeypatch)
    coin, build, post, play = creation.steps
    assert coin == ("coin",) and build[1] == post[2] == make_dataset() and len(build[2]) == 32
    assert post[1] == creation.built and build[3] == post[3]
    assert build[3] == ("given weights" if is_given else None)
    assert play == ("play", TASK) and ("and its first weights to the end" in terminal.said) == is_given
    assert "rounds, computed in float32" in terminal.said
    assert "WARNING: the learning rate is too high" in terminal.said
    price, question = (terminal.said.index(text) for text in ("it costs at most", "Post it?"))
    assert price < question < terminal.said.index(f"posted 0x{TASK.hex()}")
    assert "Next, by at least 2 solvers, 3 verifiers, 3 whistleblowers" in terminal.said
    assert f"touchstone solve {show_task(TASK)}, verify" in terminal.said
    assert terminal.said.rstrip().endswith("touchstone withdraw")
    (document,) = creation.documents
    assert check("task create", document)["task"] == f"0x{TASK.hex()}"


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_submitter_is_told_where_the_model_is_if_its_home_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    lacking = () if is_kept else (KeepModel(Choice(b"root", 3)),)
    terminal = Terminal(is_agreed=True)
    await create(Creation(lacking=lacking), terminal, tmp_path, monkeypatch)
    assert ("no node served the model after round 3 in time" in terminal.said) != is_kept


@pytest.mark.parametrize("is_poor", [False, True])
async def test_who_cannot_pay_is_not_asked_and_who_does_not_agree_posts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_poor: bool
) -> None:
    creation, terminal = Creation(ESCROW_WEI - is_poor), Terminal(is_agreed=is_poor)
    with pytest.raises(InvalidInput, match="too few tokens" if is_poor else "nothing was done"):
        await create(creation, terminal, tmp_path, monkeypatch)
    assert [step[0] for step in creation.steps] == ["coin", "build"]
    assert ("Post it?" in terminal.said) != is_poor and "it costs at most" in terminal.said
