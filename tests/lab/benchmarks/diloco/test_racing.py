"""What runs come to, and what members of the benchmark `training` are told."""

import json
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from lab.benchmarks.diloco import racing
from lab.benchmarks.diloco.node_member import build_spec
from lab.benchmarks.diloco.plain_member import make_inner, make_model, read_rows
from lab.benchmarks.diloco.racing import (
    OURS,
    PEERS,
    Race,
    Result,
    compare,
    explain,
    install_peer,
    race_all,
    run_once,
    summarize,
    write_plan,
)
from lab.benchmarks.diloco.verifiable import make_beacon
from tests.task_models import init_parameters
from touchstone.protocol.compute.batches import get_batch, open_corpus
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.step.record_step import next_token_loss

RACE = Race("0.2M", 1, 2, 1, 2, rows=2)
USUAL = Result(100.0, 1.0, 8e6, 4, 3.0)


def test_the_first_round_and_the_wait_for_the_slower_member_do_not_count() -> None:
    slow = {"inner_s": [9.0, 2.0, 2.0], "outer_s": [9.0, 0.5, 0.5], "bytes": [100, 500, 900]}
    fast = {"inner_s": [9.0, 1.0, 1.0], "outer_s": [9.0, 1.5, 1.5], "bytes": [110, 510, 910]}
    found = [{**one, "peak_bytes": n, "heldout": 2.5} for n, one in enumerate((slow, fast))]
    result = summarize(replace(RACE, rows=10, inner_steps=4), 5, found, True)
    assert result == Result((200 / 2 + 200 / 1) / 2, 0.5, 400.0, 1, 2.5)
    assert summarize(RACE, 5, found, False).outer_bytes is None, "others were on the network too"


def test_runs_are_compared_turn_by_turn_and_the_last_model_stands_for_outer_steps() -> None:
    theirs = [replace(USUAL, heldout=loss) for loss in (2.0, 2.5)]
    small = {OURS: [USUAL, replace(USUAL, tokens_s=300.0)], "torchft": theirs, "hivemind": []}
    large = {OURS: [replace(USUAL, outer_s=3.0, outer_bytes=2e6)], "torchft": [USUAL], "hivemind": [USUAL]}
    found = compare({"1M": small, "30M": large}, {"hivemind": "it fell"})
    assert found["tokens_vs_torchft"] == {"1M": 2.0, "30M": 1.0}
    assert found["tokens_vs_hivemind"] == {"1M": None, "30M": 1.0}
    assert (found["outer_vs_torchft"], found["bytes_vs_torchft"]) == (3.0, 0.25)
    assert found["loss_vs_torchft"] == pytest.approx((3.0 - 2.25) / 0.5)
    assert found["left_out"] == {"hivemind": "it fell"}


def test_a_peer_that_fails_is_left_out_and_ours_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(kind: str, race: Race, asked: str, seed: int) -> Result:
        if asked == kind:
            raise RuntimeError(f"{asked} fell")
        return USUAL

    monkeypatch.setattr(racing, "run_once", partial(fall, "hivemind"))
    table, failures = race_all([RACE], lambda line: None)
    assert {kind: len(own) for kind, own in table["0.2M"].items()} == {OURS: 2, "torchft": 2, "hivemind": 0}
    assert failures == {"hivemind": "hivemind fell"}
    monkeypatch.setattr(racing, "run_once", partial(fall, OURS))
    with pytest.raises(RuntimeError, match="fell"):
        race_all([RACE], lambda line: None)


def test_what_pip_said_is_told_and_another_pytorch_is_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def refuse(command: list[str], **_: object) -> None:
        asked.append(command[-1])
        raise subprocess.CalledProcessError(1, command, stderr="no matching version")

    monkeypatch.setattr(racing, "BUILD", tmp_path)
    monkeypatch.setattr(subprocess, "run", refuse)
    stamp = tmp_path / "training" / "torchft" / "installed"
    stamp.parent.mkdir(parents=True)
    stamp.write_text(f"torch=={torch.__version__.split('+')[0]} numpy {PEERS['torchft']}")
    assert install_peer("torchft") == stamp.parent / "bin" / "python" and not asked
    stamp.write_text(f"torch==1.0 numpy {PEERS['torchft']}")
    with pytest.raises(subprocess.CalledProcessError) as fault:
        install_peer("torchft")
    assert asked == [str(stamp.parent)] and "no matching version" in explain(fault.value)


def test_all_kinds_train_the_same_steps_on_the_same_rows(tmp_path: Path) -> None:
    plan = json.loads(json.dumps(write_plan(RACE, OURS, 3, tmp_path)))
    data = (tmp_path / "data").read_bytes()
    training, config = build_spec(plan, data).training, DecoderConfig(*plan["model"])
    corpus, beacon = open_corpus(data, training), make_beacon(3, 0)
    rows = [read_rows(data, plan["starts"][1][0][step], plan["tokens"]) for step in range(2)]
    shards = [
        shard
        for shard in range(2)
        if all(
            torch.equal(own, other)
            for own, other in zip(get_batch(corpus, training, beacon, shard, 1), rows[1], strict=True)
        )
    ]
    assert len(shards) == 1
    batches = partial(get_batch, corpus, training, beacon, shards[0])
    ours, losses = train_segment(begin_round(init_parameters(config, 3), 0), training, batches, 0, 2)
    model = make_model(config, init_parameters(config, 3))
    inner = make_inner(model, plan)
    for step, rate in zip(range(2), plan["rates"], strict=False):
        inner.param_groups[0]["lr"] = rate
        loss = next_token_loss(model, *rows[step])
        assert float(loss.detach()) == pytest.approx(losses[step], rel=1e-5)
        inner.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), AdamW().clip_norm)
        inner.step()
    flat = torch.cat([part.detach().reshape(-1) for part in model.parameters()])
    assert torch.allclose(flat, ours.weights, atol=1e-5)


def test_nodes_come_to_one_model_with_a_quarter_of_the_bytes_of_float32() -> None:
    result = run_once(replace(RACE, rounds=2), OURS, 1)
    assert result.tokens_s > 0 and result.outer_s > 0 and 4 < result.heldout < 6
    if result.outer_bytes is not None:
        assert 2 * 192_960 < result.outer_bytes < 3 * 192_960


def test_what_a_failed_member_said_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "OUTER_MOMENTUM", None)
    with pytest.raises(RuntimeError, match=r"(?s)touchstone at 0.2M: member \d: .*open_member"):
        run_once(RACE, OURS, 1)
