"""Trains one member in plain PyTorch, which takes outer steps by torchft or by hivemind.

    python plain_member.py PLAN NUMBER

It is started by its path, in the other project's environment. From this project it imports only the model, by
PYTHONPATH. `racing.py` writes the plan and reads the results.
"""

import datetime
import importlib
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from tests.task_models import init_parameters, split_parameters
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import Decoder, DecoderConfig
from touchstone.step.record_step import next_token_loss

LOOPBACK = re.compile(r"^\s*lo:\s*(\d+)", re.M)
PEAK = re.compile(r"^VmHWM:\s*(\d+) kB", re.M)
POLL_S = 0.003
GRACE_S = 120.0
MATCHMAKING_S = 3.0
"""Seconds before the outer step at which hivemind begins to look for a group."""


def count_loopback_bytes() -> int:
    """Returns the bytes that this network's loopback has carried."""
    found = LOOPBACK.search(Path("/proc/self/net/dev").read_text())
    return int(found[1]) if found else 0


def measure_peak_bytes() -> int:
    """Returns the most memory that this process has held, in bytes."""
    found = PEAK.search(Path("/proc/self/status").read_text())
    return 1024 * int(found[1]) if found else 0


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that a reader finds all of it or nothing."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.rename(path)


def wait_for(path: Path) -> str:
    """Waits for a file that another process writes. Raises TimeoutError if it does not come."""
    deadline = time.monotonic() + GRACE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not come within {GRACE_S:.0f} s: see the other members' output")
        time.sleep(POLL_S)
    return path.read_text()


def make_model(config: DecoderConfig, flat: Tensor) -> Decoder:
    """Returns the decoder with a copy of these weights."""
    model = Decoder(config)
    model.load_state_dict(split_parameters(flat, config))
    return model


def read_rows(data: bytes, starts: list[int], tokens: int) -> tuple[Tensor, Tensor]:
    """Returns tokens and labels of the rows that start at these places."""
    rows = [torch.frombuffer(bytearray(data[at : at + tokens + 1]), dtype=torch.uint8) for at in starts]
    cut = torch.stack(rows).to(torch.int64)
    return cut[:, :-1].contiguous(), cut[:, 1:].contiguous()


# How members step together
class Together(Protocol):
    """The interface between a member's training and the other members."""

    def note_step(self, left: int, step_s: float) -> None:
        """Must be called after each step, with the number of steps left in the round."""

    def finish_round(self) -> None:
        """Takes the outer step after the last step of the round. Afterwards all members have the same
        weights."""

    def close(self) -> None:
        """Ends, after the last round."""


class Torchft:
    """Uses `torchft.local_sgd.DiLoCo` with its manager and Gloo, one replica for each member."""

    def __init__(
        self, plan: dict[str, Any], number: int, model: Decoder, inner: torch.optim.Optimizer
    ) -> None:
        torchft, local_sgd = (importlib.import_module(name) for name in ("torchft", "torchft.local_sgd"))
        distributed: Any = torch.distributed
        store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        outer, wait = make_outer(plan, model), datetime.timedelta(seconds=GRACE_S)
        self._manager = torchft.Manager(
            pg=torchft.ProcessGroupGloo(timeout=wait),
            min_replica_size=plan["members"],
            use_async_quorum=False,
            load_state_dict=lambda state: None,
            state_dict=dict,
            replica_id=f"member{number}",
            timeout=wait,
            rank=0,
            world_size=1,
            store_addr="127.0.0.1",
            store_port=store.port,
            lighthouse_addr=plan["lighthouse"],
            hostname="127.0.0.1",
            init_sync=False,
        )
        self._store = store
        self._diloco = local_sgd.DiLoCo(self._manager, [model], inner, outer, plan["inner_steps"])
        self._diloco.__enter__()

    def note_step(self, left: int, step_s: float) -> None:
        """Does nothing: torchft's hook on the optimizer counts the steps."""

    def finish_round(self) -> None:
        """Does nothing: torchft's hook on the optimizer has taken the outer step."""

    def close(self) -> None:
        """Leaves the quorum."""
        self._manager.shutdown(wait=False)


class Hivemind:
    """Works as OpenDiLoCo does. A `DecentralizedAverager` averages pseudo-gradients, and looks for a group
    during the last steps; then each member takes the outer step."""

    def __init__(
        self, plan: dict[str, Any], number: int, model: Decoder, inner: torch.optim.Optimizer
    ) -> None:
        self._hivemind, folder = importlib.import_module("hivemind"), Path(plan["folder"])
        self._read_clock = importlib.import_module("hivemind.utils.timed_storage").get_dht_time
        first = [] if number == 0 else json.loads(wait_for(folder / "hivemind.json"))
        hosts = ["/ip4/127.0.0.1/tcp/0"]
        self._dht = self._hivemind.DHT(initial_peers=first, host_maddrs=hosts, start=True)
        if number == 0:
            write_whole(
                folder / "hivemind.json", json.dumps([str(a) for a in self._dht.get_visible_maddrs()])
            )
        self._parts = list(model.parameters())
        self._globals = [torch.nn.Parameter(part.detach().clone()) for part in self._parts]
        self._outer = torch.optim.SGD(
            self._globals, lr=plan["outer_rate"], momentum=plan["outer_momentum"], nesterov=True
        )
        self._averager = self._hivemind.averaging.DecentralizedAverager(
            averaged_tensors=[torch.zeros_like(part) for part in self._globals],
            dht=self._dht,
            start=True,
            prefix="training",
            target_group_size=plan["members"],
            min_group_size=plan["members"],
            min_matchmaking_time=MATCHMAKING_S,
            request_timeout=MATCHMAKING_S / 2,
            bandwidth=1.0,
        )
        self._control: Any = None

    def note_step(self, left: int, step_s: float) -> None:
        """Begins to look for a group when little of the round is left."""
        if self._control is None and left * step_s <= MATCHMAKING_S:
            self._schedule(left * step_s)

    def _schedule(self, seconds: float) -> None:
        when = self._read_clock() + max(seconds, 0.05)
        self._control = self._averager.step(
            scheduled_time=when, wait=False, require_trigger=True, timeout=GRACE_S
        )

    def finish_round(self) -> None:
        """Averages, takes the outer step, and goes on from there."""
        if self._control is None:
            self._schedule(0.0)
        with torch.no_grad(), self._averager.get_tensors() as averaged:
            for target, before, after in zip(averaged, self._globals, self._parts, strict=True):
                torch.sub(before, after, out=target)
        self._control.allow_allreduce()
        if self._control.result(GRACE_S) is None:
            raise RuntimeError("hivemind averaged nothing: no group was found")
        with torch.no_grad(), self._averager.get_tensors() as averaged:
            for part, gradient in zip(self._globals, averaged, strict=True):
                part.grad = gradient.clone()
        self._outer.step()
        with torch.no_grad():
            for part, whole in zip(self._parts, self._globals, strict=True):
                part.copy_(whole)
        self._control = None

    def close(self) -> None:
        """Leaves the group."""
        self._averager.shutdown()
        self._dht.shutdown()


KINDS: dict[str, Callable[..., Together]] = {"torchft": Torchft, "hivemind": Hivemind}


def make_outer(plan: dict[str, Any], model: Decoder) -> torch.optim.Optimizer:
    """Makes the outer optimizer: Nesterov's step on pseudo-gradients."""
    rates = {"lr": plan["outer_rate"], "momentum": plan["outer_momentum"]}
    return torch.optim.SGD(model.parameters(), **rates, nesterov=True)


# Training
def make_inner(model: Decoder, plan: dict[str, Any]) -> torch.optim.Optimizer:
    """Makes AdamW with the settings of the reference step."""
    given = AdamW()
    return torch.optim.AdamW(
        model.parameters(),
        lr=plan["rates"][0],
        betas=(given.beta1, given.beta2),
        eps=given.epsilon,
        weight_decay=given.weight_decay,
        fused=True,
    )


def train(plan: dict[str, Any], number: int) -> dict[str, Any]:
    """Trains all rounds. Returns, for each round, the seconds of training and of the outer step, and the
    bytes by its end."""
    model_config, data = DecoderConfig(*plan["model"]), Path(plan["data"]).read_bytes()
    model = make_model(model_config, init_parameters(model_config, plan["seed"]))
    inner, ended = make_inner(model, plan), [0.0]
    # Before torchft's own hook on the optimizer, which takes the outer step.
    inner.register_step_post_hook(lambda *_: ended.__setitem__(0, time.perf_counter()))
    together = KINDS[plan["kind"]](plan, number, model, inner)
    starts, steps, rates = plan["starts"][number], plan["inner_steps"], iter(plan["rates"])
    inner_s, outer_s, moved, losses = list[float](), list[float](), list[int](), list[float]()
    for of_round in starts:
        begun = time.perf_counter()
        for step in range(steps):
            inner.param_groups[0]["lr"] = next(rates)
            loss = next_token_loss(model, *read_rows(data, of_round[step], plan["tokens"]))
            inner.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), AdamW().clip_norm)
            inner.step()
            losses.append(float(loss.detach()))
            together.note_step(steps - step - 1, (ended[0] - begun) / (step + 1))
        together.finish_round()
        inner_s.append(ended[0] - begun)
        outer_s.append(time.perf_counter() - ended[0])
        moved.append(count_loopback_bytes())
    peak_bytes = measure_peak_bytes()
    with torch.no_grad():
        heldout = float(next_token_loss(model, *read_rows(data, plan["heldout"], plan["tokens"])))
    found = {"inner_s": inner_s, "outer_s": outer_s, "bytes": moved, "losses": losses}
    return {**found, "heldout": heldout, "peak_bytes": peak_bytes, "close": together.close}


def main() -> None:
    """Trains, leaves the results, and waits for the others, because none may end while another needs it."""
    plan, number = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])
    torch.set_num_threads(1)
    found, folder = train(plan, number), Path(plan["folder"])
    close = found.pop("close")
    write_whole(folder / f"member-{number}.json", json.dumps(found))
    for other in range(plan["members"]):
        wait_for(folder / f"member-{other}.json")
    close()


if __name__ == "__main__":
    main()
