"""A node as a process, over a chain's node that is spoiled: its log, its metrics, and `touchstone status`."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.scripts.network import DEADLINE_S, ROOT, Network, edit_config, init, wait_for_line
from tests.scripts.schemas import check
from touchstone.protocol.adapters.reports.node_state import read_node_state
from touchstone.scripts.network.devnet import claim_port
from touchstone.scripts.touchstone import main


@dataclass
class Proxy:
    """Stands before the chain's node. mode: `pass`, `hang` (takes a request and never answers), `drop` (hangs
    up), `other` (says that it is chain 5)."""

    target: str
    mode: str = "pass"
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, body: bytes) -> bytes | None:
        mode = self.mode
        if mode == "hang":
            self.released.wait(DEADLINE_S)
        if mode in ("hang", "drop"):
            return None
        request = json.loads(body)
        if mode == "other" and request["method"] == "eth_chainId":
            return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": "0x5"}).encode()
        asked = urllib.request.Request(self.target, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked) as answer:
            found: bytes = answer.read()
            return found


@pytest.fixture
def proxy(network: Network) -> Iterator[tuple[Proxy, str]]:
    proxy = Proxy(network.rpc_url)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer = proxy.answer(self.rfile.read(int(self.headers["Content-Length"])))
            if answer is None:
                self.close_connection = True
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield proxy, f"http://127.0.0.1:{server.server_port}"
    proxy.released.set()
    server.shutdown()
    server.server_close()


@dataclass
class Node:
    """A node of a home, started again and again; its standard error is `log`."""

    home: Path
    log: Path
    environment: dict[str, str]
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.scripts.watched_node", str(self.home)]
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"up\n", self.log.read_text()

    def end(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.communicate()

    def wait(self, words: str) -> str:
        """The line with these words, once it is there."""
        return wait_for_line(self.log, f"(.*{words}.*)")


@pytest.fixture
def node(network: Network, proxy: tuple[Proxy, str], tmp_path: Path, password: Path) -> Iterator[Node]:
    home = tmp_path / "home"
    assert init(network, home, password) == 0
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TOUCHSTONE_RPC_URL": proxy[1],
        "TOUCHSTONE_PASSWORD_FILE": str(password),
    }
    node = Node(home, tmp_path / "log", environment)
    yield node
    if node.process is not None and node.process.poll() is None:
        node.end(signal.SIGKILL)


def read_status(home: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["status", "--home", str(home)]) == 0
    return capsys.readouterr().out


def read_metrics(port: int) -> dict[str, float]:
    """The samples of a running node; of those with labels each by its first one's value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {" ".join([one.name, *list(one.labels.values())[:1]]): one.value for one in samples}


def wait_for_metric(port: int, name: str, value: float) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while read_metrics(port).get(name) != value:
        assert time.monotonic() < deadline_s, read_metrics(port)
        time.sleep(0.2)


def test_health_issues_are_in_the_log_in_the_metrics_and_in_the_status(
    node: Node,
    proxy: tuple[Proxy, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = claim_port(0)
    node.environment["TOUCHSTONE_METRICS_PORT"] = str(port)
    monkeypatch.setenv("COLUMNS", "200")
    node.start()
    first = read_metrics(port)
    assert first["touchstone_health_issue rpc_silent"] == 0 == first["touchstone_restarts"]
    assert first["touchstone_head_block"] > 0 and first["touchstone_disk_free_bytes"] > 0
    assert first["process_resident_memory_bytes"] > 1e7
    for mode, kind, words in (
        ("hang", "rpc_silent", "node is silent"),
        ("other", "chain_changed", "another chain: chain id 5"),
        ("drop", "rpc_silent", "node is silent"),
    ):
        node.log.write_bytes(b"")
        proxy[0].mode = mode
        node.wait(words)
        wait_for_metric(port, f"touchstone_health_issue {kind}", 1)
        # The home's config.toml names the chain's node itself, which answers.
        assert words in read_status(node.home, capsys)
        proxy[0].mode = "pass"
        proxy[0].released.set()
        node.wait(", after ")
        wait_for_metric(port, f"touchstone_health_issue {kind}", 0)
        assert words not in read_status(node.home, capsys)
        proxy[0].released = threading.Event()
    last = read_metrics(port)
    assert last["touchstone_health_issues_total rpc_silent"] == 2
    assert last["touchstone_rpc_errors_total connection"] > 0


def test_one_endpoint_of_two_is_named_once_when_it_fails_and_once_when_it_is_back(
    node: Node, proxy: tuple[Proxy, str], network: Network
) -> None:
    """The other one answers for it all the time."""
    port = claim_port(0)
    node.environment |= {"TOUCHSTONE_METRICS_PORT": str(port), "TOUCHSTONE_RPC_URL": network.rpc_url}
    edit_config(node.home, "rpc_urls", [proxy[1]])
    node.start()
    name = rf"the endpoint rpc_urls\[0\] {proxy[1]}"
    for mode, kind, words, over in (
        ("drop", "endpoint_silent", "does not answer", "answers again"),
        ("other", "chain_changed", "shows another chain: chain id 5", "shows the deployment's chain again"),
    ):
        node.log.write_bytes(b"")
        proxy[0].mode = mode
        node.wait(f"{name} {words}")
        wait_for_metric(port, f"touchstone_health_issue {kind}", 1)
        proxy[0].mode = "pass"
        node.wait(f"{name} {over}, after ")
        wait_for_metric(port, f"touchstone_health_issue {kind}", 0)
        lines = [line for line in node.log.read_text().splitlines() if "WARNING" in line]
        assert len(lines) == 2, lines
    assert read_metrics(port)["touchstone_health_issues_total rpc_silent"] == 0


def test_a_status_is_told_where_the_chain_is_silent_too(
    node: Node,
    proxy: tuple[Proxy, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node.start()
    proxy[0].mode = "drop"
    node.wait("node is silent")
    monkeypatch.setenv("TOUCHSTONE_RPC_URL", proxy[1])
    capsys.readouterr()
    assert main(["status", "--home", str(node.home)]) == 2
    said = capsys.readouterr()
    assert "node is silent" in said.out and "the chain does not answer" in said.err


def test_a_node_that_was_killed_says_so_at_its_next_start(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "node of this home" not in read_status(node.home, capsys)
    node.start()
    assert "has run for" in read_status(node.home, capsys)
    node.end(signal.SIGKILL)
    node.start()
    assert "was killed" in node.wait("was restarted")
    assert "started again once; the run before was killed" in read_status(node.home, capsys)
    node.end(signal.SIGINT)
    assert "does not run: it was stopped" in read_status(node.home, capsys)
    node.start()
    capsys.readouterr()
    assert main(["status", "--home", str(node.home), "--json"]) == 0
    found = check("status", json.loads(capsys.readouterr().out))["node"]
    state = read_node_state(node.home)
    assert state is not None and found["running"] is True and found["health_issues"] == []
    assert (found["restarts"], found["kills"]) == (2, 1) == (state.restarts, state.kills)
