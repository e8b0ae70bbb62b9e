"""`touchstone doctor` names each fault, provoked for real where that is cheap, else by a fault injected."""

import asyncio
import errno
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from msgspec import structs

from tests.e2e.world import AMOUNTS
from tests.faults.provider import PASS, Fault, Refusal, Request, lag, run_provider
from tests.node.specs import get_spec
from tests.scripts.money import Operators
from tests.scripts.network import ROOT, Network, edit_config
from tests.scripts.schemas import read_one
from touchstone.node.kit.config import STORE_FOLDER, describe_machine
from touchstone.node.kit.stored_step import keep_step
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.gate import LAG_BLOCKS
from touchstone.protocol.adapters.machine.determinism_fingerprint import DeterminismFingerprint, write_bits
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import advance
from touchstone.protocol.economics.gas_costs import price_gas
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.task_spec import NamedBytes, TrainingSpec
from touchstone.protocol.spec.training_codec import encode_training
from touchstone.scripts.doctor import (
    chain_checks,
    deployment_checks,
    endpoint_checks,
    home_checks,
    machine_checks,
    money_checks,
    provider_checks,
    room_checks,
)
from touchstone.scripts.doctor.patient import NotTested, Patient
from touchstone.scripts.home.home_config import GWEI, read_config
from touchstone.scripts.network.devnet import claim_port, give_coin
from touchstone.scripts.touchstone import main

Capture = pytest.CaptureFixture[str]
CHAIN, HEAD = chain_checks.check_chain, chain_checks.check_head
PROVIDER, LIMITS, FEE = (
    provider_checks.check_provider,
    deployment_checks.check_limits,
    deployment_checks.check_fee,
)
CHAINS_OF_ONE = "chain id 31337"
Check = Callable[[Patient], Any]


def make_patient(home: Path, **changes: Any) -> Patient:
    return Patient(home, config=read_config(home), **changes)


def get_view(patient: Patient, *checks: Check) -> str:
    """What the last check says, after the ones that it needs."""
    return asyncio.run(look_on(patient, *checks))


async def look_on(patient: Patient, *checks: Check) -> str:
    said = ""
    async with patient.opened:
        for check in checks:
            said = await check(patient)
    return said


def find(patient: Patient, *checks: Check) -> TouchstoneError:
    with pytest.raises(TouchstoneError) as error:
        get_view(patient, *checks)
    return error.value


def test_a_sound_home_has_no_fault(operators: Operators) -> None:
    """Every check, by the command; what it cannot look at it says."""
    task = operators.post_task("submitter")
    home = operators.home_of("alice")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    operators.capsys.readouterr()
    assert main(["doctor", task[:8], "--home", str(home), "--json"]) == 0
    found = read_one("doctor", operators.capsys.readouterr().out)
    assert found["faults"] == 0
    results = {one["check"]: one["result"] for one in found["checks"]}
    skipped = {name for name, result in results.items() if result == "not tested"}
    # A port of its choice, the skipping clock of a test network, no endpoint announced, no look at who uses
    # the machine, and no node that has run.
    assert skipped == {"port", "head", "peers", "use", "versions"} and len(results) == 21


def test_a_fault_is_four_lines_and_status_1(home: Path, capsys: Capture) -> None:
    edit_config(home, "rpc_url", f"http://127.0.0.1:{claim_port(0)}")
    assert main(["doctor", "--home", str(home)]) == 1
    out, err = capsys.readouterr()
    place = out.index("error:    the chain does not answer as it should")
    assert [line.split(":")[0] for line in out[place:].splitlines()[:4]] == [
        "error", "expected", "actual", "do",
    ]  # fmt: skip
    assert "not tested gas: there is no usable chain" in out and "1 fault was found" in out and err == ""
    assert main(["doctor", "--home", str(home), "--json"]) == 1
    assert read_one("doctor", capsys.readouterr().out)["faults"] == 1


def test_a_folder_that_is_no_home_has_one_fault(tmp_path: Path, capsys: Capture) -> None:
    assert main(["doctor", "--home", str(tmp_path), "--json"]) == 1
    found = read_one("doctor", capsys.readouterr().out)
    assert found["faults"] == 1 and found["checks"][0]["error"]["what"] == "this folder is no home"


# The chain
def test_a_wrong_chain_id(home: Path, network: Network, tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    path.write_text(json.dumps({**json.loads(network.deployment.read_text()), "chainId": 1}))
    edit_config(home, "deployment", str(path))
    edit_config(home, "deployment_sha256", "")
    fault = find(make_patient(home), CHAIN)
    assert "another chain" in fault.what and fault.expected == "chain id 1"


def test_a_chain_with_another_genesis(home: Path, network: Network, tmp_path: Path) -> None:
    """A fresh chain of the same id has no contract there."""
    path = tmp_path / "stale.json"
    path.write_text(json.dumps({**json.loads(network.deployment.read_text()), "rounds": "0x" + 40 * "8"}))
    edit_config(home, "deployment", str(path))
    edit_config(home, "deployment_sha256", "")
    fault = find(make_patient(home), CHAIN)
    assert "no contract at the address of Rounds" in fault.what and "began anew" in fault.remedy


@pytest.mark.parametrize(("shift_s", "word"), [(120, "ahead of"), (-120, "behind")])
def test_a_wrong_clock(home: Path, shift_s: int, word: str) -> None:
    """A chain that goes on, and a clock that is two minutes off from it."""
    edit_config(home, "preset", "2s")
    patient = make_patient(home)

    async def set_clock(patient: Patient) -> str:
        head = await patient.get_chain().head()
        offset_s = head.timestamp_s - time.time() + shift_s
        patient.now = lambda: time.time() + offset_s
        return ""

    fault = find(patient, CHAIN, set_clock, HEAD)
    assert "clock of this machine" in fault.what and f"0 s {word} block" in str(fault.actual)
    patient.now = time.time


def look_at_endpoints(home: Path, *urls: str) -> TouchstoneError:
    edit_config(home, "rpc_urls", list(urls))
    return find(make_patient(home), PROVIDER)


async def serve_faults(network: Network, home: Path, *faults: Fault) -> TouchstoneError:
    """What doctor says of a second endpoint with these faults, whose URL has a secret."""
    async with run_provider(network.rpc_url, *faults) as provider:
        edit_config(home, "rpc_urls", [f"{provider.url}?key=secret"])
        patient = make_patient(home)
        with pytest.raises(TouchstoneError) as error:
            async with patient.opened:
                await PROVIDER(patient)
    assert patient.sound_urls is not None and read_config(home).rpc_url in patient.sound_urls
    return error.value


def test_a_second_endpoint_that_never_answers_is_named(home: Path, network: Network) -> None:
    """The first one answers for it, so nothing else tells."""
    dead = f"http://127.0.0.1:{claim_port(0)}"
    fault = look_at_endpoints(home, f"{dead}/v3/secret", network.rpc_url)
    assert fault.what.startswith("1 of 3 endpoints")
    assert str(fault.actual).startswith(f"rpc_urls[0] {dead}/...: no answer that can be used")
    assert "secret" not in f"{fault.actual}{fault.where}" and network.rpc_url not in str(fault.actual)


async def test_a_second_endpoint_of_another_chain_is_named_and_not_read(home: Path, network: Network) -> None:
    async def tell_other(request: Request) -> Any:
        return "0x5" if request.method == "eth_chainId" else PASS

    fault = await serve_faults(network, home, tell_other)
    assert "rpc_urls[0] http://127.0.0.1:" in str(fault.actual) and "chain id 5" in str(fault.actual)
    assert "secret" not in str(fault.actual)
    assert CHAINS_OF_ONE in await look_on(make_patient(home, sound_urls=[network.rpc_url]), CHAIN)


async def test_a_copy_of_the_chain_is_told(home: Path, network: Network) -> None:
    """The same id and the same contracts, and another beginning."""

    async def begin_otherwise(request: Request) -> Any:
        if request.method != "eth_getBlockByNumber" or request.params[0] == "latest":
            return PASS
        return {**await request.ask(request.method, request.params), "hash": "0x" + "7" * 64}

    fault = await serve_faults(network, home, begin_otherwise)
    assert "where the deployment begins: 0x" in str(fault.actual) and "0x77777777 at rpc_urls[0]" in str(
        fault.actual
    )


async def test_a_second_endpoint_with_an_old_head_is_named(home: Path, network: Network) -> None:
    connection = Connection(network.rpc_url)
    await connection.request("anvil_mine", hex(3 * LAG_BLOCKS))  # It has the contracts.
    await connection.close()
    fault = await serve_faults(network, home, lag(LAG_BLOCKS + 3, 1.0))
    assert "an old head: block " in str(fault.actual)


async def test_a_second_endpoint_that_lacks_a_method_is_named(home: Path, network: Network) -> None:
    async def refuse(request: Request) -> Any:
        if request.method == "eth_getLogs" and "blockHash" in request.params[0]:
            raise Refusal("the method is not supported", -32601)
        return PASS

    fault = await serve_faults(network, home, refuse)
    assert "does not give logs by the hash of a block" in str(fault.actual)


def test_each_sound_endpoint_is_named(home: Path, network: Network) -> None:
    edit_config(home, "rpc_urls", [f"{network.rpc_url}/"])
    said = get_view(make_patient(home), PROVIDER)
    assert said.count("has what a node needs") == 2 and f"rpc_urls[0] {network.rpc_url}" in said


def test_without_any_sound_endpoint_the_chain_is_not_tested(home: Path) -> None:
    with pytest.raises(NotTested, match="no endpoint shows the deployment's chain"):
        get_view(make_patient(home, sound_urls=[]), CHAIN)


# What chain and deployment ask
def test_bounds_that_are_not_the_deployments(home: Path) -> None:
    assert get_view(make_patient(home), CHAIN, LIMITS) == "local, as the deployment's"
    edit_config(home, "preset", "12s")
    assert "other bounds than this home" in find(make_patient(home), CHAIN, LIMITS).what


@pytest.mark.parametrize(("share", "word"), [(3.0, "allows"), (1.5, "WARNING"), (0.5, "costs more")])
def test_the_most_that_gas_may_cost_is_compared_with_what_it_costs(
    home: Path, network: Network, monkeypatch: pytest.MonkeyPatch, share: float, word: str
) -> None:
    """A devnet asks for nothing."""
    usual = Connection.head

    async def head(connection: Connection) -> Any:
        return replace(await usual(connection), base_fee_wei=10 * GWEI)

    assert "pays what the chain asks" in get_view(make_patient(home), CHAIN, FEE)
    monkeypatch.setattr(Connection, "head", head)
    patient = make_patient(home)
    patient.config = replace_config(patient, max_fee_gwei=10 * share)
    if share < 1:
        fault = find(patient, CHAIN, FEE)
        assert word in fault.what and "20 or more" in str(fault.expected)
    else:
        said = get_view(patient, CHAIN, FEE)
        assert word in said and "costs 10 gwei now" in said


def test_the_coin_that_a_seat_keeps_is_the_alerts(operators: Operators) -> None:
    """Manual, alert and doctor have one figure."""
    alerts = (ROOT / "docs" / "monitoring" / "alerts.yml").read_text()
    assert f"touchstone_gas_left < {money_checks.KEPT_GAS / 1e6:.0f}e6 * touchstone_gas_factor" in alerts
    assert (
        f"{money_checks.KEPT_GAS / 1e6:.0f} million gas at the current price"
        in (ROOT / "docs" / "node.md").read_text()
    )
    home = operators.home_of("keeper")
    assert "WARNING" not in get_view(make_patient(home), CHAIN, money_checks.check_gas)

    async def leave_coin(chain: GameChain) -> None:
        price_wei = (await chain.head()).base_fee_wei + await chain.connection.priority_fee()
        await give_coin(chain.connection, chain.address, 47_000_000 * price_wei)

    operators.act("keeper", leave_coin)
    said = get_view(make_patient(home), CHAIN, money_checks.check_gas)
    assert "WARNING: at today's price that is 4" in said and "account needs 48" in said


def test_tokens_are_compared_with_what_a_seat_of_the_task_takes(operators: Operators) -> None:
    task = operators.post_task("submitter")
    patient = make_patient(operators.home_of("alice"), task_name=task[:8])
    checks = (CHAIN, chain_checks.check_task, money_checks.check_stake)
    assert "no seat yet; a seat takes " in get_view(patient, *checks)

    async def give_away(chain: GameChain) -> None:
        await chain.token.transfer("0x" + "12" * 20, await chain.token.balance_of(chain.address) - 5)

    operators.act("alice", give_away)
    fault = find(make_patient(operators.home_of("alice"), task_name=task[:8]), *checks)
    assert "too few tokens for a seat" in fault.what and "as an auditor" in str(fault.expected)


class StandingChain:
    """A node whose newest block is old. grown_s: what its chain grows by with each look."""

    def __init__(self, age_s: float, grown_s: int = 0, syncing: object = False) -> None:
        self.first_s, self.grown_s, self.looks, self.syncing = time.time() - age_s, grown_s, 0, syncing
        self.connection = SimpleNamespace(place="http://node", request=self.request)

    async def request(self, method: str) -> object:
        return self.syncing

    async def head(self) -> Any:
        self.looks += 1
        growth = self.grown_s * (self.looks - 1)
        return SimpleNamespace(number=7 + growth // 2, timestamp_s=int(self.first_s + growth))


@pytest.mark.parametrize(
    ("chain", "said"),
    [
        (StandingChain(3600), "and no other in"),
        (StandingChain(7200, grown_s=600), "catching up"),
        (StandingChain(0, syncing={"currentBlock": "0x1"}), "catching up"),
    ],
)
def test_a_lagging_head(home: Path, chain: StandingChain, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_checks, "LOOK_S", 0.05)
    monkeypatch.setattr(chain_checks, "BLOCK_S", {"2s": 0.1})
    edit_config(home, "preset", "2s")
    fault = find(make_patient(home, chain=cast(Any, chain)), HEAD)
    assert "lags behind" in fault.what and said in str(fault.actual)


def test_a_balance_below_the_gas_of_a_round(operators: Operators) -> None:
    home = operators.home_of("poor")
    assert "enough for" in get_view(make_patient(home), CHAIN, money_checks.check_gas)
    operators.take_coin("poor")
    fault = find(make_patient(home), CHAIN, money_checks.check_gas)
    assert "gas of one round" in fault.what and fault.actual == "0.000000000 coin"


def test_where_calls_take_more_gas_a_round_takes_more_coin(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork may let storage cost five times as much: the figures that Touchstone has do not know of it."""
    home, factor = operators.home_of("thrifty"), 5
    head_price = get_view(make_patient(home), CHAIN, money_checks.check_gas)
    assert "times as much gas" not in head_price
    estimate = Connection.estimate_gas

    async def estimate_more(connection: Connection, *call: Any) -> int:
        return factor * await estimate(connection, *call)

    def leave_coin_of(rounds: int) -> None:
        """As the figures count them."""

        async def leave(chain: GameChain) -> None:
            price_wei = (await chain.head()).base_fee_wei + await chain.connection.priority_fee()
            round_wei = price_gas(price_wei, money_checks.CONTEST_LEVELS, 0).solver_round
            await give_coin(chain.connection, chain.address, rounds * round_wei)

        operators.act("thrifty", leave)

    leave_coin_of(4)
    assert "enough for 4 rounds" in get_view(make_patient(home), CHAIN, money_checks.check_gas)
    monkeypatch.setattr(Connection, "estimate_gas", estimate_more)
    assert "gas of one round" in find(make_patient(home), CHAIN, money_checks.check_gas).what
    leave_coin_of(6)
    said = get_view(make_patient(home), CHAIN, money_checks.check_gas)
    assert "enough for 1 rounds" in said and "calls take 5.0 times as much gas" in said


def test_a_seat_below_its_stake(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    patient = make_patient(operators.home_of("alice"), task_name=task[:8])
    checks = (CHAIN, chain_checks.check_task, money_checks.check_stake)
    assert get_view(patient, *checks).startswith("1 seat, with at least")
    # As a fee that was taken at settlement leaves it.
    monkeypatch.setattr(money_checks, "get_stake", lambda game, number: AMOUNTS.auditor_stake - 1)
    fault = find(replace(patient, opened=Patient(patient.home).opened), *checks)
    assert "less at stake" in fault.what and f"verifier 0 of 0x{task[:12]}" in fault.where


# The home
def test_a_home_that_cannot_be_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "written" in get_view(make_patient(home), home_checks.check_writing)
    assert not list(home.glob(".doctor-*"))

    def refuse(folder: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))

    monkeypatch.setattr(home_checks, "try_to_write", refuse)
    fault = find(make_patient(home), home_checks.check_writing)
    assert "the disk refuses" in fault.what and fault.actual == "Read-only file system"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes also where the mode forbids it")
def test_a_home_whose_mode_forbids_writing(home: Path) -> None:
    home.chmod(0o500)
    try:
        assert "Permission denied" in str(find(make_patient(home), home_checks.check_writing).actual)
    finally:
        home.chmod(0o700)


def test_a_password_file_that_others_can_read(home: Path, password: Path) -> None:
    assert "opens" in get_view(make_patient(home), home_checks.check_key)
    password.chmod(0o644)
    fault = find(make_patient(home), home_checks.check_key)
    assert fault.where == str(password) and "0644" in str(fault.actual) and "chmod 600" in fault.remedy


def test_a_disk_below_need(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MB free" in get_view(make_patient(home), room_checks.check_disk)
    usage = SimpleNamespace(free=900_000_000)
    monkeypatch.setattr("touchstone.scripts.seats.seat_needs.shutil.disk_usage", lambda path: usage)
    fault = find(make_patient(home), room_checks.check_disk)
    assert "too little room" in fault.what and fault.actual == "900 MB free"


# The endpoint
def test_a_port_that_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        patient = make_patient(home)
        patient.config = replace_config(patient, listen_port=port)
        fault = find(patient, endpoint_checks.check_port)
    assert "cannot listen" in fault.what and f"127.0.0.1:{port}" in str(fault.expected)
    patient.config = replace_config(patient, listen_port=claim_port(0))
    assert "is free" in get_view(patient, endpoint_checks.check_port)


def replace_config(patient: Patient, **changes: Any) -> Any:
    return structs.replace(patient.get_config(), **changes)


def test_an_endpoint_on_all_addresses(home: Path) -> None:
    edit_config(home, "listen_host", "0.0.0.0")
    fault = find(make_patient(home), endpoint_checks.check_endpoint)
    assert "no peer could use" in fault.what and "0.0.0.0" in str(fault.actual)


def test_an_endpoint_that_peers_cannot_reach(home: Path) -> None:
    patient = make_patient(home)
    assert "leads to this node" in get_view(patient, endpoint_checks.check_reach)
    patient.config = replace_config(patient, public_url=f"https://127.0.0.1:{claim_port(0)}")
    fault = find(patient, endpoint_checks.check_reach)
    assert "peers cannot reach" in fault.what and "refused" in str(fault.actual).lower()


# The machine
def test_a_changed_torch(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotTested):
        get_view(make_patient(home), machine_checks.check_versions)
    write_bits(home, {"ab" * 32: DeterminismFingerprint("python 3.11, torch 2.6.0", "00" * 32)})
    monkeypatch.setattr(machine_checks, "describe_machine", lambda: "python 3.11, torch 2.7.1")
    fault = find(make_patient(home), machine_checks.check_versions)
    assert (fault.expected, fault.actual) == ("torch 2.6.0", "torch 2.7.1")
    write_bits(home, {"ab" * 32: DeterminismFingerprint("python 3.11, torch 2.7.1", "00" * 32)})
    assert get_view(make_patient(home), machine_checks.check_versions) == "as in the last run"


def test_a_node_that_ran_here_has_the_same_versions(home: Path) -> None:
    """The command begins with other kernels than a node, which pins its own and describes them then."""
    pin_kernels(1)
    write_bits(home, {"ab" * 32: DeterminismFingerprint(describe_machine(), "00" * 32)})
    torch.set_deterministic_debug_mode("default")
    torch.set_num_threads(2)
    assert get_view(make_patient(home), machine_checks.check_versions) == "as in the last run"
    pin_kernels(1)


def test_bits_that_do_not_repeat(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number of the second run is off by its last bit."""
    training, runs = machine_checks.sketch_training(), list[float]()

    def err(*arguments: Any) -> Any:
        end, loss = advance(*arguments)
        runs.append(loss)
        if len(runs) == 2:
            weights = end.weights.clone()
            weights[7] = weights[7] * (1 + 2.0**-23)
            end = replace(end, weights=weights)
        return end, loss

    machine_checks.require_repeated_bits(training, 1, "cpu")
    monkeypatch.setattr(machine_checks, "advance", err)
    fault = find(make_patient(home), machine_checks.check_bits)
    assert "other bits each time" in fault.what and str(fault.actual) not in str(fault.expected)


def test_a_task_that_no_node_would_join_is_not_computed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stranger has posted could take all memory of the machine, and a node beside it its stake."""
    computed: list[TrainingSpec] = []
    monkeypatch.setattr(
        machine_checks, "require_repeated_bits", lambda training, *rest: computed.append(training)
    )
    spec, task = get_spec(), b"t" * 32
    keep_step(BlobStore(home / STORE_FOLDER, is_durable=False), spec.training, get_step(spec.training))

    def name(training: TrainingSpec) -> Patient:
        state = SimpleNamespace(
            games={task: None}, texts={task: encode_training(training)}, task_terms={task: spec.terms}
        )
        return make_patient(home, task_name="0x74", task=task, state=cast(Any, state))

    get_view(name(spec.training), machine_checks.check_bits)
    assert computed == [spec.training]
    huge = replace(spec.training, program=NamedBytes(bytes(32), 1 << 40))
    fault = find(name(huge), machine_checks.check_bits)
    assert "malformed" in fault.what and computed == [spec.training]
