"""A firewall in front of a machine: the machine reaches its own endpoint, and a peer tells that it does not.

Two network namespaces stand for two machines. Only root may make them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.network import ROOT
from tests.scripts.walled_node import ADDRESSES, NODE, PEER, PORT, make_home
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity

NAMES = {NODE: f"ts-node-{os.getpid()}", PEER: f"ts-peer-{os.getpid()}"}


def run_ip(*words: str) -> bool:
    """Whether `ip` did what it was told."""
    try:
        return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def start(seed: int, part: str, folder: Path) -> "subprocess.Popen[str]":
    """A process on the machine of this party."""
    words = ["ip", "netns", "exec", NAMES[seed], sys.executable, "-m", "tests.scripts.walled_node", part]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([*words, str(folder)], cwd=ROOT, **pipes)


@pytest.fixture
def machines() -> Iterator[None]:
    """Two machines with a cable between them."""
    try:
        for name in NAMES.values():
            if os.geteuid() != 0 or not run_ip("netns", "add", name):
                pytest.skip("network namespaces need root, and `ip`")
        ends = {NODE: f"tsn{os.getpid()}", PEER: f"tsp{os.getpid()}"}
        made = run_ip(
            "link", "add", ends[NODE], "netns", NAMES[NODE],
            "type", "veth", "peer", "name", ends[PEER], "netns", NAMES[PEER],
        )  # fmt: skip
        if not made:
            pytest.skip("this kernel has no virtual cables (veth)")
        for seed, end in ends.items():
            inside = ("-n", NAMES[seed])
            assert run_ip(*inside, "link", "set", "lo", "up")
            assert run_ip(*inside, "address", "add", f"{ADDRESSES[seed]}/24", "dev", end)
            assert run_ip(*inside, "link", "set", end, "up")
        # The rule that delivers to the machine's own addresses comes first by itself: here after a firewall.
        rule = ("-n", NAMES[NODE], "rule")
        assert run_ip(*rule, "add", "pref", "9", "lookup", "local")
        assert run_ip(*rule, "add", "pref", "4", "iif", "lo", "lookup", "local")
        assert run_ip(*rule, "delete", "pref", "0")
        yield
    finally:
        for name in NAMES.values():
            run_ip("netns", "delete", name)


@contextmanager
def firewall() -> Iterator[None]:
    """The node's machine drops what comes from outside to its port."""
    rule = ("pref", "5", "ipproto", "tcp", "dport", str(PORT), "to", ADDRESSES[NODE], "blackhole")
    assert run_ip("-n", NAMES[NODE], "rule", "add", *rule)
    try:
        yield
    finally:
        assert run_ip("-n", NAMES[NODE], "rule", "delete", *rule)


@contextmanager
def open_doctor(folder: Path) -> Iterator[Callable[[], dict[str, str]]]:
    """What looks on the node's machine, while the peer runs on its own."""
    peer, node = start(PEER, "peer", folder), start(NODE, "node", folder)
    assert peer.stdout and node.stdin and node.stdout

    def examine() -> dict[str, str]:
        assert node.stdin and node.stdout
        node.stdin.write("look\n")
        node.stdin.flush()
        found: dict[str, str] = json.loads(node.stdout.readline())
        return found

    try:
        assert peer.stdout.readline() == "ready\n"
        yield examine
    finally:
        for process in (node, peer):
            process.communicate()


@pytest.mark.usefixtures("machines")
def test_a_firewall_is_seen_by_a_peer_alone(tmp_path: Path) -> None:
    for seed in ADDRESSES:  # Both processes read all certificates.
        load_or_create_identity(make_home(tmp_path, seed))
    with open_doctor(tmp_path) as examine:
        found = examine()
        assert "leads to this node" in found["reach"]
        assert f"reaches this node at {ADDRESSES[NODE]}" in found["peers"]
        with firewall():
            found = examine()
        assert "leads to this node" in found["reach"]
        assert found["fault"] == "no peer that was asked reaches this node"
        assert f"no answer at {ADDRESSES[NODE]}" in found["actual"]
        assert f"reaches this node at {ADDRESSES[NODE]}" in examine()["peers"]
