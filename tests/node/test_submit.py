"""Posting a task: its roots are those that nodes compute, what nodes refuse costs nothing, and the dataset is
served before any account can join."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from tests.e2e.world import TINY_PLAN, make_dataset
from tests.task_models import draw_first
from tests.task_plans import respecify_plan
from touchstone.node.kit.stored_tensors import load_tensor
from touchstone.node.models.start_weights import refer_start
from touchstone.node.submit import RoundPlan, build_task, post_task, refuse_bad_task
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.compute.batches import dataset_root
from touchstone.protocol.compute.digest import tensor_root
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.compute.program.step_facts import require_step_root
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from touchstone.protocol.spec.training_codec import decode_training, encode_training
from touchstone.protocol.spec.typed_data import SigningDomain

SUBMITTER, OTHER = "0x" + "5b" * 20, "0x" + "6c" * 20
SALT, TASK = b"s" * 32, b"t" * 32
DATASET = make_dataset()


@dataclass
class RequestHandler:
    """Tasks, and what an account has and sends. store: of its node."""

    store: BlobStore
    credit_wei: int
    sent: list[tuple[Any, ...]] = field(default_factory=list)

    async def deposit_missing(self, wei: int) -> None:
        if wei > self.credit_wei:
            self.sent.append(("deposit", wei - self.credit_wei))

    async def post_task(self, terms: Any, training: bytes) -> Any:
        kinds = (BlobKind.DATASET, BlobKind.TENSOR)
        served = [key.root for kind in kinds for key in self.store.list_keys(kind)]
        self.sent.append(("post", terms, training, served))
        event = SimpleNamespace(arguments={"task": TASK})
        return SimpleNamespace(find=lambda name: event if name == "TaskPosted" else None)


def make_chain(folder: Path, credit_wei: int = 0) -> tuple[GameChain, RequestHandler]:
    """The chain as a submitter with so much credit has it."""
    store = BlobStore(folder / "blobs", is_durable=False)
    handler = RequestHandler(store, credit_wei)
    signing, deposit = SigningDomain(31337, "0x" + "7a" * 20), handler.deposit_missing
    chain = SimpleNamespace(game=handler, deposit_missing=deposit, bounds=BOUNDS_LOCAL, signing=signing)
    return cast(GameChain, chain), handler


def test_every_root_of_a_task_is_what_a_node_computes_from_its_text() -> None:
    """Nodes check them before they stake: a task with another one would find no solver."""
    terms, training = build_task(TINY_PLAN, DATASET, SUBMITTER, SALT)
    spec = make_spec(terms, training)
    assert training.dataset_root == dataset_root(DATASET)
    assert training.token_count + training.heldout_tokens == len(DATASET)
    assert training.heldout_tokens == TINY_PLAN.heldout_tokens
    weights = draw_first(training, TINY_PLAN.initial_seed)
    assert (terms.initial_weights_root, terms.parameter_count) == (tensor_root(weights), weights.numel())
    assert terms.zero_root == tensor_root(torch.zeros_like(weights))
    assert terms.schedule_root == compute_schedule_levels(compute_schedule_sums(spec))[-1][0]
    require_step_root(spec)
    again, _ = build_task(TINY_PLAN, DATASET, OTHER, TASK)
    assert again == replace(terms, submitter=OTHER, salt=TASK), "only who posts it and its salt differ"


def test_the_escrow_pays_every_seat_in_every_round_with_all_its_audits(tmp_path: Path) -> None:
    chain, _ = make_chain(tmp_path)
    amounts, claims = TINY_PLAN.amounts, TINY_PLAN.rounds * TINY_PLAN.solver_seats
    per_claim = amounts.solver_pay + 3 * TINY_PLAN.draws * amounts.audit_pay + 3 * amounts.late_pay
    assert refuse_bad_task(chain, *build_task(TINY_PLAN, DATASET, SUBMITTER, SALT)) == claims * per_claim
    without = replace(TINY_PLAN, late_chance=0)
    found = refuse_bad_task(chain, *build_task(without, DATASET, SUBMITTER, SALT))
    assert found == claims * (per_claim - 3 * amounts.late_pay)


@pytest.mark.parametrize("numeric_format", ["float32", "exact8", "exact15", "exact20"])
def test_a_task_of_every_format_can_be_posted(tmp_path: Path, numeric_format: str) -> None:
    plan = respecify_plan(TINY_PLAN, numeric_format=numeric_format)
    chain, _ = make_chain(tmp_path)
    terms, training = build_task(plan, DATASET, SUBMITTER, SALT)
    assert refuse_bad_task(chain, terms, training) > 0
    require_step_root(make_spec(terms, decode_training(encode_training(training))))


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (replace(TINY_PLAN, windows=replace(TINY_PLAN.windows, respond=1)), "respond"),
        (replace(TINY_PLAN, amounts=replace(TINY_PLAN.amounts, query_bond=0)), "query_bond"),
    ],
)
async def test_what_nodes_would_refuse_is_not_posted_and_costs_nothing(
    tmp_path: Path, plan: RoundPlan, reason: str
) -> None:
    chain, handler = make_chain(tmp_path)
    with pytest.raises(TouchstoneError, match=reason):
        await post_task(chain, handler.store, *build_task(plan, DATASET, SUBMITTER, SALT), DATASET)
    assert not handler.sent and not handler.store.list_keys(BlobKind.DATASET)


@pytest.mark.parametrize("missing_wei", [0, 7])
async def test_a_task_is_posted_with_its_escrow_once_its_dataset_is_served(
    tmp_path: Path, missing_wei: int
) -> None:
    """Nodes that see it fetch the dataset at once. Only what is missing of the credit leaves the wallet."""
    terms, training = build_task(TINY_PLAN, DATASET, SUBMITTER, SALT)
    escrow_wei = refuse_bad_task(make_chain(tmp_path)[0], terms, training)
    chain, handler = make_chain(tmp_path, escrow_wei - missing_wei)
    assert await post_task(chain, handler.store, terms, training, DATASET) == TASK
    moved = [("deposit", missing_wei)] if missing_wei else []
    assert handler.sent == [*moved, ("post", terms, encode_training(training), [training.dataset_root])]


async def test_given_weights_are_named_by_their_root_and_served_before_the_task_is_posted(
    tmp_path: Path,
) -> None:
    """A node that sees the task fetches them at once. No seed counts, and the text of the task says so."""
    start = draw_weights(TINY_PLAN.step.layout, 99)
    plan = replace(TINY_PLAN, initial_seed=GIVEN_START)
    terms, training = build_task(plan, DATASET, SUBMITTER, SALT, start)
    assert terms.initial_weights_root == tensor_root(start) and training.is_start_given
    assert decode_training(encode_training(training)) == training
    seeded, other = build_task(TINY_PLAN, DATASET, SUBMITTER, SALT)
    assert training == replace(other, initial_seed=GIVEN_START), "nothing else of the text differs"
    assert terms == replace(seeded, initial_weights_root=tensor_root(start))
    chain, handler = make_chain(tmp_path, refuse_bad_task(make_chain(tmp_path)[0], terms, training))
    assert await post_task(chain, handler.store, terms, training, DATASET, start) == TASK
    served = [training.dataset_root, tensor_root(start)]
    assert handler.sent == [("post", terms, encode_training(training), served)]
    assert torch.equal(load_tensor(handler.store, refer_start(make_spec(terms, training))), start)
    for one, weights in ((TINY_PLAN, start), (plan, None)):
        with pytest.raises(AssertionError, match="either a seed or weights"):
            build_task(one, DATASET, SUBMITTER, SALT, weights)
