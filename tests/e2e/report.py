"""What happened, from the chain's logs and what strangers can fetch, given a deployment file and no more.

Nobody's word is taken: every pseudo-gradient is fetched from the announced peers and checked against its
root, every outer step computed again and compared with the chain's, every balance with the vault's.
Names, honesty and the luck are joined afterwards by the demo, which alone knows them.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eth_account import Account

from protocol.actions.global_model import GlobalModel
from protocol.actions.narrate import narrate
from protocol.actions.view import View
from protocol.adapters.blobs import BlobKey, BlobKind, BlobRef
from protocol.adapters.chain import Batch, Chain, open_chain, read_deployment
from protocol.adapters.keys import AccountKey
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.client import BlobClient
from protocol.compute.data import Corpus, get_heldout_batch, open_corpus
from protocol.compute.determinism import pin_kernels
from protocol.compute.digest import outer_header
from protocol.compute.evaluate import compute_heldout_loss, sample_tokens
from protocol.compute.outer import OuterState
from protocol.spec.codec import decode_training
from protocol.spec.containers import OuterHeader, TaskSpec
from protocol.spec.errors import InvalidInput, ProtocolFault
from protocol.spec.events import Enrolled, Event, TaskCreated
from protocol.spec.game_events import FeeBurned, Slashed
from protocol.spec.round import RoundState, get_claim, get_included
from protocol.spec.task import TaskState, process_task_event
from protocol.spec.typed_data import SigningDomain
from tests.e2e.money import Balance, check_books, fold_books
from tests.e2e.phases import measure_phases

HELDOUT_ROWS = 64
SAMPLE_PROMPT = b"def "
SAMPLE_BYTES = 240


@dataclass(frozen=True)
class Recomputed:
    """What the observer found by computing again."""

    losses: list[float]
    final: OuterState
    sample: str


async def rebuild(chain: Chain, folder: Path) -> dict[str, Any]:
    """The report of the chain's newest task. Raises ProtocolFault where anything does not match."""
    view = await read_view(chain)
    task = find_task(view)
    spec = TaskSpec(task.terms, decode_training(task.training))
    balances = fold_books(view.events)
    await check_books(chain, balances)
    found = await recompute(chain, view, task, spec, folder)
    return {
        "rounds": len(task.rounds),
        "loss_per_round": found.losses,
        "parties": list_parties(view, task, balances),
        "events": list_events(view),
        "claims": list_claims(task),
        "phases": show_phases(view, task),
        "sample": found.sample,
        "task": f"0x{task.task.hex()}",
        "is_closed": task.is_closed,
        "unit": "wei",
        "final_weights_root": outer_header(found.final.weights, found.final.momentum).weights_root.hex(),
        "slashes": sum(isinstance(event, Slashed) for event in view.events),
        "fees": sum(isinstance(event, FeeBurned) for event in view.events),
        "head_block": view.head_block,
    }


async def read_view(chain: Chain) -> View:
    """Everything that the chain tells, folded up to its head."""
    head = await chain.head()
    found = await chain.read_events(chain.deployment.deploy_block, head.number)
    view = View("", chain.deployment.chain_id, chain.deployment.registry)
    view.take(Batch(head, tuple(found)))
    return view


def find_task(view: View) -> TaskState:
    """The newest task."""
    if not view.tasks:
        raise InvalidInput(
            what="nothing to report",
            expected="a task on this chain",
            actual="none",
            remedy="Pass the deployment of a chain with a task.",
        )
    return list(view.tasks.values())[-1]


# --- Computing again ----------------------------------------------------------------------------------------
async def recompute(chain: Chain, view: View, task: TaskState, spec: TaskSpec, folder: Path) -> Recomputed:
    """Held-out loss before round 1 and after every outer step, each step computed from fetched bytes."""
    store, deployment = BlobStore(folder / "blobs", is_durable=False), chain.deployment
    # Any account may read what is public; this one was made for the occasion.
    signer = RequestSigner(
        AccountKey(Account.create()), SigningDomain(deployment.chain_id, deployment.registry)
    )
    async with BlobClient(store, signer) as client:
        model = GlobalModel(
            spec, store, client, view.network, lambda index: task.rounds[index], lambda _: None
        )
        corpus = await fetch_corpus(view, spec, store, client)
        states = [await model.load_start(0)]
        for state in task.rounds:
            header, after = await model.compute_next(state.index)
            require_same_model(task, state, header)
            states.append(after)
    return await asyncio.to_thread(evaluate, spec, corpus, states)


async def fetch_corpus(view: View, spec: TaskSpec, store: BlobStore, client: BlobClient) -> Corpus:
    """The task's tokens from any peer, checked against the task's root."""
    training = spec.training
    size = (training.token_count + training.heldout_tokens) * training.token_bytes
    ref = BlobRef(BlobKey(BlobKind.DATASET, training.dataset_root), size)
    await client.fetch_from_any(view.network.others(), ref)
    return open_corpus(store.get(ref), training)


def require_same_model(task: TaskState, state: RoundState, computed: OuterHeader) -> None:
    """Raises ProtocolFault unless the chain went on with what the committed pseudo-gradients give."""
    if state.outer is not None:
        stands = OuterHeader(state.outer.weights_root, state.outer.momentum_root)
    elif state.index + 1 < len(task.rounds):
        following = task.rounds[state.index + 1]
        stands = OuterHeader(following.weights_root, following.momentum_root)
    else:
        return
    if computed != stands:
        raise ProtocolFault(
            what=f"round {state.index} was merged to another model than its claims give",
            expected=computed.weights_root.hex(),
            actual=stands.weights_root.hex(),
            remedy="Somebody should have contested the posted root.",
        )


def evaluate(spec: TaskSpec, corpus: Corpus, states: list[OuterState]) -> Recomputed:
    """Losses of all global models on the fixed batch, and text from the last one."""
    training = spec.training
    batch = get_heldout_batch(corpus, training, HELDOUT_ROWS)
    losses = [compute_heldout_loss(state.weights, batch, training.model) for state in states]
    text = sample_tokens(states[-1].weights, SAMPLE_PROMPT, SAMPLE_BYTES, training.model)
    return Recomputed(losses, states[-1], text.decode("utf-8", "replace"))


# --- Telling ------------------------------------------------------------------------------------------------
def list_parties(view: View, task: TaskState, balances: dict[str, Balance]) -> list[dict[str, Any]]:
    """The submitter and everybody who enrolled, by account, in the order of their coming."""
    roles: dict[str, str] = {}
    for event in view.events:
        if isinstance(event, TaskCreated) and event.task == task.task:
            roles.setdefault(event.submitter, "submitter")
        elif isinstance(event, Enrolled) and event.task == task.task:
            roles.setdefault(event.account, event.role.name.lower())
    return [
        {"account": account, "role": role, **show_balance(balances.get(account, Balance()))}
        for account, role in roles.items()
    ]


def show_balance(balance: Balance) -> dict[str, Any]:
    """A balance as JSON, in wei."""
    return {
        "stake_before": balance.stake_before,
        "stake_after": balance.stake_after,
        "earned": sum(balance.earned.values()),
        "slashed": balance.slashed,
        "fees": balance.fees,
        "earned_for": dict(balance.earned),
        "lost_for": dict(balance.lost),
    }


def list_events(view: View) -> list[dict[str, Any]]:
    """Every event that matters to people, in words."""
    lines = ((event, narrate(event)) for event in view.events)
    return [
        {"block": event.block_number, "name": type(event).__name__, "text": line}
        for event, line in lines
        if line
    ]


def list_claims(task: TaskState) -> list[dict[str, Any]]:
    """What became of each slot of each round."""
    return [
        {
            "round": state.index,
            "slot": slot,
            "account": solver,
            "status": get_claim(state, slot).status.name,
            "was_accepted": get_claim(state, slot).accepted_block > 0,
            "is_merged": slot in (get_included(state) if state.outer is not None else ()),
        }
        for state in task.rounds
        for slot, solver in enumerate(state.solvers)
    ]


def show_phases(view: View, task: TaskState) -> dict[str, dict[str, float]]:
    """The most used of each window against its length."""
    uses = measure_phases(replay_history(view.events, task), task.terms.windows)
    return {
        name: {"measured_s": use.measured_s, "window_s": use.window_s, "ratio": round(use.ratio, 1)}
        for name, use in uses.items()
    }


def replay_history(events: list[Event], task: TaskState) -> Iterator[tuple[Event, RoundState]]:
    """Each event of a round with the round's state after it."""
    state = TaskState(task.task, task.domain, task.terms, task.training)
    for event in events:
        state = process_task_event(state, event)
        index = getattr(event, "round", None)
        if getattr(event, "task", None) == task.task and index is not None and index < len(state.rounds):
            yield event, state.rounds[index]


# --- As a program -------------------------------------------------------------------------------------------
async def _run(options: argparse.Namespace) -> None:
    pin_kernels(1)
    async with open_chain(options.rpc_url, read_deployment(options.deployment)) as chain:
        report = await rebuild(chain, options.folder)
    (options.folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    """Write FOLDER/report.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deployment", type=Path, required=True)
    parser.add_argument("--rpc-url", required=True)
    parser.add_argument("--folder", type=Path, required=True, help="the observer's own store")
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
