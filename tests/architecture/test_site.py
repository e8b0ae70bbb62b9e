"""The site: each page in the navigation, each link leads somewhere, services type commands that there are."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from asyncio.subprocess import DEVNULL
from pathlib import Path

import pytest

from tests.scripts.typed import parse
from touchstone.node.health import checks
from touchstone.protocol.adapters.reports.metrics_server import MetricsServer
from touchstone.scripts.command_line.command_errors import ExitCode
from touchstone.scripts.toolchain import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")))
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SERVICE, COMPOSE = DOCS / "deploy" / "touchstone@.service", DOCS / "deploy" / "compose.yaml"


def find_anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub and mkdocs make them."""
    headings = HEADING.findall(CODE.sub(lambda found: found[0].strip("`"), page.read_text()))
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}


def find_dead_links(page: Path) -> list[str]:
    """Links of a page to files and headings that are not there."""
    dead = []
    for link in LINK.findall(CODE.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        is_dead = not target.exists() or (anchor and anchor not in find_anchors(target))
        dead += [link] if "://" not in link and is_dead else []
    return dead


def test_each_page_is_in_the_navigation_once() -> None:
    named = re.findall(r"^ *- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_each_link_leads_somewhere(page: Path) -> None:
    assert find_dead_links(ROOT / page) == []


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Dead links of pages as mkdocs sees them, whose pages lie in other places than the files."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = [path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")]
    assert pages and all((tmp_path / page).is_file() for page in pages)


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text(
        "# A heading, here\n[a](#a-heading-here) [b](b.md) [c](a.md#no) [d](https://x.example)\n`[e](e.md)`\n"
    )
    assert find_dead_links(page) == ["b.md", "a.md#no"]


@pytest.mark.parametrize("role", ["solve", "verify", "watch"])
def test_services_type_a_command_that_asks_nothing(role: str) -> None:
    [line] = re.findall(r"^ExecStart=\S+/touchstone (.+)$", SERVICE.read_text(), re.MULTILINE)
    [words] = re.findall(r"^ +command: (\[.+\])$", COMPOSE.read_text(), re.MULTILINE)
    for typed in (shlex.split(line), json.loads(words)):
        known = [
            re.sub(r"\$\{ROLE\b[^}]*\}", role, re.sub(r"\$\{TASK\b[^}]*\}", "0x3fa9", one)) for one in typed
        ]
        command, options = parse(known)
        assert command == role and options["is_agreed"] and options["task"] == "0x3fa9"


def test_a_service_that_was_stopped_has_not_failed() -> None:
    """What fails starts again; what is paid out, or not needed any more, stays down."""
    unit = SERVICE.read_text()
    assert "\nRestart=on-failure\n" in unit and "restart: on-failure" in COMPOSE.read_text()
    assert f"\nRestartPreventExitStatus={ExitCode.NOT_NEEDED:d}\n" in unit, "also with Restart=always"
    assert f"\nSuccessExitStatus={ExitCode.NOT_NEEDED:d} {ExitCode.INTERRUPTED:d}\n" in unit


CONTAINER = DOCS / "deploy" / "Containerfile"


async def test_the_containers_health_check_is_true() -> None:
    """It runs as it stands in the file, against a node's server: 0 while the node is well, else another."""
    [typed] = re.findall(r"^    CMD (\[.+\])$", CONTAINER.read_text(), re.MULTILINE)
    issues: dict[str, str] = {}
    server = MetricsServer((), dict, lambda: issues)
    port = await server.start("127.0.0.1", 0)

    async def check() -> int:
        _, *words = json.loads(typed)
        env = {**os.environ, "TOUCHSTONE_METRICS_PORT": str(port)}
        process = await asyncio.create_subprocess_exec(sys.executable, *words, env=env, stderr=DEVNULL)
        return await process.wait()

    assert await check() == 0
    issues["rpc_silent"] = "the chain's node is silent"
    assert await check() != 0
    await server.stop()
    assert await check() != 0, "nobody answers"


def test_the_container_runs_the_wheel_as_a_user_without_rights() -> None:
    text = CONTAINER.read_text()
    assert "--from=wheel" in text and text.index("\nUSER node") < text.index("\nENTRYPOINT")


def test_systemd_hears_from_the_node_more_often_than_it_waits() -> None:
    unit = SERVICE.read_text()
    [patience_s] = map(int, re.findall(r"^WatchdogSec=(\d+)$", unit, re.MULTILINE))
    assert "\nType=notify\n" in unit and patience_s >= 60 * checks.LOOK_S
